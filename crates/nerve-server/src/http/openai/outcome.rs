//! The end of a call's turn: a complete answer, or an error.

use nerve_api::reply::{ResultInfo, Section, TurnResponse};
use nerve_api::request::NodeRef;
use nerve_api::value::{Delivery, ResultStatus, SectionKind};
use nerve_api::{DEFAULT_SESSION, ErrorKind};
use nerve_types::text::{one_line, shorten};

use super::conversation::{TOOL_LINE, answer_letters, letters};
use super::error::ApiError;
use super::types::CompletionUsage;

/// Maximum length of a line that shows a tool call, in characters.
const MAX_TOOL_LINE: usize = 200;

/// The answer of a turn that has succeeded.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    sections: Vec<Section>,
    /// Tokens of the turn, if they are known.
    pub(super) usage: Option<CompletionUsage>,
}

impl Answer {
    /// Reads the result of a turn. `counted`: tokens that the agent reported during the turn. `is_temporary`: the node is removed.
    ///
    /// # Errors
    /// The turn failed, was interrupted, waits at a dialog, or has no complete answer.
    pub(super) fn read(
        result: ResultInfo,
        counted: Option<CompletionUsage>,
        is_temporary: bool,
    ) -> Result<Answer, ApiError> {
        match result.response {
            Some(response) if response.success && !response.interrupted => {
                let usage = usage_of(&response).or(counted);
                Ok(Answer { text: response.text, sections: response.sections, usage })
            }
            _ => Err(failure(result, is_temporary)),
        }
    }

    /// Returns the letters and digits of the answer.
    pub(super) fn letters(&self) -> String {
        match answer_letters(&self.sections) {
            none if none.is_empty() => letters(&self.text),
            letters => letters,
        }
    }

