//! Settings of a node's proxy.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::value::without_nulls;
use crate::value::Provider;

/// Proxy of a node, between its agent and the API of its model: a kind alone (`anthropic`, `openai`), or settings.
#[derive(Debug)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(untagged))]
pub(super) enum ProxyOption {
    /// A kind with default settings.
    Kind(Provider),
    /// Settings.
    Settings(Box<ProxySettings>),
}

/// Settings of a node's proxy. Instead of an API key, they name the environment variable that contains it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    /// Protocol of the upstream API: `anthropic` (forwarded unchanged) or `openai` (translated to Chat Completions).
    pub kind: Provider,
    /// Base URL of the upstream API. Default: the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Absolute path of a file on the server's machine with the certificate authorities (PEM) of the upstream. Default: the public
    /// authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_ca: Option<String>,
    /// Model that replaces the requested one in every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Environment variable of the server with the upstream's API key. Without it, `anthropic` forwards the agent's own key, and `openai`
    /// sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Prices of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<ProxyPrices>,
    /// Budget after which the proxy rejects requests.
    #[serde(default, skip_serializing_if = "ProxyBudget::is_unlimited")]
    pub budget: ProxyBudget,
    /// Maximum number of output tokens of a request, for `openai`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Requests reasoning if the agent requests thinking, for `openai`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning: bool,
    /// Logs requests and replies. Default: true.
    #[serde(default = "enabled", skip_serializing_if = "Clone::clone")]
    pub log: bool,
    /// Logs message bodies too, with known keys removed. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_bodies: bool,
}

/// Prices in US dollars per million tokens. Reading a cached token costs a tenth of `input`, writing one 1.25 times `input`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProxyPrices {
    /// Price of input tokens.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub input: f64,
    /// Price of output tokens.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub output: f64,
}

/// Budget of a proxy over the whole life of its node. Further requests are rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProxyBudget {
    /// Maximum number of tokens: input, including cached tokens, and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum number of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
    /// Maximum cost in US dollars; requires `prices`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub max_cost_usd: Option<f64>,
}

impl ProxyBudget {
    fn is_unlimited(&self) -> bool {
        *self == ProxyBudget::default()
    }
}

fn enabled() -> bool {
    true
}

impl ProxySettings {
    /// Creates settings with all defaults.
    pub fn new(kind: Provider) -> ProxySettings {
        ProxySettings {
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
}

impl ProxyOption {
    /// Reads the settings of a proxy.
    pub(super) fn settings<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<ProxySettings>>, D::Error> {
        let option = Option::<ProxyOption>::deserialize(deserializer)?;
        Ok(option.map(|option| match option {
            ProxyOption::Kind(kind) => Box::new(ProxySettings::new(kind)),
            ProxyOption::Settings(settings) => settings,
        }))
    }
}

impl<'de> Deserialize<'de> for ProxyOption {
    /// Implemented by hand: the error of an untagged enum does not name the invalid setting.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProxyOption, D::Error> {
        deserializer.deserialize_any(KindOrSettings)
    }
}

struct KindOrSettings;

impl<'de> Visitor<'de> for KindOrSettings {
    type Value = ProxyOption;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"anthropic\", \"openai\", or an object with a kind")
    }

    fn visit_str<E: de::Error>(self, kind: &str) -> Result<ProxyOption, E> {
        Provider::deserialize(kind.into_deserializer()).map(ProxyOption::Kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ProxyOption, A::Error> {
        let settings = without_nulls(MapAccessDeserializer::new(map))?;
        Ok(ProxyOption::Settings(Box::new(settings)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn proxy_is_a_kind_or_settings() {
        let read = |value| ProxyOption::settings(value).unwrap().unwrap();
        assert_eq!(*read(json!("openai")), ProxySettings::new(Provider::Openai));
        let long = json!({ "kind": "anthropic", "budget": { "max_tokens": 5 }, "prices": { "input": 3, "output": 15 } });
        assert_eq!(read(long).budget.max_tokens, Some(5));
        let nulls = json!({ "kind": "openai", "budget": null, "log": null, "reasoning": null });
        assert_eq!(*read(nulls), ProxySettings::new(Provider::Openai));
        for (bad, says) in [
            (json!({}), "kind"),
            (json!(5), "anthropic"),
            (json!("gemini"), "unknown provider \"gemini\": there are anthropic, openai"),
            (json!({ "kind": "openai", "max_token": 1 }), "max_token"),
            (json!({ "kind": "openai", "budget": { "tokens": 1 } }), "tokens"),
        ] {
            let error = from_value::<ProxyOption>(bad).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn defaults_are_omitted_from_json() {
        let text = serde_json::to_string(&ProxySettings::new(Provider::Openai)).unwrap();
        assert_eq!(text, r#"{"kind":"openai"}"#);
        let read: ProxySettings = serde_json::from_str(&text).unwrap();
        assert_eq!(read, ProxySettings::new(Provider::Openai));
    }
}
