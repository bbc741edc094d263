//! The status of a node, as its actor publishes it.

use std::sync::Arc;

use nerve_agent::driver::{AgentState, Evidence, Source};
use nerve_api::reply::{ModelTokens, NodeProgress};
use nerve_api::value::{Delivery, NodeState};
use nerve_types::activity::TsMs;
use nerve_types::{Size, TsNs};
use serde::{Deserialize, Serialize};

use super::faults::Faults;
use crate::terminal::spec::TerminalSpec;

/// The last prompt and answer of a node and its tokens so far, which the next server shows, too.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProgressRecord {
    pub(crate) last_prompt: Option<String>,
    pub(crate) last_line: Option<String>,
    pub(crate) models: Vec<ModelTokens>,
}

/// The status that the node's task publishes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Status {
    pub(crate) state: AgentState,
    pub(crate) evidence: Evidence,
    /// Time of the last change of the name of the state.
    pub(crate) since: TsNs,
    pub(crate) stopping: bool,
    pub(crate) closed: bool,
    pub(crate) title: String,
    pub(crate) size: Size,
    pub(crate) turns: u64,
    /// The agent has worked after it was ready, with or without a prompt of ours.
    pub(crate) has_worked: bool,
    /// Time at which the prompt of the turn in progress was sent.
    pub(crate) turn_since: Option<TsNs>,
    pub(crate) last_prompt: Option<Arc<str>>,
    pub(crate) last_line: Option<Arc<str>>,
    /// Tokens of the agent's responses by model.
    pub(crate) models: Vec<ModelTokens>,
    /// Delivery of the running turn's prompt.
    pub(crate) delivery: Option<Delivery>,
    pub(crate) queued: usize,
    pub(crate) faults: Faults,
    /// The agent's deviation from its profile.
    pub(crate) mismatch: Option<String>,
    /// Reason for the end of the node, if the exit status does not show it.
    pub(crate) end_reason: Option<String>,
    /// Id of the agent's own conversation.
    pub(crate) conversation_id: Option<String>,
    /// The changing part of the terminal's location: names and values.
    pub(crate) place: Vec<(&'static str, String)>,
}

impl Status {
    /// Creates the status before the first byte of output.
    pub(crate) fn starting(spec: &TerminalSpec, now: TsNs) -> Status {
        Status {
            state: AgentState::Starting,
            evidence: Evidence { source: Source::Quiet, text: "just started".into(), offset: 0, at: now },
            since: now,
            stopping: false,
            closed: false,
            title: String::new(),
            size: spec.size,
            turns: 0,
            has_worked: false,
            turn_since: None,
            last_prompt: None,
            last_line: None,
            models: Vec::new(),
            delivery: None,
            queued: 0,
            faults: Faults::default(),
            mismatch: None,
            end_reason: None,
            conversation_id: spec.conversation_id.clone(),
            place: Vec::new(),
        }
    }

    /// Returns the part that the next server shows, too.
    pub(crate) fn progress_record(&self) -> ProgressRecord {
        ProgressRecord {
            last_prompt: self.last_prompt.as_deref().map(str::to_string),
            last_line: self.last_line.as_deref().map(str::to_string),
            models: self.models.clone(),
        }
    }

    /// Describes the node's work.
    pub(crate) fn progress(&self) -> NodeProgress {
        let tokens = self.models.iter().map(|model| model.tokens.total()).reduce(u64::saturating_add);
        NodeProgress {
            state_changed_at: Some(self.since.into()),
            turn_started_at: self.turn_since.map(TsMs::from),
            last_prompt: self.last_prompt.as_deref().map(str::to_string),
            last_line: self.last_line.as_deref().map(str::to_string),
            tokens,
            models: self.models.clone(),
            ..NodeProgress::default()
        }
    }

    /// Returns the name of the node's state. A node with a running turn or waiting prompts is not ready.
    pub(crate) fn name(&self) -> NodeState {
        match (&self.state, self.stopping) {
            _ if self.closed => NodeState::Stopped,
            (AgentState::Exited(_), _) => NodeState::Stopped,
            (_, true) => NodeState::Stopping,
            (AgentState::Starting, _) => NodeState::Starting,
            (AgentState::Ready, _) if self.turn_since.is_some() || self.queued > 0 => NodeState::Busy,
            (AgentState::Ready, _) => NodeState::Ready,
            (AgentState::Busy, _) => NodeState::Busy,
            (AgentState::Blocked { .. }, _) => NodeState::Blocked,
            (AgentState::Suspended { .. }, _) => NodeState::Suspended,
        }
    }
}
