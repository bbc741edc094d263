//! Events: a struct with what all of them have in common, and an enum with the details of each type.
//!
//! A server publishes an [`Event`]. A client reads an [`EventMessage`](crate::EventMessage), which may also be of a type that this version
//! does not know; [`EventMessage::details`](crate::EventMessage::details) returns the details of a known one. A subscriber with `aliases`
//! also receives each event under its older name.

mod example;

use std::fmt;

use nerve_types::activity::{Activity, TsMs};
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};

use crate::ErrorKind;
use crate::reply::GateInfo;
use crate::value::{AnswerSource, BlockKind, ResultStatus, RunStatus, StepState, StopCause};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Event"))]
#[serde(tag = "type", rename = "event")]
pub struct Event {
    /// Type and details of the event.
    #[serde(flatten)]
    pub kind: EventKind,
    /// Id of the node, if the event concerns one.
    #[serde(default)]
    pub node_id: Option<String>,
    /// Session of the node or the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Time of the event.
    pub emitted_at: TsMs,
    /// Sequence number of the event on this server, from 1.
    pub seq: u64,
}

/// Type and details of an event: `event_type` and `data` in JSON. Steps are identified by their path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EnumDiscriminants)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event_type", content = "data", rename_all = "SCREAMING_SNAKE_CASE")]
#[strum_discriminants(
    name(EventType),
    derive(Hash, EnumString, IntoStaticStr, VariantArray),
    strum(serialize_all = "SCREAMING_SNAKE_CASE"),
    doc = "Type of an event."
)]
pub enum EventKind {
    /// A node was created.
    NodeCreated {
        /// Kind of node: `pty`, `bash`, `chat` …
        #[serde(default, rename = "type")]
        kind: String,
        /// Id of the node from which it was forked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<String>,
    },
    /// A node is ready for a prompt.
    NodeReady {
        /// Evidence of the state.
        #[serde(default)]
        evidence: String,
    },
    /// A node is working.
    NodeBusy {
        /// Evidence of the state.
        #[serde(default)]
        evidence: String,
    },
    /// A node shows a dialog and waits for its answer.
    NodeBlocked {
        /// Kind of dialog.
        #[serde(default)]
        kind: BlockKind,
        /// Choices of the dialog.
        #[serde(default)]
        choices: Vec<String>,
        /// Evidence of the state.
        #[serde(default)]
        evidence: String,
    },
    /// A node waits until a usage limit is reset.
    NodeSuspended {
        /// Time of the reset, if it is known.
        #[serde(default)]
        until_at: Option<TsMs>,
        /// Evidence of the state.
        #[serde(default)]
        evidence: String,
    },
    /// The number of prompts that wait for their turn has changed: `queued` in the description of the node.
    NodeQueueChanged {},
    /// A node has stopped.
    NodeStopped {
        /// Reason.
        #[serde(default)]
        reason: String,
        /// Kind of reason.
        #[serde(default)]
        cause: StopCause,
    },
    /// A node is no longer listed: a stopped node was removed, or the node of an existing pane or of a run has ended.
    NodeRemoved {},
    /// A further part of an answer, only of turns that are streamed.
    OutputChunk {
        /// Number of the turn on its node.
        #[serde(default)]
        turn: u64,
        /// The text.
        #[serde(default)]
        chunk: String,
        /// Id of the request that streams the turn, as text; only on the connection that sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Tag of the request's context, by which the server finds the connection.
        #[serde(skip)]
        tag: Option<u64>,
    },
    /// A turn has ended and was parsed.
    OutputParsed {
        /// Number of the turn on its node.
        #[serde(default)]
        turn: u64,
        /// Number of sections.
        #[serde(default)]
        sections: usize,
        /// True if the end of the turn was detected.
        #[serde(default)]
        is_complete: bool,
    },
    /// Activity of a node's agent, for example a tool call or a changed file.
    NodeActivity(Box<Activity>),
    /// A run of a graph has started.
    GraphStarted {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// Number of steps in the graph itself.
        #[serde(default)]
        steps: usize,
        /// False for the first start.
        #[serde(default)]
        resumed: bool,
    },
    /// A step has started.
    StepStarted {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// Path of the step.
        step_id: String,
        /// Id of the step's node; empty without one.
        #[serde(default)]
        node_id: String,
        /// Number of the attempt, from 1.
        #[serde(default)]
        attempt: u32,
        /// True if the step waits for its node, which is busy.
        #[serde(default)]
        queued: bool,
    },
    /// A step has completed.
    StepCompleted {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// Path of the step.
        step_id: String,
        /// Id of the step's node; empty without one.
        #[serde(default)]
        node_id: String,
        /// `completed`, `skipped` or `reused`.
        #[serde(default)]
        state: StepState,
        /// Duration in milliseconds.
        #[serde(default)]
        duration_ms: u64,
        /// Number of tokens that the step used.
        #[serde(default)]
        tokens_used: u64,
    },
    /// A step has failed for good, or an attempt has failed and another one follows.
    StepFailed {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// Path of the step.
        step_id: String,
        /// Id of the step's node; empty without one.
        #[serde(default)]
        node_id: String,
        /// Error message.
        #[serde(default)]
        error: String,
        /// Kind of error.
        #[serde(default)]
        error_type: ErrorKind,
        /// Hint on how to solve the problem.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// Delay until the next attempt in milliseconds; null if the step has failed for good.
        #[serde(default)]
        retry_in_ms: Option<u64>,
    },
    /// A gate waits for a person's answer.
    GateAsked {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// The gate.
        #[serde(flatten)]
        gate: GateInfo,
    },
    /// A gate was answered.
    GateAnswered {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// Path of the step.
        step_id: String,
        /// The answer.
        #[serde(default)]
        choice: String,
        /// Source of the answer.
        #[serde(default)]
        by: AnswerSource,
    },
    /// A run of a graph has ended.
    GraphCompleted {
        /// The run.
        #[serde(flatten)]
        run: RunIds,
        /// State of the run.
        #[serde(default, rename = "state", alias = "status")]
        status: RunStatus,
        /// Duration in milliseconds.
        #[serde(default)]
        duration_ms: u64,
        /// Number of tokens that the run used.
        #[serde(default)]
        tokens_used: u64,
        /// Error message, if the run has failed.
        #[serde(default)]
        error: Option<String>,
        /// Kind of error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_type: Option<ErrorKind>,
        /// Hint on how to solve the problem.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// A snapshot was taken: a bookmark in a recording.
    SnapshotTaken {
        /// Number of the snapshot in its recording.
        #[serde(default)]
        snapshot_id: u64,
        /// Id of the recording.
        #[serde(default)]
        recording_id: String,
        /// Offset in the recorded output, in bytes.
        #[serde(default)]
        anchor_byte: u64,
        /// Label.
        #[serde(default)]
        label: Option<String>,
        /// True if the files of that moment were stored.
        #[serde(default)]
        has_files: bool,
    },
    /// CREATE_BRANCH has begun a step.
    BranchProgress {
        /// Description for people.
        #[serde(default)]
        step: String,
        /// Id of the request, as text; only on the connection that sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Tag of the request's context, by which the server finds the connection.
        #[serde(skip)]
        tag: Option<u64>,
    },
    /// An asynchronous execution has ended.
    ResultReady {
        /// Id of the result.
        #[serde(default)]
        result_id: String,
        /// True if the execution succeeded.
        #[serde(default)]
        success: bool,
        /// State of the execution.
        #[serde(default, rename = "state", alias = "status")]
        status: ResultStatus,
    },
    /// An error that could not be reported to any caller.
    Error {
        /// Error message.
        #[serde(default, rename = "error")]
        message: String,
        /// Kind of error.
        #[serde(default)]
        error_type: ErrorKind,
    },
    /// The server is shutting down.
    ServerShutdown {
        /// Hosted nodes keep running for the next server, which usually follows at once.
        #[serde(default)]
        keep_nodes: bool,
    },
    /// Events were lost here because the subscriber was too slow.
    EventsDropped {
        /// Number of lost events; null if it is not known.
        #[serde(default)]
        dropped: Option<u64>,
    },
}

/// Ids of the run to which an event belongs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunIds {
    /// Id of the run.
    #[serde(default)]
    pub run_id: String,
    /// Id of the graph.
    #[serde(default)]
    pub graph_id: String,
}

