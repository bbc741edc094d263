//! Options for the proxy of a new node.

use anyhow::{Context, Result};
use nerve_api::request::{ProxyBudget, ProxyOption, ProxyPrices, ProxySettings};

use crate::cli::node::name_of;
use crate::cli::node_proxy::ProxyOptions;

/// Returns the proxy parameters, or `None` without `--proxy`.
pub(crate) fn proxy_params(args: ProxyOptions) -> Result<Option<ProxyOption>> {
    let Some(kind) = args.proxy else { return Ok(None) };
    let budget = ProxyBudget {
        max_tokens: args.proxy_max_tokens,
        max_requests: args.proxy_max_requests,
        max_cost_usd: args.proxy_max_cost,
    };
    // Relative paths refer to the directory of this command, not of the server.
    let upstream_ca = args.proxy_upstream_ca.map(|path| {
        let path = std::path::absolute(path).context("cannot find the current directory")?;
        path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
    });
    Ok(Some(ProxyOption::Settings(Box::new(ProxySettings {
        kind: name_of(kind),
        base_url: args.proxy_base_url,
        upstream_ca: upstream_ca.transpose()?,
        model: args.proxy_model,
        api_key_env: args.proxy_key_env,
        prices: args.proxy_price.map(|(input, output)| ProxyPrices { input, output }),
        budget: Some(budget).filter(|budget| *budget != ProxyBudget::default()),
        max_output: args.proxy_max_output,
        reasoning: args.proxy_reasoning,
        log: args.proxy_no_log.then_some(false),
        log_bodies: args.proxy_log_bodies,
    }))))
}
