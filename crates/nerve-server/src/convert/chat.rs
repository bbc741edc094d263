//! The model of a chat node: wire → engine.

use nerve_api::request::ChatSettings;
use nerve_core::chat::{ChatSpec, Provider, ToolChoice};
use nerve_core::error::EngineError;

/// What the engine makes of it; what is wrong with it, the engine says.
pub(super) fn spec(params: ChatSettings) -> Result<ChatSpec, EngineError> {
    let provider = match params.provider {
        None => Provider::default(),
        Some(name) => name.parse().map_err(|mut error: EngineError| {
            error.message = format!("params.chat.provider: {}", error.message);
            error
        })?,
    };
    let default = ChatSpec::new(provider, params.model);
    Ok(ChatSpec {
        base_url: params.base_url,
        api_key_env: params.api_key_env,
        system: params.system,
        max_tokens: params.max_tokens.unwrap_or(default.max_tokens),
        temperature: params.temperature,
        tools: params.tools,
        tool_choice: params.tool_choice.map_or(ToolChoice::Auto, ToolChoice::from),
        parallel_tool_calls: params.parallel_tool_calls.unwrap_or(default.parallel_tool_calls),
        max_tool_rounds: params.max_tool_rounds.unwrap_or(default.max_tool_rounds),
        retries: params.retries.unwrap_or(default.retries),
        keep: params.keep.map(Into::into),
        ..default
    })
}
