//! What a conversation is made of, in the words of no particular API.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Message {
    /// What was asked.
    User {
        /// The text.
        text: String,
    },
    /// What the model said, and which tools it wants.
    Assistant {
        /// The text; empty where it only wants tools.
        text: String,
        /// The tools, in its order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What the tools said, each result in the place of its call.
    Tools {
        /// The results.
        results: Vec<ToolResult>,
    },
}

/// A tool that the model wants to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The API's id of this call.
    pub id: String,
    /// Name of the tool as the API knows it (`tests_run`).
    pub name: String,
    /// The arguments as the model wrote them: JSON, if it did well.
    pub arguments: String,
}

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Its words, at most 50,000 characters.
    pub content: String,
    /// It failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolCall {
    /// The arguments; none at all are an empty object.
    ///
    /// # Errors
    /// They are no object, in words for the model.
    pub fn input(&self) -> Result<Map<String, Value>, String> {
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(input)) => Ok(input),
            Ok(_) => Err("the arguments are no JSON object".to_string()),
            Err(error) => Err(format!("the arguments are not JSON: {error}")),
        }
    }
}

/// Can a conversation go on after these messages? It begins with a question, each call of a tool has its result right behind it, and it
/// ends with an answer.
///
/// # Errors
/// What is wrong, at which message (1-based).
pub(super) fn check(messages: &[Message]) -> Result<(), String> {
    let mut open: Option<&[ToolCall]> = None;
    let mut last_is_answer = true;
    for (at, message) in messages.iter().enumerate() {
        let wrong = |what: &str| Err(format!("message {}: {what}", at + 1));
        match (message, open.take()) {
            (Message::Tools { results }, Some(calls)) => {
                if !results.iter().map(|result| &result.id).eq(calls.iter().map(|call| &call.id)) {
                    return wrong("these are not the results of the tools that were asked for");
                }
                last_is_answer = false;
            }
            (Message::Tools { .. }, None) => return wrong("results of tools that nobody asked for"),
            (_, Some(_)) => return wrong("results of the tools are missing before it"),
            (Message::User { .. }, None) => {
                if !last_is_answer {
                    return wrong("the question before it has no answer");
                }
                last_is_answer = false;
            }
            (Message::Assistant { tool_calls, .. }, None) => {
                if last_is_answer {
                    return wrong("an answer to nothing");
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
    fn whole_conversations_are_told_from_halves() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(
            check(&[user(), answer(&[]), user(), answer(&["1", "2"]), results(&["1", "2"]), answer(&[])]),
            Ok(())
        );
        for (messages, says) in [
            (vec![user()], "does not end"),
            (vec![answer(&[])], "message 1: an answer to nothing"),
            (vec![user(), user()], "message 2"),
            (vec![user(), results(&["1"])], "nobody asked"),
            (vec![user(), answer(&["1"])], "does not end"),
            (vec![user(), answer(&["1"]), user()], "missing before it"),
            (vec![user(), answer(&["1"]), results(&["2"]), answer(&[])], "message 3: these are not"),
            (vec![user(), answer(&["1"]), results(&["1"])], "does not end"),
        ] {
            assert!(check(&messages).unwrap_err().contains(says), "{messages:?}");
        }
    }

    #[test]
    fn arguments() {
        let call =
            |arguments: &str| ToolCall { id: "1".into(), name: "t".into(), arguments: arguments.into() };
        assert_eq!(call(" ").input(), Ok(Map::new()));
        assert_eq!(call(r#"{"a": 1}"#).input().unwrap()["a"], 1);
        assert!(call("[1]").input().unwrap_err().contains("no JSON object"));
        assert!(call(r#"{"a""#).input().unwrap_err().contains("not JSON"));
    }
}
