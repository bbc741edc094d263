//! The response to a command.

use nerve_agent::parse::{Section, SectionKind};
use nerve_api::value::{Delivery, ResponseSource};
use nerve_record::history::ResponseData;
use nerve_types::TimeSpan;
use serde_json::Map;

use super::command::{CommandResult, EndReason};
use super::tail::OutputTail;
use super::{BashNode, EVIDENCE};
use crate::Node;
use crate::error::{EngineError, ErrorKind};
use crate::prompt::Prompt;
use crate::response::Response;

impl BashNode {
    /// Logs a command and converts its result to a response, or to an error if it was killed.
    pub(super) fn respond(
        &self,
        turn: u64,
        prompt: &Prompt,
        result: CommandResult,
        time: TimeSpan,
    ) -> Result<Response, EngineError> {
        let (stdout, stderr) = (result.stdout.text(), result.stderr.text());
        let mut attributes = Map::new();
        attributes.insert("exit_code".into(), result.code.into());
        attributes.insert("interrupted".into(), (result.end_reason == EndReason::Interrupted).into());
        attributes.insert("stdout".into(), (*stdout).into());
        attributes.insert("stderr".into(), (*stderr).into());
        if let Some(truncated) = result.truncated() {
            attributes.insert("truncated".into(), truncated.into());
        }
        let sections = vec![Section::new(SectionKind::Text, stdout.trim_end())];
        self.inner.state.events.metrics().add_output(result.stdout.total() + result.stderr.total());
        let is_complete = result.end_reason == EndReason::Exited;
        let streamed = (prompt.stream && is_complete).then_some(&*stdout);
        let data = ResponseData { sections: sections.clone(), tokens: None, is_complete, is_ready: true };
        self.inner.audit_log.lock().log_answer(&prompt.text, time, data, None, streamed);
        let state = &self.inner.state;
        let failure = match &result.end_reason {
            EndReason::TimedOut => {
                Some(state.error(ErrorKind::Timeout, "the command timed out and was killed"))
            }
            EndReason::Interrupted => {
                Some(state.error(ErrorKind::Interrupted, "the command was interrupted"))
            }
            EndReason::OverBudget(reached) => Some(reached.error(&state.node)),
            EndReason::Exited => None,
        };
        if let Some(error) = failure {
            return Err(error.with_text(stdout.trim_end()));
        }
        let missing = result.stdout.omitted();
        Ok(Response {
            node: self.id().to_string(),
            turn,
            raw: format!("{stdout}{stderr}"),
            text: stdout.trim_end().to_string(),
            sections,
            tokens: None,
            usage: None,
            is_complete: true,
            is_ready: true,
            is_agent: false,
            missing_text: (missing > 0).then(|| format!("its first {missing} bytes are left out")),
            source: ResponseSource::Process,
            delivery: Delivery::Started,
            ended_by: EVIDENCE.ready.1.into(),
            bytes: 0..result.stdout.total() + result.stderr.total(),
            time,
            attributes,
            warnings: Vec::new(),
        })
    }
}

impl CommandResult {
    /// Describes the output that the response omits.
    fn truncated(&self) -> Option<String> {
        let describe = |name: &str, tail: &OutputTail| {
            let bytes = tail.omitted();
            (bytes > 0).then(|| format!("the first {bytes} bytes of {name}"))
        };
        let parts: Vec<String> = [describe("stdout", &self.stdout), describe("stderr", &self.stderr)]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| format!("{} are left out", parts.join(" and ")))
    }
}
