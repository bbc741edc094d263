//! Decodes and checks the proxy of a node in a graph file.

use nerve_node::error::EngineError;
use nerve_node::proxy::{Provider, ProxyBudget, ProxyPrices, ProxySettings};

use super::fields::{Decode, Fields};
use super::source_map::{Path, Report};
use super::tree::{Kind, Tree};

impl Decode for ProxySettings {
    /// Decodes settings, or just a kind: `proxy: anthropic` uses the defaults.
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<ProxySettings> {
        if matches!(tree.kind, Kind::Text(_)) {
            return Provider::decode(tree, at, report).map(ProxySettings::new);
        }
        let mut fields = Fields::expect(tree, &at, "a proxy", report)?;
        let kind = fields.required(&["kind"], report);
        let spec = ProxySettings {
            base_url: fields.optional("base_url", report),
            upstream_ca: fields.optional("upstream_ca", report),
            model: fields.optional("model", report),
            api_key_env: fields.optional("api_key_env", report),
            prices: fields.optional("prices", report),
            budget: fields.optional_or("budget", ProxyBudget::default(), report),
            max_output: fields.optional("max_output", report),
            reasoning: fields.optional_or("reasoning", false, report),
            log: fields.optional_or("log", true, report),
            log_bodies: fields.optional_or("log_bodies", false, report),
            ..ProxySettings::new(Provider::Anthropic)
        };
        fields.finish(report);
        Some(ProxySettings { kind: kind?, ..spec })
    }
}

impl Decode for ProxyPrices {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<ProxyPrices> {
        let mut fields = Fields::expect(tree, &at, "prices", report)?;
        let (input, output) = (fields.required(&["input"], report), fields.required(&["output"], report));
        fields.finish(report);
        Some(ProxyPrices { input: input?, output: output? })
    }
}

impl Decode for ProxyBudget {
    fn decode(tree: &Tree, at: Path<'_>, report: &mut Report<'_>) -> Option<ProxyBudget> {
        let mut fields = Fields::expect(tree, &at, "a proxy's budget", report)?;
        let budget = ProxyBudget {
            max_tokens: fields.optional("max_tokens", report),
            max_requests: fields.optional("max_requests", report),
            max_cost_usd: fields.optional("max_cost_usd", report),
        };
        fields.finish(report);
        Some(budget)
    }
}

/// Reports contradictory settings.
pub(super) fn check(proxy: &ProxySettings, at: Path<'_>, report: &mut Report<'_>) {
    let Err(EngineError { message, hint, .. }) = nerve_node::proxy::check(proxy) else { return };
    let field = message.strip_prefix("proxy.").map(|rest| {
        rest.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next().unwrap_or_default().to_string()
    });
    let message = message.replace("proxy.", "");
    let at = match &field {
        Some(field) => at.key(field),
        None => at,
    };
    match hint {
        Some(hint) => report.error_with_hint(at, message, hint),
        None => report.error(at, message),
    }
}
