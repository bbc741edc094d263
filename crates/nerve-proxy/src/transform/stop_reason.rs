//! What both kinds of answers tell: why it ended, how many tokens it took, what it is called.

use serde_json::{Value, json};

use super::{Plan, ids};

/// Tokens, as OpenAI's side counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
}

impl Tokens {
    /// Takes what is told, if anything is.
    pub(super) fn take(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        // DeepSeek has a name of its own.
        let cached =
            usage.pointer("/prompt_tokens_details/cached_tokens").or(usage.get("prompt_cache_hit_tokens"));
        self.cached = cached.map_or(0, number);
        // Anthropic counts cached tokens apart.
        self.input = number(&usage["prompt_tokens"]).saturating_sub(self.cached);
        self.output = number(&usage["completion_tokens"]);
    }

    /// As Anthropic's side counts them.
    pub(super) fn to_json(self) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens": self.output,
        })
    }
}

/// Why an answer ended: `stop_reason` and `stop_sequence`. `matched` is what vLLM says of it.
pub(super) fn ending(
    plan: &Plan,
    finish: Option<&str>,
    has_calls: bool,
    matched: &Value,
) -> (&'static str, Value) {
    let stop = matched.as_str().filter(|stop| plan.stop_sequences.iter().any(|known| known == stop));
    match finish {
        Some("length") => ("max_tokens", Value::Null),
        Some("content_filter") => ("refusal", Value::Null),
        // Not everybody says `tool_calls` where there are some.
        _ if has_calls => ("tool_use", Value::Null),
        _ => match stop {
            Some(stop) => ("stop_sequence", stop.into()),
            None => ("end_turn", Value::Null),
        },
    }
}

/// The id of a message.
pub(super) fn message_id(id: &Value) -> String {
    match ids::stem(id.as_str().unwrap_or_default()) {
        stem if stem.is_empty() => "msg_upstream".to_string(),
        stem => format!("msg_{stem}"),
    }
}

/// Thinking, under either of its names.
pub(super) fn thinking(message: &Value) -> &str {
    [&message["reasoning_content"], &message["reasoning"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// What is said, a refusal too.
pub(super) fn words(message: &Value) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    format!("{}{}", text("content"), text("refusal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings() {
        let plan = Plan { stop_sequences: vec!["END".into()], ..Plan::default() };
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
        for (finish, has_calls, matched, expected) in cases {
            assert_eq!(ending(&plan, finish, has_calls, &matched), expected, "{finish:?}");
        }
    }

    #[test]
    fn cached_tokens_are_counted_apart() {
        let mut tokens = Tokens::default();
        tokens.take(&json!({ "prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": { "cached_tokens": 8 } }));
        tokens.take(&Value::Null);
        assert_eq!(tokens, Tokens { input: 2, cached: 8, output: 3 });
    }
}
