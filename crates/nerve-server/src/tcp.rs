//! TCP: ports that take clients, with TLS or without, and the wire's lines over them.

use std::future::Future;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use nerve_proto::framing::{Frame, LineReader, MAX_LINE_BYTES};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::access::{Door, Stranger};
use crate::connection::{self, Link};
use crate::convert::{self, Authenticate};
use crate::error::ServerError;
use crate::http;
use crate::server::{CLOSE_PATIENCE, Clients, ServerConfig};
use crate::serving::Serving;
use crate::unix::ACCEPT_PAUSE;

/// How long a client may take for the handshake of TLS.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take to show its token.
const TOKEN_PATIENCE: Duration = Duration::from_secs(10);
/// The longest first line, in bytes: a token fits.
const FIRST_LINE: usize = 4096;

/// What a server listens on beside its Unix socket.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) tcp: Option<Port>,
    pub(crate) http: Option<Port>,
    door: Arc<Door>,
}

impl Network {
    /// Listens where the config says so; `None` if it names no address.
    pub(crate) fn open(config: &ServerConfig) -> Result<Option<Network>, ServerError> {
        if config.tcp.is_none() && config.http.is_none() {
            return Ok(None);
        }
        config.token.obtain()?;
        let port = |address: Option<SocketAddr>, alpn: &[&[u8]]| {
            let tls = config.tls.as_ref().map(|files| files.load(alpn)).transpose()?;
            address.map(|address| Port::open(address, tls.map(TlsAcceptor::from))).transpose()
        };
        let (tcp, http) = (port(config.tcp, &[])?, port(config.http, &[b"http/1.1"])?);
        Ok(Some(Network { tcp, http, door: Arc::new(Door::new(config.token.clone())) }))
    }

    /// Takes clients until this is dropped.
    pub(crate) async fn serve(self, serving: &Arc<Serving>, clients: &Clients) -> Result<(), ServerError> {
        let Network { tcp, http, door } = self;
        let lines = async {
            let Some(port) = tcp else { return std::future::pending().await };
            let (serving, door) = (serving.clone(), door.clone());
            port.accept(clients, &door.clone(), move |visitor| {
                serve_lines(visitor, serving.clone(), door.clone())
            })
            .await
        };
        let requests = async {
            let Some(port) = http else { return std::future::pending().await };
            let site = http::Site::new(serving.clone(), door.clone(), port.address());
            port.accept(clients, &door, move |visitor| http::serve(visitor, site.clone())).await
        };
        tokio::select! {
            outcome = lines => outcome,
            outcome = requests => outcome,
        }
    }
}

/// A client that has come over a network and not shown a token yet.
pub(crate) struct Visitor {
    pub(crate) link: Link,
    pub(crate) peer: SocketAddr,
    /// Dropped when the client has shown it.
    pub(crate) stranger: Stranger,
}

/// A port that is listened on.
pub(crate) struct Port {
    listener: StdListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("address", &self.address).field("tls", &self.tls.is_some()).finish()
    }
}

impl Port {
    fn open(address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<Port, ServerError> {
        let failed = |source| ServerError::Port { address, source };
        let listener = StdListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Port { listener, address, tls })
    }

    /// Where it listens, with the port the system chose.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes clients until this is dropped; each is served in a task of its own, after the handshake.
    async fn accept<F, S>(self, clients: &Clients, door: &Arc<Door>, serve: F) -> Result<(), ServerError>
    where
        F: Fn(Visitor) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let failed = |source| ServerError::Port { address: self.address, source };
        let listener = TcpListener::from_std(self.listener).map_err(failed)?;
        tracing::info!(address = %self.address, tls = self.tls.is_some(), "listening");
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(stranger) = door.stranger().filter(|_| !clients.is_full()) else {
                tracing::warn!(%peer, "too many connections: one was turned away");
                continue;
            };
            let (tls, serve) = (self.tls.clone(), serve.clone());
            clients.tracker.spawn(async move {
                match set_up(stream, tls).await {
                    Ok(link) => serve(Visitor { link, peer, stranger }).await,
                    Err(error) => tracing::info!(%peer, %error, "a connection came to nothing"),
                }
            });
        }
    }
}

async fn set_up(stream: TcpStream, tls: Option<TlsAcceptor>) -> std::io::Result<Link> {
    // A request is one small write, and so is its answer.
    stream.set_nodelay(true)?;
    let Some(tls) = tls else { return Link::tcp(stream) };
    let watch = connection::watch_tcp(&stream)?;
    let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no TLS handshake in time");
    let stream = tokio::time::timeout(HANDSHAKE_PATIENCE, tls.accept(stream)).await.map_err(late)??;
    Ok(Link::over(stream, watch))
}

/// Lets in a client that shows the token in its first message, and serves it as on the Unix socket.
async fn serve_lines(visitor: Visitor, serving: Arc<Serving>, door: Arc<Door>) {
    let Visitor { link: Link { read, mut write, hung_up }, peer, stranger } = visitor;
    let mut lines = LineReader::with_limit(read, FIRST_LINE);
    let first = tokio::select! {
        first = tokio::time::timeout(TOKEN_PATIENCE, lines.next()) => first,
        () = serving.closing.cancelled() => return,
    };
    let request = match first {
        Ok(Ok(Frame::Line(line))) => convert::authenticate(&line),
        Ok(Ok(Frame::TooLong { .. })) => {
            Err(convert::error_line("no message before AUTHENTICATE may be so long"))
        }
        Ok(Ok(Frame::Eof { .. }) | Err(_)) => return,
        Err(_) => Err(convert::error_line(format!("no AUTHENTICATE within {} s", TOKEN_PATIENCE.as_secs()))),
    };
    let answer = match request {
        Ok(Authenticate { token, answer }) => match door.knock(token.as_deref(), peer.ip()).await {
            Ok(()) => Ok(answer.authenticated()),
            Err(error) => Err(answer.failed(error)),
        },
        Err(line) => Err(line),
    };
    let (line, is_in) = match answer {
        Ok(line) => (line, true),
        Err(line) => (line, false),
    };
    let written = tokio::time::timeout(CLOSE_PATIENCE, write.write_all(&line)).await;
    if !is_in || !matches!(written, Ok(Ok(()))) {
        let _ = tokio::time::timeout(CLOSE_PATIENCE, write.shutdown()).await;
        return;
    }
    drop(stranger);
    lines.set_limit(MAX_LINE_BYTES);
    connection::talk(lines, write, hung_up, serving).await;
}
