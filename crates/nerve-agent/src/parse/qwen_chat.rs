//! Decoder for Qwen Code's session file (`~/.qwen/projects/<folder>/chats/<id>.jsonl`, version 0.24), which has the
//! model's markdown where the screen has rows.
//!
//! The format is undocumented and changes: unknown lines are counted, not rejected. Entries form a tree: each names its
//! parent. Errors are only on the screen.

use nerve_types::token_usage::TokenUsage;
use serde_json::Value;

use super::entry::{CallStatus, Entry, Item, ResponseUsage, time};
use super::line_decoder::{LineDecoder, text_field};

/// Decodes the lines of one conversation in order.
#[derive(Debug, Default)]
pub(crate) struct QwenDecoder {
    /// The response of the next answer is whole.
    has_response: bool,
}

impl LineDecoder for QwenDecoder {
    type Line = Value;

    fn decode(&mut self, line: &Value, emit: &mut dyn FnMut(Entry)) {
        let at = line["timestamp"].as_str().and_then(time);
        let mut add = |item| emit(Entry { at, item });
        let parts = || line["message"]["parts"].as_array().into_iter().flatten();
        match line["type"].as_str() {
            Some("user") => {
                // A response that broke off has no answer.
                self.has_response = false;
                if let Some(session) = line["sessionId"].as_str() {
                    add(Item::Session(session.to_string()));
                }
                let texts: Vec<&str> = parts().filter_map(|part| part["text"].as_str()).collect();
                let is_typed = line["provenance"] == "real_user";
                add(if is_typed { Item::Prompt(texts.join("\n")) } else { Item::Context(texts.join("\n")) });
            }
            Some("assistant") => {
                parts().for_each(|part| add(answer_part(part)));
                if line["usageMetadata"].is_object() {
                    add(Item::Usage(usage(line)));
                }
                if !std::mem::take(&mut self.has_response) {
                    add(Item::Interrupted("Request cancelled.".to_string()));
                }
            }
            Some("tool_result") => {
                parts().filter_map(|part| part.get("functionResponse")).for_each(|result| {
                    add(tool_output(result, line["toolCallResult"]["status"].as_str()));
                })
            }
            // Written before each answer whose response is whole.
            Some("system") => {
                let event = &line["systemPayload"]["uiEvent"]["event.name"];
                self.has_response |= *event == "qwen-code.api_response";
            }
            _ => add(Item::Unknown),
        }
    }
}

fn answer_part(part: &Value) -> Item {
    let call = &part["functionCall"];
    match part["text"].as_str() {
        Some(text) if part["thought"] == true => Item::Thinking(text.to_string()),
        Some(text) => Item::Text(text.to_string()),
        None if call.is_object() => Item::Call {
            id: text_field(call, "id"),
            name: text_field(call, "name"),
            args: call["args"].to_string(),
        },
        None => Item::Unknown,
    }
}

fn tool_output(result: &Value, status: Option<&str>) -> Item {
    let response = &result["response"];
    let text = response["output"].as_str().or_else(|| response["error"].as_str()).unwrap_or_default();
    let status = match status {
        Some("success") => CallStatus::Ok,
        Some("cancelled") => CallStatus::Rejected,
        _ => CallStatus::Error,
    };
    Item::Output { id: text_field(result, "id"), text: text.to_string(), status }
}

fn usage(line: &Value) -> ResponseUsage {
    let count = |name: &str| line["usageMetadata"][name].as_u64().unwrap_or(0);
    let output = count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount"));
    let tokens = TokenUsage::with_cache_in_input(
        count("promptTokenCount"),
        output,
        count("cachedContentTokenCount"),
        0,
    );
    ResponseUsage { tokens, model: line["model"].as_str().map(str::to_string) }
}
