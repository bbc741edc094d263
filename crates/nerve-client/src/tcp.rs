//! TCP connections to a server.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

use crate::error::ClientError;

/// Keepalive settings, with which the kernel detects a vanished peer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_PROBES: u32 = 4;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

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

fn set_keepalive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)
}
