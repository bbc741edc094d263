//! Decides whether a finished turn succeeded. Every caller reads the outcome of a turn from here.

use nerve_api::value::{Delivery, SectionKind};
use nerve_types::ErrorKind;

use super::Response;

/// The reason why a finished turn does not count as a success. The response keeps the text that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFailure {
    /// Kind of error; decides exit codes.
    pub kind: ErrorKind,
    /// Message: what failed, and why.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
}

impl TurnFailure {
    fn new(kind: ErrorKind, message: impl Into<String>) -> TurnFailure {
        TurnFailure { kind, message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> TurnFailure {
        self.hint = Some(hint.into());
        self
    }
}

impl Response {
    /// Returns true if the turn is complete, was not interrupted and did not fail.
    pub fn is_success(&self) -> bool {
        self.failure().is_none()
    }

    /// Returns true if the turn was interrupted by a request, or by keys typed into its terminal.
    pub fn is_interrupted(&self) -> bool {
        let is_requested = self.attributes.get("interrupted").is_some_and(|value| *value == true);
        is_requested || self.last_section() == Some(SectionKind::Interrupted)
    }

    /// Returns why the turn failed: it was interrupted, its command exited with a code other than 0, its answer ends with an error,
    /// it has no answer, or its answer is incomplete.
    pub fn failure(&self) -> Option<TurnFailure> {
        if self.is_interrupted() {
            let hint = "the text is the part of the answer that arrived before";
            return Some(TurnFailure::new(ErrorKind::Interrupted, "the turn was interrupted").hint(hint));
        }
        if let Some(code) = self.attributes.get("exit_code").filter(|code| **code != 0) {
            let message = match code.as_i64() {
                Some(code) => format!("the command ended with exit code {code}"),
                None => "the command ended with an unknown exit code".to_string(),
            };
            return Some(TurnFailure::new(ErrorKind::Process, message));
        }
        self.agent_error().or_else(|| self.missing_answer()).or_else(|| self.incomplete_answer())
    }

    /// Returns the kind of the last section, thinking aside.
    fn last_section(&self) -> Option<SectionKind> {
        self.sections.iter().map(|section| section.kind).rfind(|kind| *kind != SectionKind::Thinking)
    }

    /// Returns the error that ends the answer, or that the agent shows instead of an answer.
    fn agent_error(&self) -> Option<TurnFailure> {
        let ends_with_error = self.last_section() == Some(SectionKind::Error);
        let has_text = self.sections.iter().any(|section| section.kind == SectionKind::Text);
        let error = self.sections.iter().rfind(|section| section.kind == SectionKind::Error);
        let error = error.filter(|_| ends_with_error || !has_text)?;
        let hint = format!("the agent reported this error: see `nerve node read {}`", self.node);
        Some(TurnFailure::new(ErrorKind::Api, error.content.clone()).hint(hint))
    }

    /// Returns a failure if an agent's turn has no text and was not seen to start work. A shell command may print nothing.
    fn missing_answer(&self) -> Option<TurnFailure> {
        if !self.is_agent || self.delivery == Delivery::Started || !self.text.trim().is_empty() {
            return None;
        }
        let hint = format!(
            "see its screen with `nerve node why {}`; some of an agent's own commands, such as /clear, answer nothing",
            self.node
        );
        Some(TurnFailure::new(ErrorKind::NoAnswer, "the agent showed no work and no answer").hint(hint))
    }

    fn incomplete_answer(&self) -> Option<TurnFailure> {
        let why = match &self.missing_text {
            Some(why) => why.as_str(),
            None if self.is_complete => return None,
            None => "its end was not seen",
        };
        let hint = format!(
            "`nerve node read {}` shows the terminal's text; let the node write long output to a file",
            self.node
        );
        Some(TurnFailure::new(ErrorKind::Incomplete, format!("the answer is incomplete: {why}")).hint(hint))
    }
}
