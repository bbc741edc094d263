//! Translates requests.

use serde_json::{Value, json};

use super::names::ToolNames;
use super::{ResponsePlan, TranslationOptions, messages, tools};
use crate::api_error::ApiError;

/// A translated request.
#[derive(Debug, Clone)]
pub struct TranslatedRequest {
    /// Body for the upstream.
    pub body: Value,
    /// True if the answer is streamed.
    pub stream: bool,
    /// Data needed to translate the answer.
    pub plan: ResponsePlan,
}

/// Translates the body of a request.
///
/// # Errors
/// 400, with the position, if the body is invalid or needs a feature that Chat Completions lacks.
pub fn translate_request(
    anthropic: &Value,
    options: &TranslationOptions,
) -> Result<TranslatedRequest, ApiError> {
    if !anthropic.is_object() {
        return Err(ApiError::bad_request("the body is not a JSON object"));
    }
    let model = options.model.as_deref().or(anthropic["model"].as_str());
    let model = model.ok_or_else(|| ApiError::bad_request("model: missing"))?;
    let stream = anthropic["stream"] == true;
    let mut body = json!({ "model": model, "messages": messages::translate(anthropic)? });
    if stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(max) = anthropic["max_tokens"].as_u64() {
        let limit = if options.use_max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body[limit] = options.max_output.map_or(max, |cap| max.min(cap)).into();
    }
    for (theirs, ours) in [("temperature", "temperature"), ("top_p", "top_p"), ("stop_sequences", "stop")] {
        let value = &anthropic[theirs];
        if !value.is_null() && !value.as_array().is_some_and(Vec::is_empty) {
            body[ours] = value.clone();
        }
    }
    let offered = tools::translate(anthropic)?;
    if !offered.is_empty() {
        body["tools"] = offered.into();
        if let Some(choice) = tools::translate_choice(anthropic)? {
            body["tool_choice"] = choice;
        }
        if anthropic["tool_choice"]["disable_parallel_tool_use"] == true {
            body["parallel_tool_calls"] = false.into();
        }
    }
    if let Some(format) = translate_format(anthropic) {
        body["response_format"] = format;
    }
    if let Some(effort) = effort(anthropic).filter(|_| options.reasoning) {
        body["reasoning_effort"] = effort.into();
    }
    Ok(TranslatedRequest { plan: plan(anthropic, model), body, stream })
}

fn plan(anthropic: &Value, model: &str) -> ResponsePlan {
    let list = |name: &str| anthropic[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = ToolNames::new(list("tools").iter().filter_map(|tool| tool["name"].as_str()));
    let stop_sequences =
        list("stop_sequences").iter().filter_map(|stop| Some(stop.as_str()?.to_string())).collect();
    ResponsePlan { model: model.to_string(), names, stop_sequences }
}

/// Translates a request for output that follows a schema.
fn translate_format(anthropic: &Value) -> Option<Value> {
    let format = [&anthropic["output_config"]["format"], &anthropic["output_format"]]
        .into_iter()
        .find(|format| format.is_object())?;
    let schema = format.get("schema").filter(|_| format["type"] == "json_schema")?;
    Some(
        json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } }),
    )
}

/// Returns the reasoning effort, given as a word or as a number of tokens.
fn effort(anthropic: &Value) -> Option<&'static str> {
    let thinking = &anthropic["thinking"];
    let requested = match anthropic["output_config"]["effort"].as_str() {
        Some("low") => Some("low"),
        Some("medium") => Some("medium"),
        Some(_) => Some("high"),
        None => None,
    };
    match (thinking["type"].as_str()?, thinking["budget_tokens"].as_u64()) {
        ("adaptive", _) => Some(requested.unwrap_or("medium")),
        ("enabled", Some(0..4096)) => requested.or(Some("low")),
        ("enabled", Some(4096..16_384)) => requested.or(Some("medium")),
        ("enabled", _) => requested.or(Some("high")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(options: &TranslationOptions, members: Value) -> Value {
        let mut anthropic = json!({ "model": "claude-x", "max_tokens": 32_000, "messages": [{ "role": "user", "content": "hi" }] });
        for (name, value) in members.as_object().unwrap() {
            anthropic[name] = value.clone();
        }
        translate_request(&anthropic, options).unwrap().body
    }

    #[test]
    fn fields_are_translated() {
        let plain = TranslationOptions::default();
        let hi = json!({ "role": "user", "content": "hi" });
        let base = json!({ "model": "claude-x", "max_tokens": 32_000, "messages": [hi] });
        // (Anthropic's fields, OpenAI's fields in addition to the base)
        let cases = [
            (json!({}), json!({})),
            (
                json!({ "system": "be brief" }),
                json!({ "messages": [{ "role": "system", "content": "be brief" }, hi] }),
            ),
            (
                json!({ "system": [{ "type": "text", "text": "a", "cache_control": {} }, { "type": "text", "text": "b" }] }),
                json!({ "messages": [{ "role": "system", "content": "a\nb" }, hi] }),
            ),
            (
                json!({ "stream": true }),
                json!({ "stream": true, "stream_options": { "include_usage": true } }),
            ),
            (
                json!({ "temperature": 0.5, "top_p": 0.9, "top_k": 5 }),
                json!({ "temperature": 0.5, "top_p": 0.9 }),
            ),
            (json!({ "stop_sequences": ["a", "b"] }), json!({ "stop": ["a", "b"] })),
            (json!({ "stop_sequences": [], "metadata": { "user_id": "u" }, "tools": [] }), json!({})),
            (
                json!({ "tools": [{ "name": "n", "input_schema": {} }], "tool_choice": { "type": "any", "disable_parallel_tool_use": true } }),
                json!({ "tools": [{ "type": "function", "function": { "name": "n", "parameters": {} } }], "tool_choice": "required", "parallel_tool_calls": false }),
            ),
            (json!({ "tool_choice": { "type": "any" } }), json!({})),
            (
                json!({ "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } } }),
                json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": { "type": "object" } } } }),
            ),
            (json!({ "thinking": { "type": "enabled", "budget_tokens": 9999 } }), json!({})),
        ];
        for (members, more) in cases {
            let mut expected = base.clone();
            more.as_object().unwrap().iter().for_each(|(name, value)| expected[name] = value.clone());
            assert_eq!(with(&plain, members.clone()), expected, "{members}");
        }
    }

    #[test]
    fn options_are_applied() {
        let options = TranslationOptions {
            model: Some("gpt-x".into()),
            use_max_completion_tokens: true,
            max_output: Some(100),
            reasoning: true,
        };
        let body = with(&options, json!({ "thinking": { "type": "enabled", "budget_tokens": 5000 } }));
        assert_eq!(
            (body["model"].as_str(), body["max_completion_tokens"].as_u64()),
            (Some("gpt-x"), Some(100))
        );
        assert_eq!(body["reasoning_effort"], "medium");
        assert!(body["max_tokens"].is_null());
        let effort = |members| with(&options, members)["reasoning_effort"].clone();
        assert_eq!(effort(json!({ "thinking": { "type": "disabled" } })), Value::Null);
        assert_eq!(effort(json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } })), "low");
        assert_eq!(
            effort(json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "max" } })),
            "high"
        );
    }

    #[test]
    fn invalid_requests_are_rejected() {
        for (anthropic, words) in [
            (json!([1]), "not a JSON object"),
            (json!({ "messages": [] }), "model: missing"),
            (json!({ "model": "m" }), "messages"),
        ] {
            let error = translate_request(&anthropic, &TranslationOptions::default()).unwrap_err();
            assert!(error.status == 400 && error.message.contains(words), "{error:?}");
        }
    }
}
