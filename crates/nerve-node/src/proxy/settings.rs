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
pub(super) fn needs_token(settings: &ProxySettings) -> bool {
    settings.api_key_env.is_some() || settings.kind == Provider::Openai
}

/// Returns the upstream's address.
///
/// # Errors
/// InvalidRequest: not a valid address.
fn upstream(settings: &ProxySettings) -> Result<Upstream, EngineError> {
    let usual = match settings.kind {
        Provider::Anthropic => Upstream::ANTHROPIC,
        Provider::Openai => Upstream::OPENAI,
    };
    Upstream::parse(settings.base_url.as_deref().unwrap_or(usual))
        .map_err(|error| EngineError::invalid_request(format!("proxy.base_url: {error}")))
}

/// Checks the settings, without reading the environment or files.
///
/// # Errors
/// InvalidRequest: names the setting and the problem.
pub fn check(settings: &ProxySettings) -> Result<(), EngineError> {
    if settings.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
        return Err(EngineError::invalid_request("proxy.model is empty"));
    }
    if settings.log_bodies && !settings.log {
        return Err(EngineError::invalid_request("proxy.log_bodies needs proxy.log"));
    }
    if settings.kind == Provider::Anthropic && (settings.max_output.is_some() || settings.reasoning) {
        return Err(EngineError::invalid_request(
            "proxy.max_output and proxy.reasoning need a proxy of kind openai",
        ));
    }
    if settings.upstream_ca.as_ref().is_some_and(|path| !Path::new(path).is_absolute()) {
        return Err(EngineError::invalid_request(
            "proxy.upstream_ca must be an absolute path: the server reads the file",
        ));
    }
    if settings.api_key_env.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(EngineError::invalid_request("proxy.api_key_env is not the name of a variable")
            .hint("name the variable that holds the key, not the key itself"));
    }
    // A placeholder for the key: whether the settings are valid does not depend on its value.
    let key = settings.api_key_env.as_ref().map(|_| Secret::new("a key"));
    let config = ProxyConfig { api_key: key, ..config_without_key(settings)? };
    config
        .validate(provider(settings.kind))
        .map_err(|error| EngineError::invalid_request(format!("proxy: {error}")))
}

/// Builds the configuration of a running proxy, with the key from the server's environment.
///
/// # Errors
/// InvalidRequest: the variable or the certificate file does not exist.
pub(super) fn config(settings: &ProxySettings) -> Result<ProxyConfig, EngineError> {
    let key = settings.api_key_env.as_deref().map(|name| {
        let value = std::env::var(name).ok().map(|text| Secret::new(&text));
        value.filter(|secret| !secret.is_empty()).ok_or_else(|| {
            EngineError::invalid_request(format!("proxy.api_key_env: the variable '{name}' holds no key in the server's environment"))
                .hint("the server inherits the environment of the shell that starts it: export the key there and restart the server")
        })
    });
    let root_certs = settings.upstream_ca.as_ref().map(|path| {
        RootCerts::read(Path::new(path))
            .map_err(|error| EngineError::invalid_request(format!("proxy.upstream_ca: {error}")))
    });
    Ok(ProxyConfig {
        api_key: key.transpose()?,
        root_certs: root_certs.transpose()?,
        ..config_without_key(settings)?
    })
}

fn config_without_key(settings: &ProxySettings) -> Result<ProxyConfig, EngineError> {
    Ok(ProxyConfig {
        model: settings.model.clone(),
        budget: Budget {
            max_tokens: settings.budget.max_tokens,
            max_requests: settings.budget.max_requests,
            max_cost_usd: settings.budget.max_cost_usd,
        },
        prices: settings.prices.map(|prices| Prices::new(prices.input, prices.output)),
        max_output: settings.max_output,
        reasoning: settings.reasoning,
        ..ProxyConfig::new(upstream(settings)?)
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
        let mut settings = ProxySettings::new(Provider::Anthropic);
        change(&mut settings);
        let error = check(&settings).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        error.message
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(check(&ProxySettings::new(Provider::Anthropic)).is_ok());
        assert!(check(&ProxySettings::new(Provider::Openai)).is_ok());
        assert!(wrong(|settings| settings.base_url = Some("host".into())).contains("proxy.base_url"));
        let clear = wrong(|settings| settings.base_url = Some("http://far.example".into()));
        assert!(clear.contains("unencrypted"), "{clear}");
        let secret = wrong(|settings| settings.base_url = Some("https://u:hunter2@h".into()));
        assert!(!secret.contains("hunter2"), "{secret}");
        let key = wrong(|settings| settings.api_key_env = Some("sk-ant-hunter2".into()));
        assert!(key.contains("not the name of a variable") && !key.contains("hunter2"), "{key}");
        assert!(wrong(|settings| settings.budget.max_cost_usd = Some(1.0)).contains("prices"));
        assert!(
            wrong(|settings| settings.prices = Some(ProxyPrices { input: -1.0, output: 1.0 }))
                .contains("0 or more")
        );
        assert!(wrong(|settings| settings.model = Some(" ".into())).contains("proxy.model"));
        assert!(wrong(|settings| settings.max_output = Some(1)).contains("kind openai"));
        assert!(wrong(|settings| settings.upstream_ca = Some("ca.pem".into())).contains("absolute path"));
        assert!(
            wrong(|settings| {
                settings.log = false;
                settings.log_bodies = true;
            })
            .contains("needs proxy.log")
        );
    }

    #[test]
    fn missing_key_is_detected_at_start() {
        let name = "NERVE_TEST_NO_SUCH_KEY";
        let settings =
            ProxySettings { api_key_env: Some(name.into()), ..ProxySettings::new(Provider::Anthropic) };
        assert!(check(&settings).is_ok());
        let error = config(&settings).unwrap_err();
        assert!(error.message.contains(name) && error.hint.is_some(), "{error:?}");
    }
}
