//! TCP listeners, with or without TLS.

use nerve_api::ErrorKind;
use std::future::Future;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nerve_machine::relay::MachineRelay;
use nerve_types::os::set_tcp_keepalive;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::access::{Authenticator, LogLimiter};
use crate::clients::{Clients, PendingClient};
use crate::config::ServerConfig;
use crate::daemon::Addresses;
use crate::error::ServerError;
use crate::handshake;
use crate::http;
use crate::line::error_line;
use crate::link::{self, Link};
use crate::refusal::{ACCEPT_PAUSE, NO_DESCRIPTOR, SpareDescriptor, refuse};
use crate::state::ServerState;
use crate::web::Web;

/// Time that a client may take for the TLS handshake.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The network listeners of a server.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) tcp: Option<TcpPort>,
    pub(crate) http: Option<TcpPort>,
    setup: http::HttpConfig,
    authenticator: Arc<Authenticator>,
}

impl Network {
    /// Binds the configured addresses; returns `None` if there are none.
    pub(crate) fn open(config: &ServerConfig) -> Result<Option<Network>, ServerError> {
        if config.tcp.is_none() && config.http.is_none() {
            return Ok(None);
        }
        config.token.obtain()?;
        let tcp = config.tcp.map(|address| TcpPort::bind(config, address, &[])).transpose()?;
        let http = config.http.map(|address| TcpPort::bind(config, address, http::PROTOCOLS)).transpose()?;
        let web = Web::new(
            &config.paths,
            &config.name,
            config.tls.is_some(),
            config.http_names.first().map(String::as_str),
        )?;
        let setup = http::HttpConfig {
            names: config.http_names.clone(),
            mounts: config.mounts.clone(),
            web: Arc::new(web),
            openai: config.paths.openai(),
            relay: config.machines.clone().map(|machines| Arc::new(MachineRelay::new(machines))),
        };
        Ok(Some(Network {
            tcp,
            http,
            setup,
            authenticator: Arc::new(Authenticator::new(config.token.clone())),
        }))
    }

    /// Returns the bound addresses.
    pub(crate) fn addresses(&self) -> Addresses {
        let address = |port: &Option<TcpPort>| port.as_ref().map(TcpPort::address);
        let tls = self.tcp.iter().chain(&self.http).any(|port| port.tls.is_some());
        let machines = self.setup.relay.is_some();
        Addresses { tcp: address(&self.tcp), http: address(&self.http), tls, machines }
    }

    /// Accepts clients until the future is dropped.
    pub(crate) async fn serve(self, state: &Arc<ServerState>, clients: &Clients) -> Result<(), ServerError> {
        let Network { tcp, http, setup, authenticator } = self;
        let (watcher, web) = (authenticator.clone(), setup.web.clone());
        let lines = async {
            let Some(port) = tcp else { return std::future::pending().await };
            let (state, authenticator) = (state.clone(), authenticator.clone());
            let host = clients.clone();
            port.accept(clients, error_line(NO_DESCRIPTOR, ErrorKind::Busy), move |client| {
                handshake::serve(client, state.clone(), authenticator.clone(), host.clone())
            })
            .await
        };
        let requests = async {
            let Some(port) = http else { return std::future::pending().await };
            let site = http::Site::new(
                state.clone(),
                clients.clone(),
                authenticator.clone(),
                port.address(),
                &setup,
            );
            let refusal = http::refusal(NO_DESCRIPTOR);
            port.accept(clients, refusal, move |client| http::serve(client, site.clone())).await
        };
        tokio::select! {
            outcome = lines => outcome,
            outcome = requests => outcome,
            () = watcher.watch() => Ok(()),
            () = web.sessions().watch(|| watcher.read_token().ok()) => Ok(()),
            () = web.send_notifications(&state.engine, &state.hub) => Ok(()),
        }
    }
}

/// A bound TCP port.
pub(crate) struct TcpPort {
    listener: StdListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for TcpPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpPort").field("address", &self.address).field("tls", &self.tls.is_some()).finish()
    }
}

