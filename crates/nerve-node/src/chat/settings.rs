//! Checks and evaluates the settings of a chat node.

use http::Uri;
use http::uri::Scheme;
use nerve_api::request::{ChatSettings, ToolChoice};
use nerve_api::value::Provider;
use nerve_types::network_address::is_loopback;

use crate::error::EngineError;

/// Maximum number of tools of a request.
const MAX_TOOLS: usize = 64;
/// Maximum number of rounds and retries.
const MAX_ROUNDS: u32 = 1000;
/// Maximum size of the system prompt in bytes.
const MAX_SYSTEM: usize = 1 << 20;

/// Returns the settings of a fork: without the file, because two nodes would overwrite each other's conversation.
#[must_use]
pub fn fork_settings(settings: ChatSettings) -> ChatSettings {
    ChatSettings { keep: None, ..settings }
}

/// Checks the settings.
///
/// # Errors
/// InvalidRequest: names the field and the problem. Values that may be secret are not repeated.
pub fn check(settings: &ChatSettings) -> Result<(), EngineError> {
    if settings.model.trim().is_empty() {
        return Err(EngineError::invalid_request("a chat node needs a model")
            .hint("add `--model NAME`, or chat.model"));
    }
    if settings.model.chars().any(char::is_control) {
        return Err(EngineError::invalid_request("chat.model contains a control character"));
    }
    if settings.max_tokens == 0 {
        return Err(EngineError::invalid_request("chat.max_tokens must be at least 1"));
    }
    if settings.temperature.is_some_and(|heat| !(0.0..=2.0).contains(&heat)) {
        return Err(EngineError::invalid_request("chat.temperature must be from 0 to 2"));
    }
    if settings.max_tool_rounds > MAX_ROUNDS || settings.retries > MAX_ROUNDS {
        let message = format!("chat.max_tool_rounds and chat.retries are limited to {MAX_ROUNDS}");
        return Err(EngineError::invalid_request(message));
    }
    if settings.system.as_ref().is_some_and(|system| system.len() > MAX_SYSTEM) {
        return Err(EngineError::invalid_request(format!("chat.system is longer than {MAX_SYSTEM} bytes")));
    }
    if settings.tools.len() > MAX_TOOLS {
        return Err(EngineError::invalid_request(format!("chat.tools has more than {MAX_TOOLS} nodes")));
    }
    for (at, tool) in settings.tools.iter().enumerate() {
        nerve_types::name::check("node", tool)
            .map_err(|error| EngineError::invalid_request(format!("chat.tools: {error}")))?;
        if settings.tools[..at].contains(tool) {
            return Err(EngineError::invalid_request(format!("chat.tools names '{tool}' twice")));
        }
    }
    if let ToolChoice::Node(name) = &settings.tool_choice
        && !settings.tools.contains(name)
    {
        let message = format!("chat.tool_choice: '{name}' is not one of the node's tools");
        return Err(EngineError::invalid_request(message)
            .hint("use auto, none, required, or the id of a node in chat.tools"));
    }
    if settings.tool_choice == ToolChoice::Required && settings.tools.is_empty() {
        return Err(EngineError::invalid_request("chat.tool_choice is required, but there are no tools"));
    }
    if key_variable(settings).is_some_and(|name| name.contains(['=', '\0'])) {
        return Err(EngineError::invalid_request("chat.api_key_env is not the name of a variable")
            .hint("name the variable that holds the key, not the key itself"));
    }
    let base = base(settings)?;
    let is_plain = base.scheme() == Some(&Scheme::HTTP) && !base.host().is_some_and(is_loopback);
    if is_plain && settings.api_key_env.is_none() {
        return Err(EngineError::invalid_request("chat.base_url: the key would be sent in the clear")
            .hint("use https, or name the key's variable explicitly as api_key_env ('' for none)"));
    }
    Ok(())
}

/// Returns the name of the key's variable, or `None` if no key is sent.
pub(super) fn key_variable(settings: &ChatSettings) -> Option<&str> {
    let usual = match settings.provider {
        Provider::Anthropic => "ANTHROPIC_API_KEY",
        Provider::Openai => "OPENAI_API_KEY",
    };
    Some(settings.api_key_env.as_deref().unwrap_or(usual)).filter(|name| !name.is_empty())
}

/// Returns the API's address, without a trailing slash.
pub(super) fn base_url(settings: &ChatSettings) -> &str {
    let usual = match settings.provider {
        Provider::Anthropic => "https://api.anthropic.com",
        Provider::Openai => "https://api.openai.com/v1",
    };
    settings.base_url.as_deref().unwrap_or(usual).trim_end_matches('/')
}

