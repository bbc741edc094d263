//! TCP connections to a server.

use nerve_types::os::set_tcp_keepalive;
use tokio::net::TcpStream;

use crate::error::ClientError;

/// Connects to a TCP address. `host`: a name, or an address without brackets.
pub(crate) async fn connect(host: &str, port: u16) -> Result<TcpStream, ClientError> {
    let failed = |source| {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        ClientError::Io { action: format!("cannot connect to {host}:{port}"), source }
    };
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    set_tcp_keepalive(&stream).map_err(failed)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn kernel_drops_server_that_acknowledges_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect("127.0.0.1", listener.local_addr().unwrap().port()).await.unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 60_000);
    }
}
