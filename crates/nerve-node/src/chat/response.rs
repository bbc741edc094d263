//! Builds the response of a finished turn of a conversation.

use nerve_agent::parse::{Section, SectionKind, Tokens};
use nerve_api::value::{Delivery, ResponseSource};
use nerve_llm::answer::{LENGTH, Usage};
use nerve_types::TimeSpan;
use serde_json::{Map, Value, json};

use super::ChatSettings;
use super::turn::TurnResult;
use crate::response::{Response, truncate_to_limits};

/// Maximum number of tool calls in a response, and of characters of their arguments.
const MAX_CALLS: usize = 256;
const MAX_ARGUMENTS: usize = 4096;

/// Builds the response of a turn.
pub(super) fn response(
    node: &str,
    settings: &ChatSettings,
    turn: u64,
    time: TimeSpan,
    done: &mut TurnResult,
    usage: Usage,
) -> Response {
    let sections = std::mem::take(&mut done.sections);
    let text = answer_text(&sections);
    let attribute = |name: &str, value: Value| (name.to_string(), value);
    let attributes = Map::from_iter([
        attribute("content", std::mem::take(&mut done.content).into()),
        attribute("model", done.model.as_ref().unwrap_or(&settings.model).as_str().into()),
        attribute("provider", settings.provider.as_str().into()),
        attribute("finish_reason", done.finish.as_str().into()),
        attribute("retries", done.retries.into()),
        attribute("api_calls", done.requests.into()),
        attribute("tool_calls", tool_calls(done)),
        attribute(
            "usage",
            json!({ "prompt": usage.prompt, "completion": usage.completion, "total": usage.total() }),
        ),
    ]);
    let mut response = Response {
        node: node.to_string(),
        turn,
        raw: text.clone(),
        text,
        sections,
        tokens: Some(tokens(usage)),
        is_complete: done.finish != LENGTH,
        is_ready: true,
        missing_text: (done.finish == LENGTH).then(|| "the model reached its limit of tokens".to_string()),
        source: ResponseSource::Api,
        delivery: Delivery::Started,
        ended_by: format!("api: {}", done.finish),
        bytes: 0..done.bytes,
        time,
        attributes,
        ..Response::default()
    };
    truncate_to_limits(&mut response);
    if let Some(Value::String(content)) = response.attributes.get_mut("content")
        && content.len() > response.text.len()
    {
        // The content is the end of the text, so it is not longer than what is left of the text.
        content.clone_from(&response.text);
    }
    response
}

/// Joins all texts of the model.
pub(super) fn answer_text(sections: &[Section]) -> String {
    let texts = sections.iter().filter(|section| section.kind == SectionKind::Text);
    texts.map(|section| section.content.as_str()).collect::<Vec<_>>().join("\n\n")
}

fn tokens(usage: Usage) -> Tokens {
    Tokens { input: Some(usage.prompt), output: Some(usage.completion), total: Some(usage.total()) }
}

fn tool_calls(done: &TurnResult) -> Value {
    let call = |call: &super::tools::FinishedCall| {
        let arguments: String = call.call.arguments.chars().take(MAX_ARGUMENTS).collect();
        json!({ "id": call.call.id, "name": call.name, "arguments": arguments, "is_error": call.result.is_error })
    };
    done.calls.iter().take(MAX_CALLS).map(call).collect()
}
