//! The settings of a chat node.

use std::fmt;
use std::path::PathBuf;

use http::Uri;
use http::uri::Scheme;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::error::{EngineError, ErrorKind};

/// The settings of a chat node. They contain no key, only the name of the variable that holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSpec {
    /// The API to use.
    #[serde(default)]
    pub provider: Provider,
    /// The model's name in the API.
    pub model: String,
    /// The API's address: `http` or `https`, without user, query or fragment; the vendor's if `None`. Without a path, `/v1` is
    /// added for OpenAI's API; Anthropic's has it in its own paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the variable that holds the key, looked up in the node's environment, then in the server's. `None`: the vendor's
    /// usual one. Empty: no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Maximum number of tokens of one answer, from 1.
    #[serde(default = "max_tokens")]
    pub max_tokens: u32,
    /// The temperature, from 0 to 2; the API's default if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Ids of nodes of the session that the model may use, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tools that the model may or must use.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// The model may call several tools at once; they run at the same time.
    #[serde(default = "yes")]
    pub parallel_tool_calls: bool,
    /// Limit of tool rounds per turn; each runs tools and calls the model again.
    #[serde(default = "max_tool_rounds")]
    pub max_tool_rounds: u32,
    /// Limit of retries of a failed request.
    #[serde(default = "retries")]
    pub retries: u32,
    /// The file that stores the conversation: read at the start if it exists, written after each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<PathBuf>,
}

/// The API of a chat node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = EngineError, parse_err_fn = unknown_provider)]
pub enum Provider {
    /// Anthropic's Messages API.
    #[default]
    Anthropic,
    /// The Chat Completions API of OpenAI and many others.
    Openai,
}

/// The choice of tools for a model. A forced tool is forced only in the first answer of a turn: otherwise the model would call it forever.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tools.
    None,
    /// At least one tool.
    Required,
    /// The tool of this node.
    Node(String),
}

fn max_tokens() -> u32 {
    4096
}

fn max_tool_rounds() -> u32 {
    10
}

fn retries() -> u32 {
    3
}

fn yes() -> bool {
    true
}

/// Maximum number of tools of a request.
const MAX_TOOLS: usize = 64;
/// Maximum number of rounds and retries.
const MAX_ROUNDS: u32 = 1000;
/// Maximum size of the system prompt in bytes.
const MAX_SYSTEM: usize = 1 << 20;

impl ChatSpec {
    /// Creates settings with all defaults.
    pub fn new(provider: Provider, model: impl Into<String>) -> ChatSpec {
        ChatSpec {
            provider,
            model: model.into(),
            base_url: None,
            api_key_env: None,
            system: None,
            max_tokens: max_tokens(),
            temperature: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            max_tool_rounds: max_tool_rounds(),
            retries: retries(),
            keep: None,
        }
    }

