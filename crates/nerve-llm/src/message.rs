//! The messages of a conversation, independent of any API.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Message {
    /// A prompt.
    User {
        /// The text.
        text: String,
    },
    /// The model's text and tool calls.
    Assistant {
        /// The text. It is empty if the model only calls tools.
        text: String,
        /// The tool calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The results of the tools, in the order of their calls.
    Tools {
        /// The results.
        results: Vec<ToolResult>,
    },
}

/// A tool call by the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The API's id of this call.
    pub id: String,
    /// The tool's name in the API (`tests_run`).
    pub name: String,
    /// The arguments as the model wrote them: JSON, unless the model made a mistake.
    pub arguments: String,
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The output, at most 50,000 characters.
    pub content: String,
    /// The call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolCall {
    /// Parses the arguments. An empty text counts as an empty object.
    ///
    /// # Errors
    /// The arguments are not an object; the message is meant for the model.
    pub fn input(&self) -> Result<Map<String, Value>, String> {
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(input)) => Ok(input),
            Ok(_) => Err("the arguments are not a JSON object".to_string()),
            Err(error) => Err(format!("the arguments are not JSON: {error}")),
        }
    }
}

/// Checks that a conversation can continue after these messages: it begins with a prompt, each tool call is followed by its result,
/// and it ends with an answer.
///
/// # Errors
/// Returns what is wrong, and with which message (1-based).
pub fn check(messages: &[Message]) -> Result<(), String> {
    let mut open: Option<&[ToolCall]> = None;
    let mut last_is_answer = true;
    for (at, message) in messages.iter().enumerate() {
        let wrong = |what: &str| Err(format!("message {}: {what}", at + 1));
        match (message, open.take()) {
            (Message::Tools { results }, Some(calls)) => {
                if !results.iter().map(|result| &result.id).eq(calls.iter().map(|call| &call.id)) {
                    return wrong("the results do not match the tool calls before them");
                }
                last_is_answer = false;
            }
            (Message::Tools { .. }, None) => return wrong("results without tool calls"),
            (_, Some(_)) => return wrong("the results of the tool calls before it are missing"),
            (Message::User { .. }, None) => {
                if !last_is_answer {
                    return wrong("the prompt before it has no answer");
                }
                last_is_answer = false;
            }
            (Message::Assistant { tool_calls, .. }, None) => {
                if last_is_answer {
                    return wrong("an answer without a prompt");
                }
                match tool_calls.is_empty() {
                    true => last_is_answer = true,
                    false => open = Some(tool_calls),
                }
            }
        }
    }
    match (open, last_is_answer) {
        (None, true) => Ok(()),
        _ => Err("it does not end with an answer".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> Message {
        Message::User { text: "q".into() }
    }

    fn answer(calls: &[&str]) -> Message {
        let call = |id: &&str| ToolCall { id: id.to_string(), name: "t".into(), arguments: "{}".into() };
        Message::Assistant { text: "a".into(), tool_calls: calls.iter().map(call).collect() }
    }

    fn results(ids: &[&str]) -> Message {
        let result = |id: &&str| ToolResult { id: id.to_string(), content: String::new(), is_error: false };
        Message::Tools { results: ids.iter().map(result).collect() }
    }

    #[test]
    fn incomplete_conversations_are_rejected() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(
            check(&[user(), answer(&[]), user(), answer(&["1", "2"]), results(&["1", "2"]), answer(&[])]),
            Ok(())
        );
        for (messages, says) in [
            (vec![user()], "does not end"),
            (vec![answer(&[])], "message 1: an answer without a prompt"),
            (vec![user(), user()], "message 2"),
            (vec![user(), results(&["1"])], "results without tool calls"),
            (vec![user(), answer(&["1"])], "does not end"),
            (vec![user(), answer(&["1"]), user()], "before it are missing"),
            (
                vec![user(), answer(&["1"]), results(&["2"]), answer(&[])],
                "message 3: the results do not match",
            ),
            (vec![user(), answer(&["1"]), results(&["1"])], "does not end"),
        ] {
            assert!(check(&messages).unwrap_err().contains(says), "{messages:?}");
        }
    }

    #[test]
    fn arguments_are_parsed_or_rejected() {
        let call =
            |arguments: &str| ToolCall { id: "1".into(), name: "t".into(), arguments: arguments.into() };
        assert_eq!(call(" ").input(), Ok(Map::new()));
        assert_eq!(call(r#"{"a": 1}"#).input().unwrap()["a"], 1);
        assert!(call("[1]").input().unwrap_err().contains("not a JSON object"));
        assert!(call(r#"{"a""#).input().unwrap_err().contains("not JSON"));
    }
}
