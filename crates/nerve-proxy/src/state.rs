//! What all requests of a proxy share.

use crate::body::Room;
use crate::budget::Ledger;
use crate::client::Client;
use crate::config::ProxyConfig;
use crate::error::ProxyError;
use crate::log::Log;
use crate::secret::Secret;

/// Which API is behind the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Anthropic's: everything is passed on.
    Anthropic,
    /// OpenAI's: what is said is translated.
    OpenAi,
}

impl Behind {
    /// `anthropic` or `openai`.
    pub fn as_str(self) -> &'static str {
        match self {
            Behind::Anthropic => "anthropic",
            Behind::OpenAi => "openai",
        }
    }
}

/// The proxy without its port.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) behind: Behind,
    pub(crate) config: ProxyConfig,
    pub(crate) client: Client,
    pub(crate) ledger: Ledger,
    pub(crate) log: Option<Log>,
    pub(crate) room: Room,
}

impl Gateway {
    pub(crate) fn open(behind: Behind, config: ProxyConfig) -> Result<Gateway, ProxyError> {
        config.check(behind == Behind::Anthropic)?;
        let log = config.log.as_ref().map(Log::open).transpose()?;
        let client = Client::new(config.patience, config.authorities.as_ref())?;
        let ledger = Ledger::new(config.budget, config.prices, config.spent).of_node(config.node.is_some());
        Ok(Gateway { behind, config, client, ledger, log, room: Room::new() })
    }

    /// Whether bodies are logged.
    pub(crate) fn logs_bodies(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.bodies)
    }

    /// The keys that must not be in the log.
    pub(crate) fn secrets(&self) -> Vec<&Secret> {
        [&self.config.api_key, &self.config.client_token].into_iter().flatten().collect()
    }
}