    /// Returns the settings of a fork: without the file, because two nodes would overwrite each other's conversation.
    #[must_use]
    pub fn for_fork(self) -> ChatSpec {
        ChatSpec { keep: None, ..self }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// InvalidRequest: names the field and the problem. Values that may be secret are not repeated.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.model.trim().is_empty() {
            return Err(invalid("a chat node needs a model").hint("add `--model NAME`, or chat.model"));
        }
        if self.model.chars().any(char::is_control) {
            return Err(invalid("chat.model contains a control character"));
        }
        if self.max_tokens == 0 {
            return Err(invalid("chat.max_tokens must be at least 1"));
        }
        if self.temperature.is_some_and(|heat| !(0.0..=2.0).contains(&heat)) {
            return Err(invalid("chat.temperature must be from 0 to 2"));
        }
        if self.max_tool_rounds > MAX_ROUNDS || self.retries > MAX_ROUNDS {
            let message = format!("chat.max_tool_rounds and chat.retries are limited to {MAX_ROUNDS}");
            return Err(invalid(message));
        }
        if self.system.as_ref().is_some_and(|system| system.len() > MAX_SYSTEM) {
            return Err(invalid(format!("chat.system is longer than {MAX_SYSTEM} bytes")));
        }
        if self.tools.len() > MAX_TOOLS {
            return Err(invalid(format!("chat.tools has more than {MAX_TOOLS} nodes")));
        }
        for (at, tool) in self.tools.iter().enumerate() {
            nerve_types::name::check("node", tool)
                .map_err(|error| invalid(format!("chat.tools: {error}")))?;
            if self.tools[..at].contains(tool) {
                return Err(invalid(format!("chat.tools names '{tool}' twice")));
            }
        }
        if let ToolChoice::Node(name) = &self.tool_choice
            && !self.tools.contains(name)
        {
            let message = format!("chat.tool_choice: '{name}' is not one of the node's tools");
            return Err(invalid(message).hint("use auto, none, required, or the id of a node in chat.tools"));
        }
        if self.tool_choice == ToolChoice::Required && self.tools.is_empty() {
            return Err(invalid("chat.tool_choice is required, but there are no tools"));
        }
        if self.key_variable().is_some_and(|name| name.contains(['=', '\0'])) {
            return Err(invalid("chat.api_key_env is not the name of a variable")
                .hint("name the variable that holds the key, not the key itself"));
        }
        let base = self.base()?;
        let is_plain = base.scheme() == Some(&Scheme::HTTP) && !base.host().is_some_and(is_loopback);
        if is_plain && self.api_key_env.is_none() {
            return Err(invalid("chat.base_url: the key would be sent in the clear")
                .hint("use https, or name the key's variable explicitly as api_key_env ('' for none)"));
        }
        Ok(())
    }

    /// Returns the name of the key's variable, or `None` if no key is sent.
    pub fn key_variable(&self) -> Option<&str> {
        let usual = match self.provider {
            Provider::Anthropic => "ANTHROPIC_API_KEY",
            Provider::Openai => "OPENAI_API_KEY",
        };
        Some(self.api_key_env.as_deref().unwrap_or(usual)).filter(|name| !name.is_empty())
    }

    /// Returns the API's address, without a trailing slash.
    pub fn base_url(&self) -> &str {
        let usual = match self.provider {
            Provider::Anthropic => "https://api.anthropic.com",
            Provider::Openai => "https://api.openai.com/v1",
        };
        self.base_url.as_deref().unwrap_or(usual).trim_end_matches('/')
    }

    /// Returns the URL of requests.
    ///
    /// # Errors
    /// InvalidRequest: `base_url` is not a valid address.
    pub(super) fn endpoint(&self) -> Result<Uri, EngineError> {
        let base = self.base_url();
        let path = self.base()?.path().trim_end_matches('/').to_string();
        let rest = match self.provider {
            Provider::Anthropic if path.ends_with("/v1") => "/messages",
            Provider::Anthropic => "/v1/messages",
            Provider::Openai if path.is_empty() => "/v1/chat/completions",
            Provider::Openai => "/chat/completions",
        };
        format!("{base}{rest}").parse().map_err(|_| invalid("chat.base_url is not an address"))
    }

    /// Returns true for OpenAI's own API, which has a different name for the token limit than compatible APIs.
    pub(super) fn is_openai(&self) -> bool {
        self.base().is_ok_and(|base| base.host() == Some("api.openai.com"))
    }

    fn base(&self) -> Result<Uri, EngineError> {
        let text = self.base_url();
        let hint = "like https://host/path";
        let uri: Uri = text.parse().map_err(|_| invalid("chat.base_url is not an address").hint(hint))?;
        let has_scheme = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
        let Some(authority) = uri.authority().filter(|_| has_scheme) else {
            return Err(invalid("chat.base_url must begin with http:// or https://").hint(hint));
        };
        // A key in the URL would end up in the sessions file and in the node's info.
        if authority.as_str().contains('@') || uri.query().is_some() || text.contains('#') {
            return Err(invalid("chat.base_url contains a user, a query or a fragment")
                .hint("keys belong in the environment: name the variable as api_key_env"));
        }
        Ok(uri)
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn invalid(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message)
}

impl Provider {
    /// All providers.
    pub const ALL: [Provider; 2] = [Provider::Anthropic, Provider::Openai];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn unknown_provider(name: &str) -> EngineError {
    let known = Provider::ALL.map(Provider::as_str).join(", ");
    invalid(format!("unknown provider '{name}'"))
        .hint(format!("providers: {known}; most other APIs are compatible with openai: set their base_url"))
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == ToolChoice::Auto
    }
}

impl From<String> for ToolChoice {
    fn from(text: String) -> ToolChoice {
        match text.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => ToolChoice::Node(text),
        }
    }
}

