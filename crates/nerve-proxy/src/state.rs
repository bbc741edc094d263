//! State shared by all requests of a proxy.

use crate::body::BufferPool;
use crate::budget::Ledger;
use crate::client::Client;
use crate::config::{Provider, ProxyConfig};
use crate::error::ProxyError;
use crate::log::Log;
use crate::secret::Secret;

/// A proxy without its listener.
#[derive(Debug)]
pub(crate) struct ProxyState {
    pub(crate) provider: Provider,
    pub(crate) config: ProxyConfig,
    pub(crate) client: Client,
    pub(crate) ledger: Ledger,
    pub(crate) log: Option<Log>,
    pub(crate) buffers: BufferPool,
}

impl ProxyState {
    pub(crate) fn open(provider: Provider, config: ProxyConfig) -> Result<ProxyState, ProxyError> {
        config.check(provider == Provider::Anthropic)?;
        let open = |log| Log::open(log, config.log_faults.clone());
        let log = config.log.as_ref().map(open).transpose()?;
        let client = Client::new(config.upstream_timeout, config.root_certs.as_ref())?;
        let ledger = Ledger::new(config.budget, config.prices, config.spent).for_node(config.node.is_some());
        Ok(ProxyState { provider, config, client, ledger, log, buffers: BufferPool::new() })
    }

    /// Returns true if bodies are logged.
    pub(crate) fn logs_bodies(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.bodies)
    }

    /// Returns the keys that must not appear in the log.
    pub(crate) fn secrets(&self) -> Vec<&Secret> {
        [&self.config.api_key, &self.config.client_token].into_iter().flatten().collect()
    }
}
