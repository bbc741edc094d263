//! The environment variables that pass a proxy to the program.

use std::collections::BTreeMap;

use nerve_agent::profile::{Profile, ProxyVars};
use nerve_host::environment::Environment;
use nerve_proxy::Upstream;

use super::{Provider, ProxySettings, settings};
use crate::error::EngineError;

/// Returns the variables that pass the proxy to the program. Fails if the node sets them itself in `env`, or if the proxy would
/// send the agent's key to another address than the environment names.
pub(super) fn proxy_vars<'p>(
    profile: &'p Profile,
    settings: &ProxySettings,
    env: &Environment,
    server_env: &BTreeMap<String, String>,
) -> Result<&'p ProxyVars, EngineError> {
    let invalid =
        |message: String, hint: &str| Err(EngineError::invalid_request(message).hint(hint.to_string()));
    let Some(vars) = &profile.proxy else {
        let message = format!(
            "a '{}' node cannot have a proxy: its profile does not say how to pass one to the program",
            profile.name
        );
        return invalid(
            message,
            "use Claude Code, or run `nerve proxy` and set the program's variables, or write a profile with [proxy]",
        );
    };
    let token = vars.token.as_ref().filter(|_| settings::needs_token(settings));
    if settings::needs_token(settings) && token.is_none() {
        let message = format!(
            "a '{}' node cannot have a proxy with its own key: its profile names no variable for the token",
            profile.name
        );
        return invalid(message, "add `token` to [proxy] in the profile");
    }
    if let Some(name) = [Some(&vars.url), token].into_iter().flatten().find(|name| env.is_own(name)) {
        return invalid(
            format!("{name} is set for the node, but its proxy sets it too"),
            "remove the variable or the proxy; proxy.base_url sets where the proxy sends requests",
        );
    }
    if env.get(&vars.url, server_env).is_some_and(|url| leaks_key(url, settings)) {
        // The variable's value may contain a key.
        let message = format!(
            "{} is set in the environment and proxy.base_url is not: the proxy would send the agent's key to {}, not to that address",
            vars.url,
            Upstream::ANTHROPIC
        );
        return invalid(message, "set proxy.base_url, or unset that variable");
    }
    Ok(vars)
}

/// Returns true if the agent's own key would go to the vendor although its environment names another address.
fn leaks_key(url: &str, settings: &ProxySettings) -> bool {
    let is_vendor = url.trim_end_matches('/') == Upstream::ANTHROPIC;
    settings.kind == Provider::Anthropic && settings.base_url.is_none() && !url.is_empty() && !is_vendor
}