impl TcpPort {
    /// Binds an address, with TLS if configured. `alpn`: the protocols offered to TLS clients.
    pub(crate) fn bind(
        config: &ServerConfig,
        address: SocketAddr,
        alpn: &[&[u8]],
    ) -> Result<TcpPort, ServerError> {
        let tls = config.tls.as_ref().map(|files| files.load(alpn)).transpose()?;
        TcpPort::open(address, tls.map(TlsAcceptor::from))
    }

    fn open(address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<TcpPort, ServerError> {
        let failed = |source| ServerError::Port { address, source };
        let listener = StdListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(TcpPort { listener, address, tls })
    }

    /// Returns the bound address, with the port that the system chose.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts clients until the future is dropped. Each is served in its own task after the TLS handshake. `refusal` is
    /// sent when no file descriptor is left, unless the client expects TLS.
    pub(crate) async fn accept<F, S>(
        self,
        clients: &Clients,
        refusal: Vec<u8>,
        serve: F,
    ) -> Result<(), ServerError>
    where
        F: Fn(PendingClient) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let failed = |source| ServerError::Port { address: self.address, source };
        let listener = TcpListener::from_std(self.listener).map_err(failed)?;
        tracing::info!(address = %self.address, tls = self.tls.is_some(), "listening");
        let (evictions, failures) = (LogLimiter::new(), Arc::new(LogLimiter::new()));
        let (mut spare, refusal) = (SpareDescriptor::open(), self.tls.is_none().then_some(refusal));
        let refusal = refusal.unwrap_or_default();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    let next = async { Ok(listener.accept().await?.0) };
                    spare.recover(&error, next, &refusal).await;
                    continue;
                }
            };
            let Some(watch) = link::watch(&stream) else {
                refuse(stream, &refusal, ACCEPT_PAUSE).await;
                continue;
            };
            let Some((slot, has_evicted)) = clients.limiter.accept(peer.ip()) else { continue };
            if has_evicted && let Some(suppressed) = evictions.allow() {
                tracing::warn!(%peer, suppressed, "too many unauthenticated connections: the oldest was closed");
            }
            let (tls, serve, failures) = (self.tls.clone(), serve.clone(), failures.clone());
            let evicted = slot.evicted();
            let served = async move {
                // Both futures are boxed: the memory of the handshake is freed after it, and a future that is
                // moved would take its space twice.
                let link = Box::pin(establish(stream, watch, tls)).await;
                match link {
                    Ok(link) => Box::pin(serve(PendingClient { link, peer, slot })).await,
                    Err(error) => {
                        if let Some(suppressed) = failures.allow() {
                            tracing::info!(%peer, %error, suppressed, "connection failed");
                        }
                    }
                }
            };
            clients.tracker.spawn(async move {
                tokio::select! {
                    biased;
                    () = evicted.cancelled() => {}
                    () = served => {}
                }
            });
        }
    }
}

async fn establish(stream: TcpStream, watch: OwnedFd, tls: Option<TlsAcceptor>) -> std::io::Result<Link> {
    // Requests and replies are small writes.
    stream.set_nodelay(true)?;
    set_tcp_keepalive(&stream)?;
    let Some(tls) = tls else { return Ok(Link::tcp(stream, watch)) };
    let timed_out = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no TLS handshake in time");
    let is_http = !tls.config().alpn_protocols.is_empty();
    let handshake = async {
        match is_http && http::plaintext::is_plaintext_http(&stream).await? {
            true => Err(http::plaintext::refuse(stream).await),
            false => tls.accept(stream).await,
        }
    };
    let stream = tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, handshake).await.map_err(timed_out)??;
    Ok(Link::over_tcp(stream, watch))
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;

    use super::*;

    #[tokio::test]
    async fn kernel_drops_peer_that_acknowledges_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (watch, socket) = (link::watch(&stream).unwrap(), link::watch(&stream).unwrap());
        let _link = establish(stream, watch, None).await.unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 60_000);
    }
}
