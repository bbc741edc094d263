//! A proxy that runs.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::budget::Spent;
use crate::config::ProxyConfig;
use crate::error::ProxyError;
use crate::listener;
use crate::state::{Behind, Gateway};

/// A proxy that runs. It stops when it is dropped or [shut down](Proxy::shutdown).
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// Starts a proxy with Anthropic's API in front and behind: bytes go through as they come, on every path.
///
/// # Errors
/// [`ProxyError`]: a setting that cannot be, a port that is taken, a log that cannot be written.
pub async fn create_anthropic_proxy(config: ProxyConfig) -> Result<Proxy, ProxyError> {
    Proxy::start(Behind::Anthropic, config)
}

/// Starts a proxy with Anthropic's Messages API in front and OpenAI's Chat Completions behind. See [`crate::transform`].
///
/// # Errors
/// As [`create_anthropic_proxy`].
pub async fn create_openai_proxy(config: ProxyConfig) -> Result<Proxy, ProxyError> {
    Proxy::start(Behind::OpenAi, config)
}

impl Proxy {
    /// Starts a proxy with Anthropic's API in front: what the two functions of this crate do. Must be called on a runtime.
    ///
    /// # Errors
    /// As [`create_anthropic_proxy`].
    pub fn start(behind: Behind, config: ProxyConfig) -> Result<Proxy, ProxyError> {
        let address = config.listen;
        let gateway = Arc::new(Gateway::open(behind, config)?);
        let failed = |source| ProxyError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(listener::run(listener, gateway.clone(), stop.clone()));
        Ok(Proxy { address, gateway, stop, task: Some(task) })
    }

    /// Where it listens, with the port the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS`: the `ANTHROPIC_BASE_URL` of an agent.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has passed so far.
    pub fn spent(&self) -> Spent {
        self.gateway.ledger.spent()
    }

    /// Takes no more requests, waits for answers under way (`shutdown_patience`) and for the log. Says what has passed.
    pub async fn shutdown(mut self) -> Spent {
        self.stop.cancel();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the proxy did not end well");
        }
        let gateway = self.gateway.clone();
        // The log's thread may have a slow disk under it.
        let closed =
            tokio::task::spawn_blocking(move || gateway.log.iter().for_each(crate::log::Log::close)).await;
        if let Err(error) = closed {
            tracing::warn!(%error, "the proxy's log was not closed");
        }
        self.spent()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
