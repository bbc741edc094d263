//! What a node's proxy is to be.

use std::path::PathBuf;

use nerve_proxy::{Budget, Prices, Provider, ProxyConfig, RootCerts, Secret, Upstream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{EngineError, ErrorKind};

/// A proxy of one node, between its agent and the API of its model. There is no key in it: it names the variable that has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// Whose API is behind it: `anthropic` (passed on as it comes) or `openai` (Chat Completions, translated).
    pub kind: ProxyKind,
    /// Where requests go; the vendor's own API without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// A file of certificates (PEM) on the server's machine, by its whole path: who vouches for the upstream, instead of the usual
    /// authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_ca: Option<PathBuf>,
    /// The model that every request is for, instead of the one it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the variable in the server's environment that has the upstream's key. Without it `anthropic` passes the agent's own key
    /// on, and `openai` sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// What tokens cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<ProxyPrices>,
    /// After how much it refuses.
    #[serde(default, skip_serializing_if = "ProxyBudget::is_none")]
    pub budget: ProxyBudget,
    /// `openai`: the largest number of tokens of an answer that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// `openai`: thinking is asked for where the agent does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning: bool,
    /// Keep a log of requests and replies.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub log: bool,
    /// What was said is in it too, without the keys that are known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_bodies: bool,
}

/// Whose API is behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyKind {
    /// Anthropic's, or one that speaks like it: everything is passed on.
    Anthropic,
    /// OpenAI's Chat Completions, or one that speaks like it: what is said is translated.
    Openai,
}

/// What a million tokens cost, in US dollars. Of a cache, a tenth of `input` to read and a quarter more than it to write.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyPrices {
    /// That go in.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// That come out.
    #[schemars(range(min = 0))]
    pub output: f64,
}

/// After how much a proxy refuses, over the whole life of its node; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyBudget {
    /// Tokens: all that went in, cached ones too, and all that came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
    /// US dollars, by `prices`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_cost_usd: Option<f64>,
}

impl ProxyBudget {
    fn is_none(&self) -> bool {
        *self == ProxyBudget::default()
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_yes(yes: &bool) -> bool {
    *yes
}

impl ProxyKind {
    /// The name on the wire: `anthropic` or `openai`.
    pub fn as_str(self) -> &'static str {
        self.provider().as_str()
    }

    pub(super) fn provider(self) -> Provider {
        match self {
            ProxyKind::Anthropic => Provider::Anthropic,
            ProxyKind::Openai => Provider::OpenAi,
        }
    }

    /// The kind of that name.
    ///
    /// # Errors
    /// InvalidRequest: there is none.
    pub fn parse(name: &str) -> Result<ProxyKind, EngineError> {
        [ProxyKind::Anthropic, ProxyKind::Openai].into_iter().find(|kind| kind.as_str() == name).ok_or_else(
            || {
                // Whatever this is may be of any length.
                let shown: String = name.chars().take(40).collect();
                invalid(format!("proxy.kind: there is no proxy {shown:?}")).hint("it is anthropic or openai")
            },
        )
    }
}

impl ProxySpec {
    /// A proxy with all defaults.
    pub fn new(kind: ProxyKind) -> ProxySpec {
        ProxySpec {
            kind,
            base_url: None,
            upstream_ca: None,
            model: None,
            api_key_env: None,
            prices: None,
            budget: ProxyBudget::default(),
            max_output: None,
            reasoning: false,
            log: true,
            log_bodies: false,
        }
    }

    /// Whether it has a key of its own: then its agent gets a token, and no key.
    pub(super) fn gives_token(&self) -> bool {
        self.api_key_env.is_some() || self.kind == ProxyKind::Openai
    }

    /// Where requests go.
    ///
    /// # Errors
    /// InvalidRequest: that is no address.
    pub(super) fn upstream(&self) -> Result<Upstream, EngineError> {
        let usual = match self.kind {
            ProxyKind::Anthropic => Upstream::ANTHROPIC,
            ProxyKind::Openai => Upstream::OPENAI,
        };
        Upstream::parse(self.base_url.as_deref().unwrap_or(usual))
            .map_err(|error| invalid(format!("proxy.base_url: {error}")))
    }

