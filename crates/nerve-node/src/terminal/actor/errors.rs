//! The errors of a node's requests.

use nerve_agent::driver::{AgentState, Source};
use nerve_api::value::{BlockKind, Delivery};
use nerve_host::backend::Backend;

use super::Actor;
use crate::error::{EngineError, ErrorKind};

impl<B: Backend> Actor<B> {
    pub(super) fn with_screen(&self, mut error: EngineError) -> EngineError {
        error.screen = Some(self.terminal.screen().text());
        error
    }

    pub(super) fn blocked_error(&self) -> EngineError {
        let (kind, choices) = match self.state() {
            AgentState::Blocked { kind: BlockKind::Budget, .. } => {
                let error = self.budget_error();
                return self
                    .with_screen(error.unwrap_or_else(|| EngineError::internal("no limit is reached")));
            }
            AgentState::Blocked { kind, choices } => (kind, choices),
            AgentState::Suspended { .. } => return self.suspended_error(),
            _ => return EngineError::internal("not blocked"),
        };
        let message = format!("node '{}' is blocked ({})", self.spec.node.node, kind.as_str());
        let mut error = EngineError::new(ErrorKind::Blocked, message);
        error.choices = choices.clone().into();
        error.delivery = self.driver.turn().map(|(_, delivery)| delivery);
        let is_unknown =
            self.driver.evidence().source == Source::Quiet && self.spec.profile.composer.is_some();
        let hint = match choices.is_empty() {
            true if is_unknown => format!("check the screen; {}", self.reporter.report_hint()),
            true => "the dialog has no choices: check the screen and type with `nerve node write`".into(),
            false => format!("answer the dialog: `nerve answer {} NUMBER`", self.spec.node.arguments()),
        };
        self.with_screen(error.hint(hint))
    }

    /// Reports a usage limit: nothing is typed before it ends.
    fn suspended_error(&self) -> EngineError {
        let until = self.driver.state().until_text().map_or(String::new(), |until| format!(" until {until}"));
        let evidence = &self.driver.evidence().text;
        let message = format!("node '{}' is suspended{until}: {evidence}", self.spec.node.node);
        let mut error = EngineError::new(ErrorKind::Blocked, message);
        error.delivery = self.driver.turn().map(|(_, delivery)| delivery);
        self.with_screen(error.hint("wait until then, or cancel the wait with `nerve node interrupt`"))
    }

    pub(super) fn stopped_error(&self) -> EngineError {
        let message = format!("node '{}' is stopped: {}", self.spec.node.node, self.lifecycle.refusal());
        self.with_screen(EngineError::new(ErrorKind::NodeStopped, message))
    }

    /// Reports a prompt that timed out in the queue.
    pub(super) fn late_error(&self, reason: &str) -> EngineError {
        let mut error = EngineError::timeout(format!("node '{}': {reason}", self.spec.node.node));
        error.delivery = Some(Delivery::Unknown);
        let hint = match self.reporter.mismatch() {
            Some(mismatch) => format!("{mismatch}; {}", self.reporter.report_hint()),
            None => "run `nerve node why` to see the evidence for its state".to_string(),
        };
        self.with_screen(error.hint(hint))
    }
}