    /// Returns the text with a line for each tool call.
    pub(super) fn text_with_tools(&self) -> String {
        if !self.sections.iter().any(|section| section.kind == SectionKind::ToolCall) {
            return self.text.clone();
        }
        let part = |section: &Section| match section.kind {
            SectionKind::Text => Some(section.content.clone()),
            _ => line_of(section),
        };
        self.sections.iter().filter_map(part).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the lines of the tool calls.
    pub(super) fn tool_lines(&self) -> impl Iterator<Item = String> {
        self.sections.iter().filter_map(line_of)
    }
}

/// Returns the line of a section that is a tool call.
fn line_of(section: &Section) -> Option<String> {
    let metadata = |key: &str| section.metadata.get(key).map_or("", String::as_str);
    (section.kind == SectionKind::ToolCall).then(|| tool_line(metadata("tool"), metadata("args")))
}

/// Returns the line that shows a tool call.
pub(super) fn tool_line(name: &str, args: &str) -> String {
    let line = format!("{TOOL_LINE}{name} {}", one_line(args));
    shorten(line.trim_end(), MAX_TOOL_LINE)
}

/// Returns the tokens as counted by the node's proxy, otherwise as shown by the agent.
fn usage_of(response: &TurnResponse) -> Option<CompletionUsage> {
    if let Some(usage) = response.usage {
        return Some(usage.tokens.into());
    }
    let tokens = response.tokens?;
    Some(CompletionUsage::new(tokens.input?, tokens.output?))
}

fn failure(result: ResultInfo, is_temporary: bool) -> ApiError {
    let (mut kind, mut message, mut hint) = (result.error_type, result.error, result.hint);
    let mut text = result.text;
    if let Some(response) = result.response {
        kind = response.error_type.or(kind).or(response.interrupted.then_some(ErrorKind::Interrupted));
        message = response.error.or(message);
        hint = response.hint.or(hint);
        text = Some(response.text);
    }
    let is_cancelled = result.status == ResultStatus::Cancelled;
    let kind = kind.unwrap_or(if is_cancelled { ErrorKind::Interrupted } else { ErrorKind::Incomplete });
    let session = Some(result.session_id).filter(|session| !session.is_empty());
    let session = session.unwrap_or_else(|| DEFAULT_SESSION.to_string());
    let at = NodeRef { session: Some(session), node: result.node_id };
    let mut message = message.unwrap_or_else(|| format!("the turn of node '{}' failed", at.node));
    if kind == ErrorKind::Blocked {
        let numbered = |(at, choice): (usize, &String)| format!("{}. {choice}", at + 1);
        let choices: Vec<String> = result.choices.iter().enumerate().map(numbered).collect();
        if !choices.is_empty() {
            message = format!("{message}: {}", choices.join(", "));
        }
        hint = Some(dialog_hint(&at, result.choices.is_empty(), is_temporary));
    }
    let error = ApiError::new(kind, message, hint).at(&at).choices(result.choices).text(text);
    match kind == ErrorKind::Busy && result.delivery.is_none_or(|delivery| delivery == Delivery::Unsent) {
        true => error,
        false => error.final_failure(),
    }
}

/// Returns the command that answers a dialog.
fn dialog_hint(at: &NodeRef, has_no_choices: bool, is_temporary: bool) -> String {
    if is_temporary {
        return format!(
            "node '{}' existed for this call only and was removed: start its program with 'nerve new' in the same folder \
             and answer the dialog there, or let its command not ask",
            at.node
        );
    }
    match has_no_choices {
        true => format!("answer it on the screen: nerve attach {}", at.arguments()),
        false => format!("answer it: nerve answer {} NUMBER --wait", at.arguments()),
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::ModelUsage;
    use nerve_types::token_usage::TokenUsage;
    use serde_json::{Value, json};

    use super::*;

    fn result(response: TurnResponse) -> ResultInfo {
        let (node_id, session_id) = ("me".to_string(), "work".to_string());
        ResultInfo { node_id, session_id, response: Some(response), ..ResultInfo::default() }
    }

    fn error(result: ResultInfo, is_temporary: bool) -> Value {
        let error = Answer::read(result, None, is_temporary).unwrap_err();
        serde_json::from_slice::<Value>(&error.body()).unwrap()["error"].take()
    }

    #[test]
    fn only_success_is_an_answer() {
        let done = TurnResponse { success: true, text: "yes".into(), ..TurnResponse::default() };
        assert_eq!(Answer::read(result(done.clone()), None, false).unwrap().text, "yes");
        let interrupted = TurnResponse { interrupted: true, ..done.clone() };
        let error_of_interrupt = error(result(interrupted), false);
        assert_eq!(error_of_interrupt["code"], "interrupted");
        assert_eq!(error_of_interrupt["nerve"]["text"], "yes");
        let cut = TurnResponse { success: false, error_type: Some(ErrorKind::Incomplete), ..done };
        assert_eq!(error(result(cut), false)["code"], "incomplete");
        assert_eq!(error(ResultInfo::default(), false)["code"], "incomplete");
        let cancelled = ResultInfo { status: ResultStatus::Cancelled, ..ResultInfo::default() };
        assert_eq!(error(cancelled, false)["code"], "interrupted");
    }

    #[test]
    fn dialog_is_named_with_its_command() {
        let blocked = ResultInfo {
            response: None,
            error: Some("node 'me' is blocked (permission)".into()),
            error_type: Some(ErrorKind::Blocked),
            choices: vec!["Yes".into(), "No".into()],
            ..result(TurnResponse::default())
        };
        let of_node = error(blocked.clone(), false);
        let message = of_node["message"].as_str().unwrap();
        assert!(
            message.contains("1. Yes, 2. No") && message.contains("nerve answer me --session work"),
            "{message}"
        );
        assert_eq!(of_node["nerve"]["choices"], json!(["Yes", "No"]));
        assert_eq!(
            (&of_node["nerve"]["node_id"], &of_node["nerve"]["session_id"]),
            (&json!("me"), &json!("work"))
        );
        let of_fork = error(blocked, true);
        assert!(!of_fork["message"].as_str().unwrap().contains("nerve answer"), "{of_fork}");
    }

    #[test]
    fn tool_calls_are_shown_between_the_texts() {
        let call =
            Section::new(SectionKind::ToolCall, "hidden").with("tool", "Bash").with("args", "ls\n  -l");
        let text = |text: &str| Section::new(SectionKind::Text, text);
        let response = TurnResponse {
            success: true,
            text: "a\n\nb".into(),
            sections: vec![text("a"), call, text("b")],
            ..TurnResponse::default()
        };
        let answer = Answer::read(result(response), None, false).unwrap();
        assert_eq!(answer.text_with_tools(), "a\n\n> tool: Bash ls -l\n\nb");
        assert_eq!(tool_line("T", &"x".repeat(300)).chars().count(), MAX_TOOL_LINE + 1);
    }

    #[test]
    fn usage_of_the_proxy_takes_precedence() {
        let tokens = TokenUsage { input: 10, output: 5, cache_read: 3, cache_write: 2 };
        let usage = ModelUsage { tokens, ..ModelUsage::default() };
        let response = TurnResponse { success: true, usage: Some(usage), ..TurnResponse::default() };
        let counted = Some(CompletionUsage::new(1, 1));
        let used = Answer::read(result(response), counted, false).unwrap().usage.unwrap();
        assert_eq!((used.prompt_tokens, used.completion_tokens, used.total_tokens), (15, 5, 20));
        assert_eq!(used.prompt_tokens_details.cached_tokens, 3);
        let done = TurnResponse { success: true, ..TurnResponse::default() };
        assert_eq!(Answer::read(result(done), counted, false).unwrap().usage, counted);
    }
}
