//! Options of `node create` for a proxy of the node.

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use nerve_api::request::{ProxyBudget, ProxyPrices, ProxySettings};
use nerve_api::value::Provider;

use super::values::{described_values, one_of};

/// A proxy between the node's agent and its model's API.
#[derive(Debug, Args)]
pub struct ProxyOptions {
    /// Give the agent its own proxy, which counts, logs and limits its usage
    #[arg(long, value_parser = one_of::<Provider>(described_values::<Provider>()), value_name = "KIND")]
    pub proxy: Option<Provider>,
    /// Proxy: upstream URL [default: the vendor's API]
    #[arg(long, requires = "proxy", value_name = "URL", value_hint = ValueHint::Url)]
    pub proxy_base_url: Option<String>,
    /// Proxy: trust only the CA certificates in this PEM file for the upstream
    #[arg(long, requires = "proxy", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub proxy_upstream_ca: Option<std::path::PathBuf>,
    /// Proxy: model for every request [default: as requested]
    #[arg(long, requires = "proxy", value_name = "NAME")]
    pub proxy_model: Option<String>,
    /// Proxy: variable in the server's environment with the upstream key; hidden from the agent
    #[arg(long, requires = "proxy", value_name = "NAME")]
    pub proxy_key_env: Option<String>,
    /// Proxy: price of a million input and output tokens in US dollars
    #[arg(long, requires = "proxy", value_name = "IN,OUT", value_parser = price)]
    pub proxy_price: Option<(f64, f64)>,
    /// Proxy: token limit, input and output together
    #[arg(long, requires = "proxy", value_name = "N")]
    pub proxy_max_tokens: Option<u64>,
    /// Proxy: request limit
    #[arg(long, requires = "proxy", value_name = "N")]
    pub proxy_max_requests: Option<u64>,
    /// Proxy: cost limit in US dollars
    #[arg(long, requires = "proxy_price", value_name = "USD")]
    pub proxy_max_cost: Option<f64>,
    /// Proxy to openai: token limit per answer
    #[arg(long, requires = "proxy", value_name = "TOKENS")]
    pub proxy_max_output: Option<u64>,
    /// Proxy to openai: pass the agent's thinking requests on as reasoning_effort
    #[arg(long, requires = "proxy")]
    pub proxy_reasoning: bool,
    /// Proxy: keep no log
    #[arg(long, requires = "proxy")]
    pub proxy_no_log: bool,
    /// Proxy: log message bodies too, with known keys removed
    #[arg(long, requires = "proxy", conflicts_with = "proxy_no_log")]
    pub proxy_log_bodies: bool,
}

/// Parses `IN,OUT`: US dollars per million tokens.
pub fn price(text: &str) -> Result<(f64, f64), String> {
    let number =
        |text: &str| text.trim().parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    let both = text.split_once(',').and_then(|(input, output)| Some((number(input)?, number(output)?)));
    both.ok_or_else(|| "expected two prices separated by a comma, such as 3,15".to_string())
}

/// Returns the proxy parameters, or `None` without `--proxy`.
pub fn proxy_params(args: ProxyOptions) -> Result<Option<Box<ProxySettings>>> {
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
    Ok(Some(Box::new(ProxySettings {
        kind,
        base_url: args.proxy_base_url,
        upstream_ca: upstream_ca.transpose()?,
        model: args.proxy_model,
        api_key_env: args.proxy_key_env,
        prices: args.proxy_price.map(|(input, output)| ProxyPrices { input, output }),
        budget,
        max_output: args.proxy_max_output,
        reasoning: args.proxy_reasoning,
        log: !args.proxy_no_log,
        log_bodies: args.proxy_log_bodies,
    })))
}
