//! Translates the fields that whole and streamed answers share: stop reason, usage, id and text.

use serde_json::{Value, json};

use super::{ResponsePlan, ids};

/// Token counts of a completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
}

impl Tokens {
    /// Reads the counts, if present.
    pub(super) fn update(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        // DeepSeek uses its own field.
        let cached =
            usage.pointer("/prompt_tokens_details/cached_tokens").or(usage.get("prompt_cache_hit_tokens"));
        self.cached = cached.map_or(0, number);
        // Anthropic counts cached tokens separately.
        self.input = number(&usage["prompt_tokens"]).saturating_sub(self.cached);
        self.output = number(&usage["completion_tokens"]);
    }

    /// Returns the counts in Anthropic's format.
    pub(super) fn to_json(self) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens": self.output,
        })
    }
}

/// Returns `stop_reason` and `stop_sequence`. `matched_stop` is the stop sequence reported by vLLM.
pub(super) fn stop_reason(
    plan: &ResponsePlan,
    finish: Option<&str>,
    has_calls: bool,
    matched_stop: &Value,
) -> (&'static str, Value) {
    let stop = matched_stop.as_str().filter(|stop| plan.stop_sequences.iter().any(|text| text == stop));
    match finish {
        Some("length") => ("max_tokens", Value::Null),
        Some("content_filter") => ("refusal", Value::Null),
        // Not every server reports `tool_calls`.
        _ if has_calls => ("tool_use", Value::Null),
        _ => match stop {
            Some(stop) => ("stop_sequence", stop.into()),
            None => ("end_turn", Value::Null),
        },
    }
}

/// Returns the id of a message.
pub(super) fn message_id(id: &Value) -> String {
    match ids::stem(id.as_str().unwrap_or_default()) {
        stem if stem.is_empty() => "msg_upstream".to_string(),
        stem => format!("msg_{stem}"),
    }
}

/// Returns the thinking, from either of its fields.
pub(super) fn thinking(message: &Value) -> &str {
    [&message["reasoning_content"], &message["reasoning"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// Returns the text, including a refusal.
pub(super) fn visible_text(message: &Value) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    format!("{}{}", text("content"), text("refusal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_reasons_are_translated() {
        let plan = ResponsePlan { stop_sequences: vec!["END".into()], ..ResponsePlan::default() };
        let cases = [
            (Some("stop"), false, json!(null), ("end_turn", json!(null))),
            (Some("stop"), false, json!("END"), ("stop_sequence", json!("END"))),
            (Some("stop"), false, json!("other"), ("end_turn", json!(null))),
            (Some("stop"), false, json!(151_645), ("end_turn", json!(null))),
            (Some("stop"), true, json!(null), ("tool_use", json!(null))),
            (Some("tool_calls"), true, json!(null), ("tool_use", json!(null))),
            (Some("function_call"), true, json!(null), ("tool_use", json!(null))),
            (Some("length"), true, json!(null), ("max_tokens", json!(null))),
            (Some("content_filter"), false, json!(null), ("refusal", json!(null))),
            (None, false, json!(null), ("end_turn", json!(null))),
        ];
        for (finish, has_calls, matched_stop, expected) in cases {
            assert_eq!(stop_reason(&plan, finish, has_calls, &matched_stop), expected, "{finish:?}");
        }
    }

    #[test]
    fn cached_tokens_are_counted_apart() {
        let mut tokens = Tokens::default();
        tokens.update(&json!({ "prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": { "cached_tokens": 8 } }));
        tokens.update(&Value::Null);
        assert_eq!(tokens, Tokens { input: 2, cached: 8, output: 3 });
    }
}
