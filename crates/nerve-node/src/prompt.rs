//! A prompt, as nodes with turns take it.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use serde_json::Value;

use crate::client_origin::ClientOrigin;
use crate::context::TurnContext;
use crate::dialog_policy::DialogPolicy;
use crate::error::EngineError;
use crate::telemetry::TraceContext;

/// A prompt for a terminal or bash node.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The text. The node's queue, driver and transcript reader share it.
    pub text: Arc<str>,
    /// Parser of this turn.
    pub parser: Option<ParserKind>,
    /// Publish chunks, and log as `send_stream`.
    pub stream: bool,
    /// Sent with each chunk, to tell streams apart.
    pub tag: Option<u64>,
    /// Timeout, including the time in the queue.
    pub timeout: Option<Duration>,
    /// Fail instead of waiting in the queue.
    pub fail_if_busy: bool,
    /// Behaviour at a dialog of the agent.
    pub at_dialog: DialogPolicy,
    /// Let the turn continue after a timeout.
    pub detach_on_timeout: bool,
    /// The turn's span: programs started for it inherit it, and its API calls are inside it.
    pub trace: Option<Arc<TraceContext>>,
    /// The client that sent it, for the audit log.
    pub origin: ClientOrigin,
}

impl Prompt {
    /// Creates the prompt of an execution from its input, parser and time limit. It streams if the context receives chunks.
    pub fn from_context(context: &TurnContext) -> Prompt {
        Prompt {
            text: prompt_text(&context.input).into(),
            parser: context.parser,
            stream: context.chunks().is_some(),
            tag: None,
            timeout: context.timeout,
            fail_if_busy: false,
            at_dialog: context.at_dialog,
            detach_on_timeout: false,
            trace: None,
            origin: ClientOrigin::default(),
        }
    }
}

/// Checks that a prompt has text: whitespace and control characters are keys, which no program answers.
///
/// # Errors
/// InvalidRequest.
pub fn check_prompt(text: &str) -> Result<(), EngineError> {
    if text.chars().any(|c| !c.is_whitespace() && !c.is_control()) {
        return Ok(());
    }
    let problem = if text.is_empty() { "is empty" } else { "contains only whitespace or control characters" };
    Err(EngineError::invalid_request(format!("the prompt {problem}"))
        .hint("give it some text; `nerve node write NODE --key enter` presses a key"))
}

/// Converts a step's input to a prompt: a string as it is, other values as JSON.
fn prompt_text(input: &Value) -> String {
    match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn queue_waits_behind_the_dialog_of_a_turn() {
        use DialogPolicy::{Fail, Report, Wait};
        let failing = |has_turn| [Fail, Report, Wait].map(|policy| policy.fails_in_queue(has_turn));
        assert_eq!(failing(true), [true, false, false]);
        assert_eq!(failing(false), [true, true, false], "no caller has seen the dialog");
    }

    #[test]
    fn prompts_without_text_are_refused() {
        for text in ["", " ", "\n\t ", "\u{3}", "\u{1b}", "\u{a0}\r\n"] {
            let error = check_prompt(text).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{text:?}");
            assert!(error.hint.is_some());
        }
        for text in ["y", " 1", "/clear", "日本", "\u{1b}[A"] {
            check_prompt(text).unwrap();
        }
    }
}
