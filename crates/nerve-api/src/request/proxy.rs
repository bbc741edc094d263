//! The proxy of a node.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A proxy of the node's own, between its agent and the API of its model: a kind alone (`anthropic`, `openai`), or settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ProxyOption {
    /// One with all defaults.
    Kind(String),
    /// One with settings.
    Settings(Box<ProxySettings>),
}

/// Settings of a node's proxy. There is no key in them: they name the variable that has one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    /// Whose API is behind it: `anthropic` (passed on as it comes) or `openai` (Chat Completions, translated).
    pub kind: String,
    /// Where requests go; the vendor's own API if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// A file of certificates (PEM) on the server's machine, by its whole path: who vouches for the upstream, instead of the usual
    /// authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_ca: Option<String>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ProxyBudget>,
    /// `openai`: the largest number of tokens of an answer that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// `openai`: thinking is asked for where the agent does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning: bool,
    /// Keep a log of requests and replies; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<bool>,
    /// What was said is in it too, without the keys that are known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_bodies: bool,
}

/// What a million tokens cost, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProxyPrices {
    /// That go in.
    pub input: f64,
    /// That come out.
    pub output: f64,
}

/// After how much a proxy refuses, over the whole life of its node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub max_cost_usd: Option<f64>,
}

impl From<ProxyOption> for ProxySettings {
    fn from(params: ProxyOption) -> ProxySettings {
        match params {
            ProxyOption::Kind(kind) => ProxySettings { kind, ..ProxySettings::default() },
            ProxyOption::Settings(settings) => *settings,
        }
    }
}

impl<'de> Deserialize<'de> for ProxyOption {
    /// By hand: of an untagged enum nobody is told which setting is wrong.
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
        Ok(ProxyOption::Kind(kind.to_string()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ProxyOption, A::Error> {
        let settings = ProxySettings::deserialize(MapAccessDeserializer::new(map))?;
        Ok(ProxyOption::Settings(Box::new(settings)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_kind_or_settings() {
        let short: ProxyOption = from_value(json!("openai")).unwrap();
        assert_eq!(ProxySettings::from(short).kind, "openai");
        let long = json!({ "kind": "anthropic", "budget": { "max_tokens": 5 }, "prices": { "input": 3, "output": 15 } });
        let settings = ProxySettings::from(from_value::<ProxyOption>(long).unwrap());
        assert_eq!(settings.budget.unwrap().max_tokens, Some(5));
        for (bad, says) in [
            (json!({}), "kind"),
            (json!(5), "anthropic"),
            (json!({ "kind": "openai", "max_token": 1 }), "max_token"),
            (json!({ "kind": "openai", "budget": { "tokens": 1 } }), "tokens"),
        ] {
            let error = from_value::<ProxyOption>(bad).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
