//! A running proxy.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::budget::Totals;
use crate::config::Provider;
use crate::config::ProxyConfig;
use crate::error::ProxyError;
use crate::listener;
use crate::state::ProxyState;

/// A running proxy. It stops when it is dropped or [shut down](Proxy::shutdown).
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// Starts a proxy for Anthropic's API that forwards bytes unchanged, on every path.
///
/// # Errors
/// [`ProxyError`] for an invalid setting, a port in use, or a log that cannot be written.
pub async fn create_anthropic_proxy(config: ProxyConfig) -> Result<Proxy, ProxyError> {
    Proxy::start(Provider::Anthropic, config)
}

/// Starts a proxy that serves Anthropic's Messages API with OpenAI's Chat Completions. See [`crate::transform`].
///
/// # Errors
/// See [`create_anthropic_proxy`].
pub async fn create_openai_proxy(config: ProxyConfig) -> Result<Proxy, ProxyError> {
    Proxy::start(Provider::OpenAi, config)
}

impl Proxy {
    /// Starts a proxy for the given provider. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// See [`create_anthropic_proxy`].
    pub fn start(provider: Provider, config: ProxyConfig) -> Result<Proxy, ProxyError> {
        let address = config.listen;
        let state = Arc::new(ProxyState::open(provider, config)?);
        let failed = |source| ProxyError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(listener::run(listener, state.clone(), stop.clone()));
        Ok(Proxy { address, state, stop, task: Some(task) })
    }

    /// Returns the address it listens on, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://ADDRESS`, for an agent's `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the totals so far.
    pub fn spent(&self) -> Totals {
        self.state.ledger.spent()
    }

    /// Stops accepting requests, waits up to `shutdown_timeout` for answers in flight, closes the log, and returns the
    /// totals.
    pub async fn shutdown(mut self) -> Totals {
        self.stop.cancel();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the proxy's task failed");
        }
        let state = self.state.clone();
        // Closing the log may block on a slow disk.
        let closed =
            tokio::task::spawn_blocking(move || state.log.iter().for_each(crate::log::Log::close)).await;
        if let Err(error) = closed {
            tracing::warn!(%error, "closing the proxy's log failed");
        }
        self.spent()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
