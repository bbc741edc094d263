//! Checks and evaluates the settings of a node's proxy.

use std::path::Path;

use nerve_api::request::ProxySettings;
use nerve_api::value::Provider;
use nerve_proxy::{Budget, Prices, ProxyConfig, RootCerts, Secret, Upstream};

use crate::error::EngineError;

/// Returns the provider in the terms of the proxy.
pub(super) fn provider(kind: Provider) -> nerve_proxy::Provider {
    match kind {
        Provider::Anthropic => nerve_proxy::Provider::Anthropic,
        Provider::Openai => nerve_proxy::Provider::OpenAi,
    }
}

/// Returns true if the proxy adds a key of its own. Its agent then gets a token instead of a key.
pub(super) fn needs_token(spec: &ProxySettings) -> bool {
    spec.api_key_env.is_some() || spec.kind == Provider::Openai
}

/// Returns the upstream's address.
///
/// # Errors
/// InvalidRequest: not a valid address.
fn upstream(spec: &ProxySettings) -> Result<Upstream, EngineError> {
    let usual = match spec.kind {
        Provider::Anthropic => Upstream::ANTHROPIC,
        Provider::Openai => Upstream::OPENAI,
    };
    Upstream::parse(spec.base_url.as_deref().unwrap_or(usual))
        .map_err(|error| EngineError::invalid_request(format!("proxy.base_url: {error}")))
}

/// Checks the settings, without reading the environment or files.
///
/// # Errors
/// InvalidRequest: names the setting and the problem.
pub fn check(spec: &ProxySettings) -> Result<(), EngineError> {
    if spec.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
        return Err(EngineError::invalid_request("proxy.model is empty"));
    }
    if spec.log_bodies && !spec.log {
        return Err(EngineError::invalid_request("proxy.log_bodies needs proxy.log"));
    }
    if spec.kind == Provider::Anthropic && (spec.max_output.is_some() || spec.reasoning) {
        return Err(EngineError::invalid_request(
            "proxy.max_output and proxy.reasoning need a proxy of kind openai",
        ));
    }
    if spec.upstream_ca.as_ref().is_some_and(|path| !Path::new(path).is_absolute()) {
        return Err(EngineError::invalid_request(
            "proxy.upstream_ca must be an absolute path: the server reads the file",
        ));
    }
    if spec.api_key_env.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(EngineError::invalid_request("proxy.api_key_env is not the name of a variable")
            .hint("name the variable that holds the key, not the key itself"));
    }
    // A placeholder for the key: whether the settings are valid does not depend on its value.
    let key = spec.api_key_env.as_ref().map(|_| Secret::new("a key"));
    let config = ProxyConfig { api_key: key, ..config_without_key(spec)? };
    config
        .validate(provider(spec.kind))
        .map_err(|error| EngineError::invalid_request(format!("proxy: {error}")))
}

/// Builds the configuration of a running proxy, with the key from the server's environment.
///
/// # Errors
/// InvalidRequest: the variable or the certificate file does not exist.
pub(super) fn config(spec: &ProxySettings) -> Result<ProxyConfig, EngineError> {
    let key = spec.api_key_env.as_deref().map(|name| {
        let value = std::env::var(name).ok().map(|text| Secret::new(&text));
        value.filter(|secret| !secret.is_empty()).ok_or_else(|| {
            EngineError::invalid_request(format!("proxy.api_key_env: the variable '{name}' holds no key in the server's environment"))
                .hint("the server inherits the environment of the shell that starts it: export the key there and restart the server")
        })
    });
    let root_certs = spec.upstream_ca.as_ref().map(|path| {
        RootCerts::read(Path::new(path))
            .map_err(|error| EngineError::invalid_request(format!("proxy.upstream_ca: {error}")))
    });
    Ok(ProxyConfig {
        api_key: key.transpose()?,
        root_certs: root_certs.transpose()?,
        ..config_without_key(spec)?
    })
}

fn config_without_key(spec: &ProxySettings) -> Result<ProxyConfig, EngineError> {
    Ok(ProxyConfig {
        model: spec.model.clone(),
        budget: Budget {
            max_tokens: spec.budget.max_tokens,
            max_requests: spec.budget.max_requests,
            max_cost_usd: spec.budget.max_cost_usd,
        },
        prices: spec.prices.map(|prices| Prices::new(prices.input, prices.output)),
        max_output: spec.max_output,
        reasoning: spec.reasoning,
        ..ProxyConfig::new(upstream(spec)?)
    })
}

/// Returns true for a name that a shell could export. The value may be the key itself by mistake.
fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= 64 && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use nerve_api::request::ProxyPrices;

    use super::*;
    use crate::error::ErrorKind;

    fn wrong(change: impl FnOnce(&mut ProxySettings)) -> String {
        let mut spec = ProxySettings::new(Provider::Anthropic);
        change(&mut spec);
        let error = check(&spec).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        error.message
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(check(&ProxySettings::new(Provider::Anthropic)).is_ok());
        assert!(check(&ProxySettings::new(Provider::Openai)).is_ok());
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
        let spec =
            ProxySettings { api_key_env: Some(name.into()), ..ProxySettings::new(Provider::Anthropic) };
        assert!(check(&spec).is_ok());
        let error = config(&spec).unwrap_err();
        assert!(error.message.contains(name) && error.hint.is_some(), "{error:?}");
    }
}