/// Returns the URL of requests.
///
/// # Errors
/// InvalidRequest: `base_url` is not a valid address.
pub(super) fn endpoint(settings: &ChatSettings) -> Result<Uri, EngineError> {
    let url = base_url(settings);
    let path = base(settings)?.path().trim_end_matches('/').to_string();
    let rest = match settings.provider {
        Provider::Anthropic if path.ends_with("/v1") => "/messages",
        Provider::Anthropic => "/v1/messages",
        Provider::Openai if path.is_empty() => "/v1/chat/completions",
        Provider::Openai => "/chat/completions",
    };
    format!("{url}{rest}")
        .parse()
        .map_err(|_| EngineError::invalid_request("chat.base_url is not an address"))
}

/// Returns true for OpenAI's own API, which has a different name for the token limit than compatible APIs.
pub(super) fn is_openai(settings: &ChatSettings) -> bool {
    base(settings).is_ok_and(|base| base.host() == Some("api.openai.com"))
}

fn base(settings: &ChatSettings) -> Result<Uri, EngineError> {
    let text = base_url(settings);
    let hint = "like https://host/path";
    let uri: Uri = text
        .parse()
        .map_err(|_| EngineError::invalid_request("chat.base_url is not an address").hint(hint))?;
    let has_scheme = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
    let Some(authority) = uri.authority().filter(|_| has_scheme) else {
        return Err(
            EngineError::invalid_request("chat.base_url must begin with http:// or https://").hint(hint)
        );
    };
    // A key in the URL would end up in the sessions file and in the node's info.
    if authority.as_str().contains('@') || uri.query().is_some() || text.contains('#') {
        return Err(EngineError::invalid_request("chat.base_url contains a user, a query or a fragment")
            .hint("keys belong in the environment: name the variable as api_key_env"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn at(provider: Provider, base_url: &str) -> ChatSettings {
        ChatSettings { base_url: Some(base_url.into()), ..ChatSettings::new(provider, "m") }
    }

    #[test]
    fn endpoint_follows_provider_and_base_url() {
        let of = |settings: ChatSettings| endpoint(&settings).unwrap().to_string();
        assert_eq!(of(ChatSettings::new(Provider::Anthropic, "m")), "https://api.anthropic.com/v1/messages");
        assert_eq!(
            of(ChatSettings::new(Provider::Openai, "m")),
            "https://api.openai.com/v1/chat/completions"
        );
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
        for (settings, says) in [
            (ChatSettings::new(Provider::Openai, " "), "needs a model"),
            (at(Provider::Openai, "https://me:hunter2@h/"), "a user, a query"),
            (at(Provider::Openai, "https://h/?key=hunter2"), "a user, a query"),
            (at(Provider::Openai, "ftp://hunter2"), "must begin with http"),
            (at(Provider::Openai, "hunter2 hunter2"), "not an address"),
            (at(Provider::Openai, "http://hunter2.example"), "in the clear"),
            (ChatSettings { max_tokens: 0, ..ChatSettings::new(Provider::Openai, "m") }, "max_tokens"),
            (
                ChatSettings { temperature: Some(f64::NAN), ..ChatSettings::new(Provider::Openai, "m") },
                "temperature",
            ),
            (
                ChatSettings { tools: vec!["A B".into()], ..ChatSettings::new(Provider::Openai, "m") },
                "chat.tools",
            ),
            (
                ChatSettings {
                    tool_choice: ToolChoice::Required,
                    ..ChatSettings::new(Provider::Openai, "m")
                },
                "no tools",
            ),
            (
                ChatSettings {
                    tool_choice: ToolChoice::Node("b".into()),
                    ..ChatSettings::new(Provider::Openai, "m")
                },
                "not one of the node's tools",
            ),
            (
                ChatSettings { api_key_env: Some("A=hunter2".into()), ..at(Provider::Openai, "https://h") },
                "not the name",
            ),
        ] {
            let error = check(&settings).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            assert!(error.message.contains(says), "{}", error.message);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let local =
            ChatSettings { api_key_env: Some(String::new()), ..at(Provider::Openai, "http://far.example") };
        assert!(check(&local).is_ok() && key_variable(&local).is_none());
        for local in ["http://[::1]:9", "http://LocalHost:9"] {
            assert!(check(&at(Provider::Anthropic, local)).is_ok(), "{local}");
        }
    }
}
