//! Decodes and checks the proxy of a node in a graph file.

use nerve_node::error::EngineError;
use nerve_node::proxy::{Provider, ProxyBudget, ProxyPrices, ProxySettings};

use super::fields::{Decode, Fields, decode_fields, decode_mappings};
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
        let settings = decode_fields! { fields, report, ProxySettings::new(Provider::Anthropic), ProxySettings {
            base_url, upstream_ca, model, api_key_env, prices, budget, max_output, reasoning, log,
            log_bodies,
        } };
        fields.finish(report);
        Some(ProxySettings { kind: kind?, ..settings })
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

decode_mappings! {
    "a proxy's budget" ProxyBudget { max_tokens, max_requests, max_cost_usd }
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
