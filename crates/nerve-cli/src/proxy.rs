//! `nerve proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub struct ProxyArgs {
    #[command(subcommand)]
    pub command: ProxyCommand,
}

impl ProxyArgs {
    /// Returns true if the output is JSON.
    pub fn prints_json(&self) -> bool {
        match &self.command {
            ProxyCommand::Anthropic(settings) => settings.json,
            ProxyCommand::Openai(args) => args.settings.json,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ProxyCommand {
    /// Forward requests to Anthropic's API or a compatible one
    #[command(after_long_help = "\
EXAMPLES
  nerve proxy anthropic --log calls.jsonl
  nerve proxy anthropic --listen 127.0.0.1:4000 --max-tokens 2000000
  nerve proxy anthropic --api-key-env ANTHROPIC_API_KEY \\
      --client-token-env PROXY_TOKEN
  nerve proxy anthropic --price 3,15 --max-cost 5
  nerve proxy anthropic --upstream https://models.example --upstream-ca corp.pem
  ANTHROPIC_BASE_URL=http://127.0.0.1:4000 claude")]
    Anthropic(Settings),
    /// Translate requests for OpenAI's Chat Completions API or a compatible one
    #[command(after_long_help = "\
EXAMPLES
  nerve proxy openai --model gpt-5 --api-key-env OPENAI_API_KEY
  nerve proxy openai --upstream http://127.0.0.1:11434 --model qwen3 \\
      --listen 127.0.0.1:4000
  nerve proxy openai --upstream http://127.0.0.1:8000/v1 --model local \\
      --max-output 16384
  ANTHROPIC_BASE_URL=http://127.0.0.1:4000 ANTHROPIC_AUTH_TOKEN=none claude")]
    Openai(OpenaiArgs),
}

#[derive(Debug, Args)]
pub struct OpenaiArgs {
    #[command(flatten)]
    pub settings: Settings,
    /// Token limit per answer, whatever the agent requests
    #[arg(long, value_name = "TOKENS")]
    pub max_output: Option<u64>,
    /// Pass thinking requests on as reasoning_effort; other than reasoning models reject it
    #[arg(long)]
    pub reasoning: bool,
}

#[derive(Debug, Args)]
pub struct Settings {
    /// Listen address, loopback only; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Upstream URL [default: the vendor's API]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub upstream: Option<String>,
    /// Trust only the CA certificates in this PEM file for the upstream [default: the system's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub upstream_ca: Option<PathBuf>,
    /// Model for every request [default: as requested]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Variable with the upstream key [default: 'anthropic' forwards the agent's key, 'openai' sends none]
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// Variable with a token that agents must send as their key
    #[arg(long, value_name = "NAME")]
    pub client_token_env: Option<String>,
    /// Log each request and reply to this file as a JSON line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Log message bodies too, with known keys removed
    #[arg(long, requires = "log")]
    pub log_bodies: bool,
    /// Token limit, input and output together
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Request limit
    #[arg(long, value_name = "N")]
    pub max_requests: Option<u64>,
    /// Cost limit in US dollars
    #[arg(long, value_name = "USD", requires = "price")]
    pub max_cost: Option<f64>,
    /// Price of a million input and output tokens in US dollars
    #[arg(long, value_name = "IN,OUT", value_parser = nerve_commands::node_command::price)]
    pub price: Option<(f64, f64)>,
    /// Print the listen address, and at the end the usage, as JSON
    #[arg(short, long)]
    pub json: bool,
}
