//! The address of a server, from which connections are made.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use nerve_api::RequestName;
use nerve_api::request::Authenticate;
use nerve_types::network_address::split_host_port;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::connection::{Connection, encode_request};
use crate::error::ClientError;
use crate::event_router::EventRouter;
use crate::pending_requests::ReplyHooks;
use crate::ssh;
use crate::ssh_target::SshTarget;
use crate::tcp;
use crate::tls::Tls;
use crate::websocket;

/// The address of a server.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// The line protocol over TCP.
    Tcp {
        /// `host:port`.
        address: String,
        token: Secret,
        tls: Tls,
    },
    /// The WebSocket of the HTTP interface.
    Http {
        /// `http://host:port` or `https://host:port`.
        url: String,
        token: Secret,
        tls: Tls,
    },
    /// The line protocol over `ssh MACHINE nerve connect`.
    Ssh(Box<SshTarget>),
}

/// A token, hidden in `Debug` output.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Endpoint {
    /// Connects and authenticates. `muted`: see [`Connection::new`].
    pub(crate) async fn connect(
        &self,
        router: &Arc<EventRouter>,
        muted: bool,
    ) -> Result<Connection, ClientError> {
        match self {
            Endpoint::Unix(path) => {
                let socket = UnixStream::connect(path).await.map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NotRunning {
                        path: path.clone(),
                        hint: "start one with: nerve server start",
                    },
                    _ => ClientError::Io { action: format!("cannot connect to {}", path.display()), source },
                })?;
                let (reader, writer) = socket.into_split();
                Ok(Connection::over(reader, writer, router, muted))
            }
            Endpoint::Tcp { address, token, tls } => {
                let (host, port) = split_host_port(address)
                    .ok_or_else(|| ClientError::Protocol(format!("{address:?} is not 'host:port'")))?;
                let stream = tcp::connect(host, port).await?;
                let connection = match tls {
                    Tls::Off => {
                        let (reader, writer) = stream.into_split();
                        Connection::over(reader, writer, router, muted)
                    }
                    tls => wrap_stream(tls.connect(stream, host).await?, router, muted),
                };
                let request = Authenticate { token: Some(token.0.clone()) };
                let line = encode_request(router, RequestName::Authenticate, &request)?;
                connection.send(line, ReplyHooks::default()).await?.wait().await.outcome?;
                Ok(connection)
            }
            Endpoint::Http { url, token, tls } => websocket::open(url, &token.0, tls, router, muted).await,
            Endpoint::Ssh(target) => ssh::open(target, router, muted).await,
        }
    }
}

/// Creates a connection over a stream that cannot split itself, such as TLS.
pub(crate) fn wrap_stream(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    router: &Arc<EventRouter>,
    muted: bool,
) -> Connection {
    let (reader, writer) = tokio::io::split(stream);
    Connection::over(reader, writer, router, muted)
}
