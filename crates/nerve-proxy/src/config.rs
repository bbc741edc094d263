//! Configuration of a proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::budget::{Budget, Totals};
use crate::error::ProxyError;
use crate::prices::Prices;
use crate::report::{CallObserver, CurrentTurn, LogFaults};
use crate::root_certs::RootCerts;
use crate::secret::Secret;
use crate::upstream::Upstream;

/// Settings of a proxy.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    /// Loopback address to listen on. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// API that requests are sent to.
    pub upstream: Upstream,
    /// Root certificates for an `https` upstream, instead of the built-in ones (Mozilla's).
    pub root_certs: Option<RootCerts>,
    /// Model that replaces the requested one in every request.
    pub model: Option<String>,
    /// Key sent to the upstream. `None`: an Anthropic upstream gets the client's own key, an OpenAI upstream gets none,
    /// because the client's key is for another vendor.
    pub api_key: Option<Secret>,
    /// Token that clients must send as `Authorization: Bearer` or `x-api-key`. Requires an `api_key`.
    pub client_token: Option<Secret>,
    /// Name of the node whose agent uses the proxy, for the log.
    pub node: Option<String>,
    /// Current turn of that agent, for the log.
    pub turn: CurrentTurn,
    /// Callback for every request that has ended.
    pub on_call: Option<CallObserver>,
    /// Log of the requests.
    pub log: Option<LogConfig>,
    /// Receives the interruptions of the log.
    pub log_faults: LogFaults,
    /// Limits after which requests are refused.
    pub budget: Budget,
    /// Totals of an earlier proxy that this one replaces.
    pub spent: Totals,
    /// Prices of tokens.
    pub prices: Option<Prices>,
    /// OpenAI: caps the number of output tokens that clients can request.
    pub max_output: Option<u64>,
    /// OpenAI: translates thinking to `reasoning_effort`. Models without reasoning reject this parameter.
    pub reasoning: bool,
    /// Longest silence of the upstream, before and in the middle of an answer.
    pub upstream_timeout: Duration,
    /// Time limit for answers in flight at shutdown.
    pub shutdown_timeout: Duration,
}

impl ProxyConfig {
    /// Creates the default settings: a free loopback port, no log, no limits, and ten minutes for the upstream to
    /// answer.
    pub fn new(upstream: Upstream) -> ProxyConfig {
        ProxyConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            upstream,
            root_certs: None,
            model: None,
            api_key: None,
            client_token: None,
            node: None,
            turn: CurrentTurn::default(),
            on_call: None,
            log: None,
            log_faults: LogFaults::default(),
            budget: Budget::default(),
            spent: Totals::default(),
            prices: None,
            max_output: None,
            reasoning: false,
            upstream_timeout: Duration::from_secs(600),
            shutdown_timeout: Duration::from_secs(5),
        }
    }

    /// Checks the settings for this API without starting anything.
    ///
    /// # Errors
    /// [`ProxyError`] for an invalid setting.
    pub fn validate(&self, provider: Provider) -> Result<(), ProxyError> {
        self.check(provider == Provider::Anthropic)
    }

    /// Checks the settings. `sends_key`: the client's key is forwarded.
    pub(crate) fn check(&self, sends_key: bool) -> Result<(), ProxyError> {
        if !self.listen.ip().is_loopback() {
            return Err(ProxyError::NotLoopback(self.listen));
        }
        if self.upstream.is_plaintext() && (sends_key || self.api_key.is_some()) {
            return Err(ProxyError::Upstream {
                address: self.upstream.as_str().to_string(),
                reason: "would receive the key unencrypted: use https",
            });
        }
        if self.root_certs.is_some() && !self.upstream.has_tls() {
            return Err(ProxyError::Upstream {
                address: self.upstream.as_str().to_string(),
                reason: "does not use TLS, so root certificates have no effect: use https, or omit the certificates",
            });
        }
        if self.client_token.is_some() && sends_key && self.api_key.is_none() {
            return Err(ProxyError::Setting(
                "a client token requires an API key: the token is not a key for the upstream",
            ));
        }
        if [&self.api_key, &self.client_token].into_iter().flatten().any(Secret::is_empty) {
            return Err(ProxyError::Setting("a key or a token is empty"));
        }
        if self.budget.max_cost_usd.is_some() && self.prices.is_none() {
            return Err(ProxyError::Setting("a cost limit requires the prices of the model"));
        }
        self.budget.check(self.prices)
    }
}

/// The provider of the upstream API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Provider {
    /// Anthropic: requests are forwarded unchanged.
    Anthropic,
    /// OpenAI: requests and answers are translated.
    OpenAi,
}

impl Provider {
    /// Returns `anthropic` or `openai`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Log of a proxy: one line of JSON per request and per reply. The file has mode 0600.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The file; lines are appended.
    pub path: PathBuf,
    /// Logs bodies too, up to 1 MiB each, with known keys removed.
    pub bodies: bool,
    /// Size in bytes after which the file is rotated. One older file is kept, with the suffix `.1`.
    pub max_bytes: u64,
}

impl LogConfig {
    /// Creates the default settings: no bodies, rotation at 64 MiB.
    pub fn new(path: impl Into<PathBuf>) -> LogConfig {
        LogConfig { path: path.into(), bodies: false, max_bytes: 64 << 20 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(upstream: &str) -> ProxyConfig {
        ProxyConfig::new(Upstream::parse(upstream).unwrap())
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let key = Some(Secret::new("k"));
        assert!(config("https://h").check(true).is_ok());
        let far = ProxyConfig { listen: ([0, 0, 0, 0], 1).into(), ..config("https://h") };
        assert!(matches!(far.check(true), Err(ProxyError::NotLoopback(_))));
        assert!(config("http://far.example").check(true).is_err(), "the client's key would be unencrypted");
        assert!(config("http://far.example").check(false).is_ok(), "no key at all");
        assert!(ProxyConfig { api_key: key.clone(), ..config("http://far.example") }.check(false).is_err());
        let token = ProxyConfig { client_token: key.clone(), ..config("https://h") };
        assert!(token.check(true).is_err() && token.check(false).is_ok());
        assert!(ProxyConfig { api_key: Some(Secret::new(" ")), ..config("https://h") }.check(true).is_err());
        let budget = Budget { max_cost_usd: Some(1.0), ..Budget::default() };
        assert!(ProxyConfig { budget, ..config("https://h") }.check(true).is_err(), "no prices");
    }
}
