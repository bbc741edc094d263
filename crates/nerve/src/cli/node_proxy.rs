//! What `node create` takes for a proxy of the node's own.

use clap::{Args, ValueEnum, ValueHint};

use super::proxy::price;

/// A proxy between the node's agent and the API of its model.
#[derive(Debug, Args)]
pub(crate) struct ProxyOptions {
    /// Give the agent a proxy of its own, which counts what it uses, logs and limits it
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) proxy: Option<ProxyName>,
    /// Of its proxy: where requests go, instead of the vendor's own API
    #[arg(long, requires = "proxy", value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) proxy_base_url: Option<String>,
    /// Of its proxy: believe the upstream if a certificate in this PEM file vouches for it, and nobody else
    #[arg(long, requires = "proxy", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) proxy_upstream_ca: Option<std::path::PathBuf>,
    /// Of its proxy: the model that every request is for, instead of the one it asks for
    #[arg(long, requires = "proxy", value_name = "NAME")]
    pub(crate) proxy_model: Option<String>,
    /// Of its proxy: the variable of the server's environment with the upstream's key, which the agent does not get
    #[arg(long, requires = "proxy", value_name = "NAME")]
    pub(crate) proxy_key_env: Option<String>,
    /// Of its proxy: what a million tokens cost in US dollars: that go in, that come out
    #[arg(long, requires = "proxy", value_name = "IN,OUT", value_parser = price)]
    pub(crate) proxy_price: Option<(f64, f64)>,
    /// Of its proxy: refuse requests once so many tokens went in and out
    #[arg(long, requires = "proxy", value_name = "N")]
    pub(crate) proxy_max_tokens: Option<u64>,
    /// Of its proxy: refuse requests after so many
    #[arg(long, requires = "proxy", value_name = "N")]
    pub(crate) proxy_max_requests: Option<u64>,
    /// Of its proxy: refuse requests once they have cost so much, in US dollars
    #[arg(long, requires = "proxy_price", value_name = "USD")]
    pub(crate) proxy_max_cost: Option<f64>,
    /// Of a proxy to openai: ask for answers of at most so many tokens
    #[arg(long, requires = "proxy", value_name = "TOKENS")]
    pub(crate) proxy_max_output: Option<u64>,
    /// Of a proxy to openai: ask for thinking where the agent does
    #[arg(long, requires = "proxy")]
    pub(crate) proxy_reasoning: bool,
    /// Of its proxy: keep no log
    #[arg(long, requires = "proxy")]
    pub(crate) proxy_no_log: bool,
    /// Of its proxy: log what was said too, without the keys that are known
    #[arg(long, requires = "proxy", conflicts_with = "proxy_no_log")]
    pub(crate) proxy_log_bodies: bool,
}

/// Whose API is behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyName {
    /// Anthropic's, or one that speaks like it
    Anthropic,
    /// OpenAI's Chat Completions, or one that speaks like it
    Openai,
}
