//! `nerve proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    #[command(subcommand)]
    pub(crate) command: ProxyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Pass everything on to Anthropic's API, or to one that speaks like it
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
    /// Translate for OpenAI's Chat Completions API, or for one that speaks like it
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
pub(crate) struct OpenaiArgs {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Ask for answers of at most so many tokens, whatever the agent asks for
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_output: Option<u64>,
    /// Ask for thinking where the agent does (as reasoning_effort; models that do not reason refuse it)
    #[arg(long)]
    pub(crate) reasoning: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Where to listen; port 0 takes a free one. Loopback only
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Where requests go, instead of the vendor's own API
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) upstream: Option<String>,
    /// Believe an upstream by the word of these authorities alone (certificates in PEM), instead of the usual ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) upstream_ca: Option<PathBuf>,
    /// The model that every request is for, instead of the one it asks for
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The variable with the upstream's key. Without it 'anthropic' passes the agent's own key on, and 'openai' sends none
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// The variable with a token that agents must show as their key
    #[arg(long, value_name = "NAME")]
    pub(crate) client_token_env: Option<String>,
    /// Write a line of JSON for each request and each reply into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Log what was said too, without the keys that are known
    #[arg(long, requires = "log")]
    pub(crate) log_bodies: bool,
    /// Refuse requests once so many tokens went in and out
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Refuse requests after so many
    #[arg(long, value_name = "N")]
    pub(crate) max_requests: Option<u64>,
    /// Refuse requests once they have cost so much, in US dollars
    #[arg(long, value_name = "USD", requires = "price")]
    pub(crate) max_cost: Option<f64>,
    /// What a million tokens cost in US dollars: that go in, that come out
    #[arg(long, value_name = "IN,OUT", value_parser = price)]
    pub(crate) price: Option<(f64, f64)>,
    /// Print the address, and at the end what has passed, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `IN,OUT`, dollars for a million tokens.
pub(crate) fn price(text: &str) -> Result<(f64, f64), String> {
    let number =
        |text: &str| text.trim().parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    let both = text.split_once(',').and_then(|(input, output)| Some((number(input)?, number(output)?)));
    both.ok_or_else(|| "two numbers with a comma between them, like 3,15".to_string())
}