impl From<ToolChoice> for String {
    fn from(choice: ToolChoice) -> String {
        choice.to_string()
    }
}

impl fmt::Display for ToolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
            ToolChoice::Required => "required",
            ToolChoice::Node(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(provider: Provider, base_url: &str) -> ChatSpec {
        ChatSpec { base_url: Some(base_url.into()), ..ChatSpec::new(provider, "m") }
    }

    #[test]
    fn endpoint_follows_provider_and_base_url() {
        let of = |spec: ChatSpec| spec.endpoint().unwrap().to_string();
        assert_eq!(of(ChatSpec::new(Provider::Anthropic, "m")), "https://api.anthropic.com/v1/messages");
        assert_eq!(of(ChatSpec::new(Provider::Openai, "m")), "https://api.openai.com/v1/chat/completions");
        for (provider, base, whole) in [
            (Provider::Anthropic, "http://127.0.0.1:9/", "http://127.0.0.1:9/v1/messages"),
            (Provider::Anthropic, "https://h/anthropic", "https://h/anthropic/v1/messages"),
            (Provider::Anthropic, "https://h/v1", "https://h/v1/messages"),
            (Provider::Openai, "http://localhost:9", "http://localhost:9/v1/chat/completions"),
            (Provider::Openai, "https://h/api/v1/", "https://h/api/v1/chat/completions"),
        ] {
            assert_eq!(of(at(provider, base)), whole);
        }
    }

    #[test]
    fn invalid_settings_are_rejected_without_secrets() {
        for (spec, says) in [
            (ChatSpec::new(Provider::Openai, " "), "needs a model"),
            (at(Provider::Openai, "https://me:hunter2@h/"), "a user, a query"),
            (at(Provider::Openai, "https://h/?key=hunter2"), "a user, a query"),
            (at(Provider::Openai, "ftp://hunter2"), "must begin with http"),
            (at(Provider::Openai, "hunter2 hunter2"), "not an address"),
            (at(Provider::Openai, "http://hunter2.example"), "in the clear"),
            (ChatSpec { max_tokens: 0, ..ChatSpec::new(Provider::Openai, "m") }, "max_tokens"),
            (ChatSpec { temperature: Some(f64::NAN), ..ChatSpec::new(Provider::Openai, "m") }, "temperature"),
            (ChatSpec { tools: vec!["A B".into()], ..ChatSpec::new(Provider::Openai, "m") }, "chat.tools"),
            (
                ChatSpec { tool_choice: ToolChoice::Required, ..ChatSpec::new(Provider::Openai, "m") },
                "no tools",
            ),
            (
                ChatSpec {
                    tool_choice: ToolChoice::Node("b".into()),
                    ..ChatSpec::new(Provider::Openai, "m")
                },
                "not one of the node's tools",
            ),
            (
                ChatSpec { api_key_env: Some("A=hunter2".into()), ..at(Provider::Openai, "https://h") },
                "not the name",
            ),
        ] {
            let error = spec.check().unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            assert!(error.message.contains(says), "{}", error.message);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let local =
            ChatSpec { api_key_env: Some(String::new()), ..at(Provider::Openai, "http://far.example") };
        assert!(local.check().is_ok() && local.key_variable().is_none());
        assert!(at(Provider::Anthropic, "http://[::1]:9").check().is_ok());
    }

    #[test]
    fn json_has_defaults_and_rejects_unknown_fields() {
        let spec: ChatSpec = serde_json::from_str(r#"{"model": "m"}"#).unwrap();
        assert_eq!(spec, ChatSpec::new(Provider::Anthropic, "m"));
        let all =
            r#"{"provider": "openai", "model": "m", "tools": ["b"], "tool_choice": "b", "keep": "x.json"}"#;
        let spec: ChatSpec = serde_json::from_str(all).unwrap();
        assert_eq!(spec.tool_choice, ToolChoice::Node("b".into()));
        assert_eq!(serde_json::from_str::<ChatSpec>(&serde_json::to_string(&spec).unwrap()).unwrap(), spec);
        for bad in [r#"{}"#, r#"{"model": "m", "api_key": "k"}"#, r#"{"model": "m", "provider": "x"}"#] {
            assert!(serde_json::from_str::<ChatSpec>(bad).is_err(), "{bad}");
        }
    }
}
