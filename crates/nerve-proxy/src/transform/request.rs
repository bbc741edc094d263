//! Requests.

use serde_json::{Value, json};

use super::names::Names;
use super::{Options, Plan, messages, tools};
use crate::api_error::Fault;

/// A request of the Messages API as one of Chat Completions.
#[derive(Debug, Clone)]
pub struct Request {
    /// The body for the upstream.
    pub body: Value,
    /// Whether the answer is to come as a stream.
    pub stream: bool,
    /// What is needed to read the answer.
    pub plan: Plan,
}

/// Translates the body of a request.
///
/// # Errors
/// 400, with the place: what is no request of the Messages API, or asks for something that the other side has no words for.
pub fn request(asked: &Value, options: &Options) -> Result<Request, Fault> {
    if !asked.is_object() {
        return Err(Fault::bad_request("the body is no JSON object"));
    }
    let model = options.model.as_deref().or(asked["model"].as_str());
    let model = model.ok_or_else(|| Fault::bad_request("model: missing"))?;
    let stream = asked["stream"] == true;
    let mut body = json!({ "model": model, "messages": messages::messages(asked)? });
    if stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(most) = asked["max_tokens"].as_u64() {
        let limit = if options.newer_limit { "max_completion_tokens" } else { "max_tokens" };
        body[limit] = options.max_output.map_or(most, |cap| most.min(cap)).into();
    }
    for (theirs, ours) in [("temperature", "temperature"), ("top_p", "top_p"), ("stop_sequences", "stop")] {
        let value = &asked[theirs];
        if !value.is_null() && !value.as_array().is_some_and(Vec::is_empty) {
            body[ours] = value.clone();
        }
    }
    let offered = tools::tools(asked)?;
    if !offered.is_empty() {
        body["tools"] = offered.into();
        if let Some(choice) = tools::choice(asked)? {
            body["tool_choice"] = choice;
        }
        if asked["tool_choice"]["disable_parallel_tool_use"] == true {
            body["parallel_tool_calls"] = false.into();
        }
    }
    if let Some(format) = response_format(asked) {
        body["response_format"] = format;
    }
    if let Some(effort) = effort(asked).filter(|_| options.reasoning) {
        body["reasoning_effort"] = effort.into();
    }
    Ok(Request { plan: plan(asked, model), body, stream })
}

fn plan(asked: &Value, model: &str) -> Plan {
    let list = |name: &str| asked[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = Names::new(list("tools").iter().filter_map(|tool| tool["name"].as_str()));
    let stop_sequences =
        list("stop_sequences").iter().filter_map(|stop| Some(stop.as_str()?.to_string())).collect();
    Plan { model: model.to_string(), names, stop_sequences }
}

/// An answer that follows a schema.
fn response_format(asked: &Value) -> Option<Value> {
    let format = [&asked["output_config"]["format"], &asked["output_format"]]
        .into_iter()
        .find(|format| format.is_object())?;
    let schema = format.get("schema").filter(|_| format["type"] == "json_schema")?;
    Some(
        json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } }),
    )
}

/// How hard it is to think: said in a word, or as a number of tokens.
fn effort(asked: &Value) -> Option<&'static str> {
    let thinking = &asked["thinking"];
    let said = match asked["output_config"]["effort"].as_str() {
        Some("low") => Some("low"),
        Some("medium") => Some("medium"),
        Some(_) => Some("high"),
        None => None,
    };
    match (thinking["type"].as_str()?, thinking["budget_tokens"].as_u64()) {
        ("adaptive", _) => Some(said.unwrap_or("medium")),
        ("enabled", Some(0..4096)) => said.or(Some("low")),
        ("enabled", Some(4096..16_384)) => said.or(Some("medium")),
        ("enabled", _) => said.or(Some("high")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(options: &Options, members: Value) -> Value {
        let mut asked = json!({ "model": "claude-x", "max_tokens": 32_000, "messages": [{ "role": "user", "content": "hi" }] });
        for (name, value) in members.as_object().unwrap() {
            asked[name] = value.clone();
        }
        request(&asked, options).unwrap().body
    }

    #[test]
    fn members() {
        let plain = Options::default();
        let hi = json!({ "role": "user", "content": "hi" });
        let base = json!({ "model": "claude-x", "max_tokens": 32_000, "messages": [hi] });
        // (Anthropic's members, OpenAI's members on top of the plain ones)
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
    fn options() {
        let options = Options {
            model: Some("gpt-x".into()),
            newer_limit: true,
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
    fn what_is_no_request() {
        for (asked, words) in [
            (json!([1]), "no JSON object"),
            (json!({ "messages": [] }), "model: missing"),
            (json!({ "model": "m" }), "messages"),
        ] {
            let fault = request(&asked, &Options::default()).unwrap_err();
            assert!(fault.status == 400 && fault.message.contains(words), "{fault:?}");
        }
    }
}
