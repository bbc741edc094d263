//! What a proxy is told.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::budget::{Budget, Prices, Spent};
use crate::error::ProxyError;
use crate::report::{CurrentTurn, OnCall};
use crate::root_certs::Authorities;
use crate::secret::Secret;
use crate::state::Behind;
use crate::upstream::Upstream;

/// Settings of a proxy.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    /// Where it listens: loopback. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where requests go.
    pub upstream: Upstream,
    /// Who vouches for an upstream with `https`, instead of the usual authorities (those of Mozilla, built in).
    pub authorities: Option<Authorities>,
    /// The model that every request is for; `None`: the one it asks for.
    pub model: Option<String>,
    /// The key that the upstream is shown. `None`: before Anthropic's API the client's own; before OpenAI's none at all, for the
    /// client's key is for somebody else.
    pub api_key: Option<Secret>,
    /// What clients must show, as `Authorization: Bearer` or `x-api-key`. Needs an `api_key`.
    pub client_token: Option<Secret>,
    /// The name of the node whose agent talks through the proxy; it is in the log.
    pub node: Option<String>,
    /// The turn that its agent is in; it is in the log.
    pub turn: CurrentTurn,
    /// Who is told of every request that has ended.
    pub on_call: Option<OnCall>,
    /// Where requests are logged.
    pub log: Option<LogConfig>,
    /// After how much it refuses.
    pub budget: Budget,
    /// What has passed already, by a proxy that this one goes on for.
    pub spent: Spent,
    /// What tokens cost.
    pub prices: Option<Prices>,
    /// OpenAI: the largest number of tokens of an answer that is asked for, whatever the client asks for.
    pub max_output: Option<u64>,
    /// OpenAI: thinking is asked for, as `reasoning_effort`. Models that do not reason refuse the word.
    pub reasoning: bool,
    /// How long the upstream may say nothing: before an answer, and in the middle of one.
    pub patience: Duration,
    /// How long a shutdown waits for answers that are under way.
    pub shutdown_patience: Duration,
}

impl ProxyConfig {
    /// A free port of loopback, no log, no limit; ten minutes of patience with the upstream.
    pub fn new(upstream: Upstream) -> ProxyConfig {
        ProxyConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            upstream,
            authorities: None,
            model: None,
            api_key: None,
            client_token: None,
            node: None,
            turn: CurrentTurn::default(),
            on_call: None,
            log: None,
            budget: Budget::default(),
            spent: Spent::default(),
            prices: None,
            max_output: None,
            reasoning: false,
            patience: Duration::from_secs(600),
            shutdown_patience: Duration::from_secs(5),
        }
    }

    /// Whether it makes sense before this API, without starting anything.
    ///
    /// # Errors
    /// [`ProxyError`]: a setting that cannot be.
    pub fn validate(&self, behind: Behind) -> Result<(), ProxyError> {
        self.check(behind == Behind::Anthropic)
    }

    /// Whether it makes sense. `sends_key`: the client's key is passed on.
    pub(crate) fn check(&self, sends_key: bool) -> Result<(), ProxyError> {
        if !self.listen.ip().is_loopback() {
            return Err(ProxyError::NotLoopback(self.listen));
        }
        if self.upstream.is_in_the_clear() && (sends_key || self.api_key.is_some()) {
            return Err(ProxyError::Upstream {
                address: self.upstream.as_str().to_string(),
                reason: "would get the key in the clear: use https",
            });
        }
        if self.authorities.is_some() && !self.upstream.has_tls() {
            return Err(ProxyError::Upstream {
                address: self.upstream.as_str().to_string(),
                reason: "has no TLS, so no authority can vouch for it: use https, or leave the authorities out",
            });
        }
        if self.client_token.is_some() && sends_key && self.api_key.is_none() {
            return Err(ProxyError::Setting(
                "with a token for clients the proxy needs a key of its own: their token is none",
            ));
        }
        if [&self.api_key, &self.client_token].into_iter().flatten().any(Secret::is_empty) {
            return Err(ProxyError::Setting("a key or a token is empty"));
        }
        if self.budget.max_cost_usd.is_some() && self.prices.is_none() {
            return Err(ProxyError::Setting("a limit of cost needs the prices of the model"));
        }
        self.budget.check(self.prices)
    }
}

/// The log of a proxy: a line of JSON for each request and each reply. The file has mode 0600.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The file; lines are added to it.
    pub path: PathBuf,
    /// Bodies are logged too, up to 1 MiB each, without the keys that are known.
    pub bodies: bool,
    /// Bytes after which it begins anew; one older file is kept, with `.1` behind its name.
    pub max_bytes: u64,
}

impl LogConfig {
    /// No bodies; 64 MiB.
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
    fn what_cannot_be_is_refused() {
        let key = Some(Secret::new("k"));
        assert!(config("https://h").check(true).is_ok());
        let far = ProxyConfig { listen: ([0, 0, 0, 0], 1).into(), ..config("https://h") };
        assert!(matches!(far.check(true), Err(ProxyError::NotLoopback(_))));
        assert!(config("http://far.example").check(true).is_err(), "the client's key in the clear");
        assert!(config("http://far.example").check(false).is_ok(), "no key at all");
        assert!(ProxyConfig { api_key: key.clone(), ..config("http://far.example") }.check(false).is_err());
        let token = ProxyConfig { client_token: key.clone(), ..config("https://h") };
        assert!(token.check(true).is_err() && token.check(false).is_ok());
        assert!(ProxyConfig { api_key: Some(Secret::new(" ")), ..config("https://h") }.check(true).is_err());
        let budget = Budget { max_cost_usd: Some(1.0), ..Budget::default() };
        assert!(ProxyConfig { budget, ..config("https://h") }.check(true).is_err(), "no prices");
    }
}
