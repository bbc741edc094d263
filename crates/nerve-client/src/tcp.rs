//! TCP connections to a server.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

use crate::error::ClientError;

/// Silence after which keepalive probes begin.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Interval between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Unanswered probes after which a connection is closed.
const KEEPALIVE_PROBES: u32 = 3;
/// Milliseconds after which unacknowledged data end a connection. No probes are sent while data are in flight, as a pending request
/// usually is.
const USER_TIMEOUT_MS: u32 = 60_000;

/// Connects to a TCP address. `host`: a name, or an address without brackets.
pub(crate) async fn connect(host: &str, port: u16) -> Result<TcpStream, ClientError> {
    let failed = |source| {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        ClientError::Io { action: format!("cannot connect to {host}:{port}"), source }
    };
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    set_keepalive(&stream).map_err(|error| failed(error.into()))?;
    Ok(stream)
}

/// Makes the kernel detect a peer that vanished without closing (tcp(7), SO_KEEPALIVE, TCP_USER_TIMEOUT).
fn set_keepalive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(stream, USER_TIMEOUT_MS)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn kernel_drops_server_that_acknowledges_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect("127.0.0.1", listener.local_addr().unwrap().port()).await.unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), USER_TIMEOUT_MS);
        // TCP_USER_TIMEOUT overrides the keepalive schedule (tcp(7)): both amount to a minute.
        let probed = KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES;
        assert_eq!(probed.as_millis(), u128::from(USER_TIMEOUT_MS));
    }
}
