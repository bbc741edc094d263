//! What `node create` takes for a chat node.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// The model of a chat node.
#[derive(Debug, Args)]
pub(crate) struct ChatOptions {
    /// Of a chat node: the model's name, as its API knows it
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Of a chat node: whose API it speaks; most others speak openai [default: anthropic]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) provider: Option<ProviderName>,
    /// Of a chat node: where the API is; the vendor's if not given
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) base_url: Option<String>,
    /// Of a chat node: the variable with the key, in the server's environment or the node's; '' sends no key [default:
    /// ANTHROPIC_API_KEY, OPENAI_API_KEY]
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// Of a chat node: what the model is told before everything else
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Of a chat node: a node that the model may use; may be given more than once
    #[arg(long = "tool", value_name = "NODE")]
    pub(crate) tools: Vec<String>,
    /// Of a chat node: tokens of one answer [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// Of a chat node: a file that keeps the conversation, read at the start and written after each turn
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keep: Option<PathBuf>,
}

/// Whose API a chat node speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProviderName {
    /// Anthropic's Messages
    Anthropic,
    /// OpenAI's Chat Completions
    Openai,
}

impl ChatOptions {
    /// The first option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
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
        .find_map(|(option, given)| given.then_some(option))
    }
}
