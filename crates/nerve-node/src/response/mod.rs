//! The response of a node to a prompt.

mod failure;
mod limits;
mod value;

use std::ops::Range;

use nerve_agent::parse::{Section, Tokens};
use nerve_api::reply::ModelUsage;
use nerve_api::value::{Delivery, ResponseSource};
use nerve_types::TimeSpan;
use serde_json::{Map, Value};

pub use self::failure::TurnFailure;
pub use self::limits::truncate_to_limits;

pub(crate) use self::limits::truncate_text;

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
    pub missing_text: Option<String>,
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
