//! The proxy of a node.

use nerve_api::request;
use nerve_core::error::EngineError;
use nerve_core::proxy::{ProxyBudget, ProxyKind, ProxyPrices, ProxySpec};

/// What is asked for, checked as far as it can be without the program.
pub(crate) fn spec(params: params::ProxyOption) -> Result<ProxySpec, EngineError> {
    let of_params = |mut error: EngineError| {
        error.message = format!("params.{}", error.message);
        error
    };
    let params = params::ProxySettings::from(params);
    let kind = ProxyKind::parse(&params.kind).map_err(of_params)?;
    let budget = params.budget.unwrap_or_default();
    let spec = ProxySpec {
        base_url: params.base_url,
        upstream_ca: params.upstream_ca.map(Into::into),
        model: params.model,
        api_key_env: params.api_key_env,
        prices: params.prices.map(|prices| ProxyPrices { input: prices.input, output: prices.output }),
        budget: ProxyBudget {
            max_tokens: budget.max_tokens,
            max_requests: budget.max_requests,
            max_cost_usd: budget.max_cost_usd,
        },
        max_output: params.max_output,
        reasoning: params.reasoning,
        log: params.log.unwrap_or(true),
        log_bodies: params.log_bodies,
        ..ProxySpec::new(kind)
    };
    spec.check().map_err(of_params)?;
    Ok(spec)
}
