//! The states of an agent and their evidence.

use crate::profile::BlockKind;
pub use nerve_types::{Delivery, SignalSource as Source};
use nerve_types::{ExitStatus, TsNs};

/// The state of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// Started and not ready yet.
    Starting,
    /// Waiting for a prompt.
    Ready,
    /// Working.
    Busy,
    /// Showing a dialog that a prompt must not answer.
    Blocked {
        /// The kind of the dialog.
        kind: BlockKind,
        /// Choices of the dialog, top to bottom; empty if they could not be read.
        choices: Vec<String>,
    },
    /// Waiting for the end of a usage limit.
    Suspended {
        /// End of the limit, if the agent names it unambiguously.
        until: Option<TsNs>,
    },
    /// The program has exited.
    Exited(ExitStatus),
}

impl AgentState {
    /// Returns the name of the state for reports.
    pub fn as_str(&self) -> &'static str {
        match self {
            AgentState::Starting => "starting",
            AgentState::Ready => "ready",
            AgentState::Busy => "busy",
            AgentState::Blocked { .. } => "blocked",
            AgentState::Suspended { .. } => "suspended",
            AgentState::Exited(_) => "exited",
        }
    }

    /// Returns the end of a suspension as ISO 8601 in UTC, to the second.
    pub fn until_text(&self) -> Option<String> {
        let AgentState::Suspended { until: Some(until) } = self else { return None };
        let time = jiff::Timestamp::from_nanosecond(i128::from(until.0)).ok()?;
        Some(format!("{time:.0}"))
    }
}

/// The evidence for a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The signal that decided.
    pub source: Source,
    /// The signal in words.
    pub text: String,
    /// Output bytes of the terminal at that moment.
    pub offset: u64,
    /// Time of the signal.
    pub at: TsNs,
}