impl EventKind {
    /// Creates the event of a failure of the machine, such as a full disk.
    pub fn machine_failure(message: String) -> EventKind {
        EventKind::Error { message, error_type: ErrorKind::Internal }
    }

    /// Returns the type.
    pub fn event_type(&self) -> EventType {
        self.into()
    }

    /// Returns the ids of the run; `None` if the event does not belong to a run.
    pub fn run(&self) -> Option<&RunIds> {
        match self {
            EventKind::GraphStarted { run, .. }
            | EventKind::StepStarted { run, .. }
            | EventKind::StepCompleted { run, .. }
            | EventKind::StepFailed { run, .. }
            | EventKind::GateAsked { run, .. }
            | EventKind::GateAnswered { run, .. }
            | EventKind::GraphCompleted { run, .. } => Some(run),
            _ => None,
        }
    }

    /// Returns the path of the step; `None` if the event does not concern a step.
    pub fn step(&self) -> Option<&str> {
        match self {
            EventKind::StepStarted { step_id, .. }
            | EventKind::StepCompleted { step_id, .. }
            | EventKind::StepFailed { step_id, .. }
            | EventKind::GateAsked { gate: GateInfo { step_id, .. }, .. }
            | EventKind::GateAnswered { step_id, .. } => Some(step_id),
            _ => None,
        }
    }

    /// Returns the id of the step's node; `None` if the event does not concern a step with a node.
    pub fn step_node(&self) -> Option<&str> {
        match self {
            EventKind::StepStarted { node_id, .. }
            | EventKind::StepCompleted { node_id, .. }
            | EventKind::StepFailed { node_id, .. } => Some(node_id.as_str()).filter(|node| !node.is_empty()),
            _ => None,
        }
    }
}

impl EventType {
    /// All events.
    pub const ALL: &'static [EventType] = <EventType as VariantArray>::VARIANTS;
    /// Events after which the state of a node may be another one.
    pub const STATE_CHANGES: &'static [EventType] = &[
        EventType::NodeCreated,
        EventType::NodeReady,
        EventType::NodeBusy,
        EventType::NodeBlocked,
        EventType::NodeSuspended,
        EventType::NodeQueueChanged,
        EventType::NodeStopped,
        EventType::NodeRemoved,
        // A node whose asynchronous execution has no result yet counts as busy.
        EventType::ResultReady,
    ];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
