//! Domain types of the engine: nodes, their definitions, states, turns and sessions. Requests, replies and events are those of
//! [`nerve_api`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::parse::{Section, Tokens};
pub use nerve_api::event::{Event, EventKind};
use nerve_api::reply::ModelUsage;
pub use nerve_api::reply::{GateInfo, NodeInfo, SessionInfo};
pub use nerve_api::request::{CommandLine, NodeRef, NodeSpec};
pub use nerve_api::value::{BackendKind, NodeState, RunStatus};
use nerve_api::value::{Delivery, ResponseSource};
use nerve_types::TimeSpan;
use serde_json::{Map, Value};

pub use nerve_mux::pane::PanePlace;

/// The client that sent a request, as audit logs name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOrigin {
    /// Transport of its connection: `unix`, `tcp`, `http`, `websocket`; `process` for a request of this process.
    pub transport: &'static str,
    /// User and process of a local client, address of another one.
    pub client: Arc<str>,
}

impl ClientOrigin {
    /// Creates the origin of a client.
    pub fn new(transport: &'static str, client: impl Into<Arc<str>>) -> ClientOrigin {
        ClientOrigin { transport, client: client.into() }
    }
}

impl Default for ClientOrigin {
    /// A request of this process.
    fn default() -> ClientOrigin {
        ClientOrigin::new("process", "nerve")
    }
}

/// A choice of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Position of the choice, from 1.
    Number(usize),
    /// A part of the choice's label, ignoring case. Only one choice may match.
    Label(String),
    /// Closes the dialog without an answer (Escape).
    Cancel,
}

/// The answer to a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogAnswer {
    /// The choice.
    pub choice: Choice,
    /// Id of the dialog that is meant; `None` for any.
    pub dialog_id: Option<String>,
    /// Wait for the turn that the dialog interrupted.
    pub wait: bool,
    /// Time limit of that turn.
    pub timeout: Option<Duration>,
    /// The client that answers.
    pub origin: ClientOrigin,
}

/// A finished turn.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// Id of the node.
    pub node: String,
    /// Number of the turn on this node, from 1.
    pub turn: u64,
    /// All text of the turn as shown on the terminal.
    pub raw: String,
    /// Text of the agent's answer.
    pub text: String,
    /// Sections of the answer.
    pub sections: Vec<Section>,
    /// Number of tokens, if known.
    pub tokens: Option<Tokens>,
    /// Usage as counted by the node's proxy, if it has one.
    pub usage: Option<ModelUsage>,
    /// True if the end of the turn was detected.
    pub is_complete: bool,
    /// True if the node is ready for the next prompt.
    pub is_ready: bool,
    /// True for a program with a composer: an agent, as opposed to a shell.
    pub is_agent: bool,
    /// Reason why text is missing from the answer, or may be missing.
    pub incomplete: Option<String>,
    /// Source of sections and text.
    pub source: ResponseSource,
    /// Confirmed delivery of the prompt.
    pub delivery: Delivery,
    /// Evidence that ended the turn.
    pub ended_by: String,
    /// Output of the turn, as offsets in bytes.
    pub bytes: Range<u64>,
    /// Start and end of the turn.
    pub time: TimeSpan,
    /// Additional attributes: `exit_code`, `stdout`, `stderr` of a bash node; `content`, `model`, `finish_reason`, `usage` … of a chat
    /// node.
    pub attributes: Map<String, Value>,
    /// Problems that do not affect the turn, a sentence each.
    pub warnings: Vec<String>,
}