    /// What cannot be, as far as the settings themselves tell. Neither the environment nor a file is looked at.
    ///
    /// # Errors
    /// InvalidRequest: which setting, and what is wrong with it.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(invalid("proxy.model is empty"));
        }
        if self.log_bodies && !self.log {
            return Err(invalid("proxy.log_bodies wants a log, and proxy.log is false"));
        }
        if self.kind == ProxyKind::Anthropic && (self.max_output.is_some() || self.reasoning) {
            return Err(invalid("proxy.max_output and proxy.reasoning are for a proxy of kind openai"));
        }
        if self.upstream_ca.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(invalid("proxy.upstream_ca must be a whole path: the server reads the file"));
        }
        if self.api_key_env.as_ref().is_some_and(|name| !is_name(name)) {
            return Err(invalid("proxy.api_key_env is not the name of a variable")
                .hint("it names the variable that has the key, it is not the key"));
        }
        // A key that is there, in place of the one that is meant: what the settings allow does not hang on which it is.
        let key = self.api_key_env.as_ref().map(|_| Secret::new("a key"));
        let config = ProxyConfig { api_key: key, ..self.config_without_key()? };
        config.validate(self.kind.provider()).map_err(|error| invalid(format!("proxy: {error}")))
    }

    /// For a proxy that runs, with the key from the server's environment.
    ///
    /// # Errors
    /// InvalidRequest: no such variable, no such file of certificates.
    pub(super) fn config(&self) -> Result<ProxyConfig, EngineError> {
        let key = self.api_key_env.as_deref().map(|name| {
            let found = std::env::var(name).ok().map(|text| Secret::new(&text));
            found.filter(|secret| !secret.is_empty()).ok_or_else(|| {
                invalid(format!("proxy.api_key_env: there is no key in the variable '{name}' of the server"))
                    .hint("the server's environment is that of the shell it was started in: export the key there, and start it again")
            })
        });
        let root_certs = self.upstream_ca.as_ref().map(|path| {
            RootCerts::read(path).map_err(|error| invalid(format!("proxy.upstream_ca: {error}")))
        });
        Ok(ProxyConfig {
            api_key: key.transpose()?,
            root_certs: root_certs.transpose()?,
            ..self.config_without_key()?
        })
    }

    fn config_without_key(&self) -> Result<ProxyConfig, EngineError> {
        Ok(ProxyConfig {
            model: self.model.clone(),
            budget: Budget {
                max_tokens: self.budget.max_tokens,
                max_requests: self.budget.max_requests,
                max_cost_usd: self.budget.max_cost_usd,
            },
            prices: self.prices.map(|prices| Prices::new(prices.input, prices.output)),
            max_output: self.max_output,
            reasoning: self.reasoning,
            ..ProxyConfig::new(self.upstream()?)
        })
    }
}

/// Could a shell export it? Somebody may have written the key itself.
fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= 64 && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(change: impl FnOnce(&mut ProxySpec)) -> String {
        let mut spec = ProxySpec::new(ProxyKind::Anthropic);
        change(&mut spec);
        let error = spec.check().unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        error.message
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(ProxySpec::new(ProxyKind::Anthropic).check().is_ok());
        assert!(ProxySpec::new(ProxyKind::Openai).check().is_ok());
        assert!(ProxyKind::parse("gemini").unwrap_err().message.contains("there is no proxy \"gemini\""));
        assert!(wrong(|spec| spec.base_url = Some("host".into())).contains("proxy.base_url"));
        let clear = wrong(|spec| spec.base_url = Some("http://far.example".into()));
        assert!(clear.contains("unencrypted"), "{clear}");
        let secret = wrong(|spec| spec.base_url = Some("https://u:hunter2@h".into()));
        assert!(!secret.contains("hunter2"), "{secret}");
        let key = wrong(|spec| spec.api_key_env = Some("sk-ant-hunter2".into()));
        assert!(key.contains("not the name of a variable") && !key.contains("hunter2"), "{key}");
        assert!(wrong(|spec| spec.budget.max_cost_usd = Some(1.0)).contains("prices"));
        assert!(
            wrong(|spec| spec.prices = Some(ProxyPrices { input: -1.0, output: 1.0 })).contains("0 or more")
        );
        assert!(wrong(|spec| spec.model = Some(" ".into())).contains("proxy.model"));
        assert!(wrong(|spec| spec.max_output = Some(1)).contains("kind openai"));
        assert!(wrong(|spec| spec.upstream_ca = Some("ca.pem".into())).contains("whole path"));
        assert!(
            wrong(|spec| {
                spec.log = false;
                spec.log_bodies = true;
            })
            .contains("wants a log")
        );
    }

    #[test]
    fn a_key_that_is_not_there_is_missed_when_it_starts() {
        let name = "NERVE_TEST_NO_SUCH_KEY";
        let spec = ProxySpec { api_key_env: Some(name.into()), ..ProxySpec::new(ProxyKind::Anthropic) };
        assert!(spec.check().is_ok());
        let error = spec.config().unwrap_err();
        assert!(error.message.contains(name) && error.hint.is_some(), "{error:?}");
    }

    #[test]
    fn it_is_kept_in_few_words() {
        let text = serde_json::to_string(&ProxySpec::new(ProxyKind::Openai)).unwrap();
        assert_eq!(text, r#"{"kind":"openai"}"#);
        assert_eq!(serde_json::from_str::<ProxySpec>(&text).unwrap(), ProxySpec::new(ProxyKind::Openai));
        assert!(serde_json::from_str::<ProxySpec>(r#"{"kind":"openai","max_token":1}"#).is_err());
    }
}
