//! The ways to a server, each of which can be gone again.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::RequestName;
use nerve_api::framing::encode;
use nerve_api::{RequestId, RequestMessage};
use rustix::net::sockopt;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::connection::{Connection, Line};
use crate::error::ClientError;
use crate::inbox::Inbox;
use crate::pending::{Extras, PendingReply};
use crate::socket;
use crate::tls::{Tls, split};

/// A machine that is switched off does not say so: after this time of silence the kernel asks it, so often, at such intervals.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBES: u32 = 4;
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// How a server is reached.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// Its Unix socket.
    Unix(PathBuf),
    /// Lines over TCP.
    Tcp {
        /// `host:port`.
        address: String,
        token: Secret,
        tls: Tls,
    },
    /// The WebSocket of its HTTP.
    Http {
        /// `http://host:port` or `https://host:port`.
        url: String,
        token: Secret,
        tls: Tls,
    },
}

/// A token, which no log is to have.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Way {
    /// Makes a connection that is let in.
    pub(crate) async fn dial(&self, inbox: &Arc<Inbox>, muted: bool) -> Result<Connection, ClientError> {
        match self {
            Way::Unix(path) => {
                let socket = UnixStream::connect(path).await.map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NotRunning {
                        path: path.clone(),
                        hint: "start one with: nerve server start",
                    },
                    _ => ClientError::Io { action: format!("cannot connect to {}", path.display()), source },
                })?;
                let (reading, writing) = socket.into_split();
                Ok(Connection::over(reading, writing, inbox, muted))
            }
            Way::Tcp { address, token, tls } => {
                let (host, port) = split(address)
                    .ok_or_else(|| ClientError::Protocol(format!("{address:?} is not 'host:port'")))?;
                let stream = tcp(host, port).await?;
                let connection = match tls {
                    Tls::Off => {
                        let (reading, writing) = stream.into_split();
                        Connection::over(reading, writing, inbox, muted)
                    }
                    tls => over(tls.connect(stream, host).await?, inbox, muted),
                };
                let shown = json!({ "token": token.0 });
                let shown = shown.as_object().cloned().unwrap_or_default();
                let mut reply =
                    ask(&connection, inbox, RequestName::Authenticate, shown, Extras::default()).await?;
                reply.wait().await.outcome?;
                Ok(connection)
            }
            Way::Http { url, token, tls } => socket::open(url, &token.0, tls, inbox, muted).await,
        }
    }
}

/// Over a stream that cannot be split for free.
pub(crate) fn over(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    inbox: &Arc<Inbox>,
    muted: bool,
) -> Connection {
    let (reading, writing) = tokio::io::split(stream);
    Connection::over(reading, writing, inbox, muted)
}

/// Sends a request over this one connection.
pub(crate) async fn ask(
    connection: &Connection,
    inbox: &Inbox,
    command: RequestName,
    params: Map<String, Value>,
    extras: Extras,
) -> Result<PendingReply, ClientError> {
    connection.send(line(inbox, command, params)?, extras).await
}

/// A request as a line, with an id of its own.
pub(crate) fn line(
    inbox: &Inbox,
    command: RequestName,
    params: Map<String, Value>,
) -> Result<Line, ClientError> {
    let id = inbox.new_id();
    let bytes = encode(&RequestMessage::new(command, params, RequestId::Text(id.to_string())))
        .map_err(|error| ClientError::Protocol(format!("{command}: {error}")))?;
    Ok(Line { id, bytes: bytes.into() })
}

pub(crate) async fn tcp(host: &str, port: u16) -> Result<TcpStream, ClientError> {
    let failed = |source| {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        ClientError::Io { action: format!("cannot connect to {host}:{port}"), source }
    };
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    probe(&stream).map_err(|error| failed(error.into()))?;
    Ok(stream)
}

fn probe(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)
}
