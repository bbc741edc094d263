//! Options of `node create` for chat nodes.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use nerve_api::value::Provider;

use super::values::{described_values, one_of};

/// Model and conversation of a chat node.
#[derive(Debug, Args)]
pub struct ChatOptions {
    /// Chat node: model name
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Chat node: API format; most other vendors use openai's [default: anthropic]
    #[arg(long, value_parser = one_of::<Provider>(described_values::<Provider>()), value_name = "NAME")]
    pub provider: Option<Provider>,
    /// Chat node: API base URL [default: the vendor's]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub base_url: Option<String>,
    /// Chat node: variable with the API key, in the server's or the node's environment; '' sends no key [default:
    /// ANTHROPIC_API_KEY, OPENAI_API_KEY]
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// Chat node: system prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Chat node: node that the model may call as a tool; repeatable
    #[arg(long = "tool", value_name = "NODE")]
    pub tools: Vec<String>,
    /// Chat node: token limit per answer [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// Chat node: file for the conversation, read at the start and written after each turn
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub keep: Option<PathBuf>,
}

impl ChatOptions {
    /// Returns the first option that was set.
    pub fn first_set(&self) -> Option<&'static str> {
        let ChatOptions { model, provider, base_url, api_key_env, system, tools, max_tokens, keep } = self;
        [
            ("--model", model.is_some()),
            ("--provider", provider.is_some()),
            ("--base-url", base_url.is_some()),
            ("--api-key-env", api_key_env.is_some()),
            ("--system", system.is_some()),
            ("--tool", !tools.is_empty()),
            ("--max-tokens", max_tokens.is_some()),
            ("--keep", keep.is_some()),
        ]
        .into_iter()
        .find_map(|(option, is_set)| is_set.then_some(option))
    }
}
