//! Options of `node create` for a proxy of the node.

use clap::{Args, ValueEnum, ValueHint};

use super::proxy::price;

/// A proxy between the node's agent and its model's API.
#[derive(Debug, Args)]
pub(crate) struct ProxyOptions {
    /// Give the agent its own proxy, which counts, logs and limits its usage
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) proxy: Option<ProxyKind>,
    /// Proxy: upstream URL [default: the vendor's API]
    #[arg(long, requires = "proxy", value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) proxy_base_url: Option<String>,
    /// Proxy: trust only the CA certificates in this PEM file for the upstream
    #[arg(long, requires = "proxy", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) proxy_upstream_ca: Option<std::path::PathBuf>,
    /// Proxy: model for every request [default: as requested]
    #[arg(long, requires = "proxy", value_name = "NAME")]
    pub(crate) proxy_model: Option<String>,
    /// Proxy: variable in the server's environment with the upstream key; hidden from the agent
    #[arg(long, requires = "proxy", value_name = "NAME")]
    pub(crate) proxy_key_env: Option<String>,
    /// Proxy: price of a million input and output tokens in US dollars
    #[arg(long, requires = "proxy", value_name = "IN,OUT", value_parser = price)]
    pub(crate) proxy_price: Option<(f64, f64)>,
    /// Proxy: token limit, input and output together
    #[arg(long, requires = "proxy", value_name = "N")]
    pub(crate) proxy_max_tokens: Option<u64>,
    /// Proxy: request limit
    #[arg(long, requires = "proxy", value_name = "N")]
    pub(crate) proxy_max_requests: Option<u64>,
    /// Proxy: cost limit in US dollars
    #[arg(long, requires = "proxy_price", value_name = "USD")]
    pub(crate) proxy_max_cost: Option<f64>,
    /// Proxy to openai: token limit per answer
    #[arg(long, requires = "proxy", value_name = "TOKENS")]
    pub(crate) proxy_max_output: Option<u64>,
    /// Proxy to openai: pass the agent's thinking requests on as reasoning_effort
    #[arg(long, requires = "proxy")]
    pub(crate) proxy_reasoning: bool,
    /// Proxy: keep no log
    #[arg(long, requires = "proxy")]
    pub(crate) proxy_no_log: bool,
    /// Proxy: log message bodies too, with known keys removed
    #[arg(long, requires = "proxy", conflicts_with = "proxy_no_log")]
    pub(crate) proxy_log_bodies: bool,
}

/// API behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyKind {
    /// Anthropic's or a compatible one
    Anthropic,
    /// OpenAI Chat Completions or a compatible one
    Openai,
}
