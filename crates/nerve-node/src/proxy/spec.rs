//! The settings of a node's proxy.

use std::path::PathBuf;

use nerve_proxy::{Budget, Prices, Provider, ProxyConfig, RootCerts, Secret, Upstream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

use crate::error::{EngineError, ErrorKind};

/// A proxy of one node, between its agent and its model's API. It contains no key, only the name of the variable that holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// The upstream API: `anthropic` (passed through) or `openai` (Chat Completions, translated).
    pub kind: ProxyKind,
    /// The upstream's address [default: the vendor's API].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Absolute path of a PEM file on the server's machine with the root certificates for the upstream, instead of the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_ca: Option<PathBuf>,
    /// The model of every request, instead of the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the variable in the server's environment that holds the upstream's key. Without it, `anthropic` passes on the
    /// agent's own key, and `openai` sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Token prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<ProxyPrices>,
    /// Limits after which requests are refused.
    #[serde(default, skip_serializing_if = "ProxyBudget::is_none")]
    pub budget: ProxyBudget,
    /// `openai`: maximum number of output tokens to request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// `openai`: request reasoning if the agent does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning: bool,
    /// Log requests and replies.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub log: bool,
    /// Log bodies too, with known keys removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_bodies: bool,
}

/// The API behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ProxyKind {
    /// Anthropic's API or a compatible one: requests are passed through.
    Anthropic,
    /// OpenAI's Chat Completions API or a compatible one: requests are translated.
    Openai,
}

/// Prices in US dollars per million tokens. Reading a cached token costs a tenth of `input`, writing one 1.25 times `input`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyPrices {
    /// Per million input tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Per million output tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
}

/// Limits over the whole life of a node, after which its proxy refuses requests. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyBudget {
    /// Tokens: input, including cached ones, and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
    /// US dollars, according to `prices`.
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
    /// Returns the name on the wire: `anthropic` or `openai`.
    pub fn as_str(self) -> &'static str {
        self.provider().as_str()
    }

    pub(super) fn provider(self) -> Provider {
        match self {
            ProxyKind::Anthropic => Provider::Anthropic,
            ProxyKind::Openai => Provider::OpenAi,
        }
    }

    /// Returns the kind of that name.
    ///
    /// # Errors
    /// InvalidRequest: unknown kind.
    pub fn parse(name: &str) -> Result<ProxyKind, EngineError> {
        name.parse().map_err(|_| {
            // The value may be of any length.
            let shown: String = name.chars().take(40).collect();
            invalid(format!("proxy.kind: unknown kind {shown:?}")).hint("use anthropic or openai")
        })
    }
}

impl ProxySpec {
    /// Creates settings with all defaults.
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

    /// Returns true if the proxy adds a key of its own. Its agent then gets a token instead of a key.
    pub(super) fn needs_token(&self) -> bool {
        self.api_key_env.is_some() || self.kind == ProxyKind::Openai
    }

    /// Returns the upstream's address.
    ///
    /// # Errors
    /// InvalidRequest: not a valid address.
    pub(super) fn upstream(&self) -> Result<Upstream, EngineError> {
        let usual = match self.kind {
            ProxyKind::Anthropic => Upstream::ANTHROPIC,
            ProxyKind::Openai => Upstream::OPENAI,
        };
        Upstream::parse(self.base_url.as_deref().unwrap_or(usual))
            .map_err(|error| invalid(format!("proxy.base_url: {error}")))
    }

    /// Checks the settings, without reading the environment or files.
    ///
    /// # Errors
    /// InvalidRequest: names the setting and the problem.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(invalid("proxy.model is empty"));
        }
        if self.log_bodies && !self.log {
            return Err(invalid("proxy.log_bodies needs proxy.log"));
        }
        if self.kind == ProxyKind::Anthropic && (self.max_output.is_some() || self.reasoning) {
            return Err(invalid("proxy.max_output and proxy.reasoning need a proxy of kind openai"));
        }
        if self.upstream_ca.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(invalid("proxy.upstream_ca must be an absolute path: the server reads the file"));
        }
        if self.api_key_env.as_ref().is_some_and(|name| !is_name(name)) {
            return Err(invalid("proxy.api_key_env is not the name of a variable")
                .hint("name the variable that holds the key, not the key itself"));
        }
        // A placeholder for the key: whether the settings are valid does not depend on its value.
        let key = self.api_key_env.as_ref().map(|_| Secret::new("a key"));
        let config = ProxyConfig { api_key: key, ..self.config_without_key()? };
        config.validate(self.kind.provider()).map_err(|error| invalid(format!("proxy: {error}")))
    }

    /// Builds the configuration of a running proxy, with the key from the server's environment.
    ///
    /// # Errors
    /// InvalidRequest: the variable or the certificate file does not exist.
    pub(super) fn config(&self) -> Result<ProxyConfig, EngineError> {
        let key = self.api_key_env.as_deref().map(|name| {
            let found = std::env::var(name).ok().map(|text| Secret::new(&text));
            found.filter(|secret| !secret.is_empty()).ok_or_else(|| {
                invalid(format!("proxy.api_key_env: the variable '{name}' holds no key in the server's environment"))
                    .hint("the server inherits the environment of the shell that starts it: export the key there and restart the server")
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

/// Returns true for a name that a shell could export. The value may be the key itself by mistake.
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
    fn invalid_settings_are_rejected() {
        assert!(ProxySpec::new(ProxyKind::Anthropic).check().is_ok());
        assert!(ProxySpec::new(ProxyKind::Openai).check().is_ok());
        assert!(ProxyKind::parse("gemini").unwrap_err().message.contains("unknown kind \"gemini\""));
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
        assert!(wrong(|spec| spec.upstream_ca = Some("ca.pem".into())).contains("absolute path"));
        assert!(
            wrong(|spec| {
                spec.log = false;
                spec.log_bodies = true;
            })
            .contains("needs proxy.log")
        );
    }

    #[test]
    fn missing_key_is_detected_at_start() {
        let name = "NERVE_TEST_NO_SUCH_KEY";
        let spec = ProxySpec { api_key_env: Some(name.into()), ..ProxySpec::new(ProxyKind::Anthropic) };
        assert!(spec.check().is_ok());
        let error = spec.config().unwrap_err();
        assert!(error.message.contains(name) && error.hint.is_some(), "{error:?}");
    }

    #[test]
    fn defaults_are_omitted_from_json() {
        let text = serde_json::to_string(&ProxySpec::new(ProxyKind::Openai)).unwrap();
        assert_eq!(text, r#"{"kind":"openai"}"#);
        assert_eq!(serde_json::from_str::<ProxySpec>(&text).unwrap(), ProxySpec::new(ProxyKind::Openai));
        assert!(serde_json::from_str::<ProxySpec>(r#"{"kind":"openai","max_token":1}"#).is_err());
    }
}
