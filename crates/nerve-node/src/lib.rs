//! Units of work. A terminal node drives a program on a terminal, turn by turn. A bash node runs one-shot commands, a chat node
//! talks to a model's API.
//!
//! Data flow of a terminal node: the bytes of a backend → pump → terminal model → driver → `actor` → [`Node::turn`].

#![warn(missing_docs)]

pub mod bash;
pub mod budget;
pub mod cancellation;
pub mod chat;
pub mod client_origin;
pub mod context;
pub mod dialog_answer;
pub mod error;
pub mod events;
pub mod execution;
pub mod factory;
pub mod fork;
pub mod grants;
pub mod hooks;
pub mod launch;
pub mod metrics;
pub mod names;
pub mod observer;
pub mod pool;
pub mod profiles;
pub mod proxy;
pub mod response;
pub mod telemetry;
pub mod terminal;
pub mod turn_queue;
pub mod turn_state;
pub mod upstream;
pub mod usage_ledger;

mod agent_version;
mod audit_log;
mod dialog_policy;
mod error_reply;
mod prompt;
mod stream;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nerve_agent::profile::ContextKind;
use nerve_api::reply::{NodeExplanation, NodeInfo};
use nerve_api::request::{NodeRef, NodeSpec};
use nerve_types::{Multiplexer, Size};
use serde_json::Value;

pub use nerve_api::request::NodeSpec as NodeConfig;
pub use nerve_api::value::NodeState;
pub use nerve_mux::pane::PanePlace;

use self::prompt::Prompt;
use crate::context::TurnContext;
use crate::dialog_answer::DialogAnswer;
use crate::error::EngineError;
use crate::response::Response;
use crate::terminal::{OutputPosition, OutputStart, OutputSubscription};
use crate::usage_ledger::UsageLedger;

/// The future of a fallible node operation.
pub type NodeFuture<'a, T = Value> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;
/// The future of a node operation that cannot fail.
pub type BoxFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A node of any kind.
pub type NodeHandle = Arc<dyn Node>;

/// The kind of input that a node takes from a model as its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// A command to run.
    Command,
    /// A prompt for a program that keeps its state.
    Prompt,
    /// Any JSON value.
    Input,
}

/// A unit of work. A kind of node implements the operations it supports; the others fail with [`Node::unsupported`].
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Returns the node's name: 1–32 of `a-z 0-9 -` where it is registered under it.
    fn id(&self) -> &str;

    /// Returns the kind for display: `pty`, `bash`, `function` … It is a string because embedders add their own kinds; no code
    /// branches on it.
    fn kind(&self) -> &'static str;

    /// Returns true if the node keeps state between executions. Such a node runs one execution at a time, must not be run again
    /// without need, and has to be stopped.
    fn is_persistent(&self) -> bool {
        false
    }

    /// Works on the context's input. An object with `"success": false` reports a failure that has a result to show.
    ///
    /// # Errors
    /// Returns why the execution failed.
    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a>;

    /// Runs a turn: sends a prompt and returns the response. The context's cancellation ends the turn; its input, parser and time
    /// limit are not used, because the prompt has its own.
    ///
    /// # Errors
    /// InvalidRequest: the node takes no prompts. Timeout, Busy, Cancelled, Interrupted, NodeStopped, and errors of the kind of
    /// node.
    fn turn(&self, _prompt: Prompt, _context: TurnContext) -> NodeFuture<'_, Response> {
        Box::pin(ready(Err(no_prompts_error(self.id(), self.kind()))))
    }

    /// Waits until the node is in one of `states` and returns its state. A node whose state does not change returns at once.
    ///
    /// # Errors
    /// Timeout; NodeStopped if no such state can be reached any more.
    fn wait<'a>(&'a self, _states: &'a [NodeState], _limit: Option<Duration>) -> NodeFuture<'a, NodeState> {
        Box::pin(ready(Ok(self.info().state)))
    }

    /// Types a command and Enter, without waiting for its end.
    ///
    /// # Errors
    /// Unsupported, NodeStopped, Blocked.
    fn run_command(&self, _command: String) -> NodeFuture<'_, ()> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Writes bytes to the terminal as they are and returns how many were written.
    ///
    /// # Errors
    /// Unsupported, NodeStopped, Busy.
    fn write(&self, _data: Vec<u8>) -> NodeFuture<'_, usize> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Types keys as a person at the terminal: prompts wait until the person pauses, and the audit log does not record them.
    ///
    /// # Errors
    /// Unsupported, NodeStopped, Busy (another person is typing, or the program does not read its input).
    fn type_keys(&self, _keys: Vec<u8>) -> NodeFuture<'_, ()> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Subscribes to the terminal's output, from a position on if its output is still kept.
    ///
    /// # Errors
    /// Unsupported, NodeStopped.
    fn watch_output(
        &self,
        _since: Option<OutputPosition>,
    ) -> NodeFuture<'_, (OutputStart, OutputSubscription)> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Returns the last `lines` lines of text, or all text including the scrollback.
    ///
    /// # Errors
    /// Unsupported, NodeStopped.
    fn read(&self, _lines: Option<usize>) -> NodeFuture<'_, String> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Resizes the terminal.
    ///
    /// # Errors
    /// Unsupported, NodeStopped.
    fn resize(&self, _size: Size) -> NodeFuture<'_, ()> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Opens a pane that shows the terminal, next to the pane of `place` if there is one, or focuses it. Returns the pane's id.
    ///
    /// # Errors
    /// Unsupported, NotFound, Process.
    fn show(&self, _multiplexer: Multiplexer, _place: PanePlace) -> NodeFuture<'_, String> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Answers the open dialog. If the answer waits for the turn that the dialog belongs to, returns its response.
    ///
    /// # Errors
    /// Unsupported, InvalidRequest (no dialog, no such choice), and the errors of [`Node::turn`].
    fn answer(&self, _answer: DialogAnswer) -> NodeFuture<'_, Option<Response>> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Returns state, evidence and screen.
    ///
    /// # Errors
    /// Unsupported, NodeStopped.
    fn explain(&self) -> NodeFuture<'_, NodeExplanation> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Returns the node's current description.
    fn info(&self) -> NodeInfo {
        NodeInfo { persistent: self.is_persistent(), ..stateless_info(self.id(), self.kind()) }
    }

    /// Returns a spec for a similar node, as far as the settings are known; `None` if this kind of node cannot be described by one.
    /// Use it only if there is no stored definition.
    fn to_spec(&self) -> Option<NodeSpec> {
        None
    }

    /// Returns true if the node has a proxy whose settings are lost.
    fn has_unknown_proxy(&self) -> bool {
        false
    }

    /// Returns how the node handles earlier messages of a conversation.
    fn context_kind(&self) -> ContextKind {
        ContextKind::Own
    }

    /// Returns how a model can use the node as a tool; `None` if it cannot.
    fn tool_kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Input)
    }

    /// Returns how long a cancelled execution may take to end by itself before it is dropped. A node with a non-zero grace period
    /// has to watch the context's cancellation and to enforce the context's timeout itself.
    fn cancel_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the ledger that counts the node's usage; `None` if this kind of node has none.
    fn ledger(&self) -> Option<&UsageLedger> {
        None
    }

    /// Returns true if usage is counted in the context while an execution runs, not taken from its response.
    fn has_live_metering(&self) -> bool {
        false
    }

    /// Returns true if at least the tokens are counted in the context while an execution runs.
    fn has_live_token_count(&self) -> bool {
        self.has_live_metering()
    }

    /// Acquires the node's resources. Nodes that are created running have nothing to do.
    ///
    /// # Errors
    /// Returns why the node could not be started.
    fn start(&self) -> NodeFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Releases the node's resources and returns when they are gone.
    fn stop<'a>(&'a self, _reason: &'a str) -> BoxFuture<'a> {
        Box::pin(ready(()))
    }

    /// Clears the node's text but keeps its resources. Returns true if the node has forgotten its conversation, too.
    ///
    /// # Errors
    /// Unsupported, NodeStopped.
    fn reset(&self) -> NodeFuture<'_, bool> {
        Box::pin(ready(Err(self.unsupported())))
    }

    /// Interrupts the current execution. Returns when that took effect: the node is not busy with it any more.
    ///
    /// # Errors
    /// NodeStopped: the node is stopped. Timeout: the node ignores the interrupt.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Detaches from what the node drives and leaves it running. Returns false if the node cannot do that.
    fn release(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(false))
    }

    /// Returns a copy of the node in its current state under another name, or `None` if this kind of node does not fork by copying.
    /// An error says why it cannot fork now.
    fn fork(&self, _at: &NodeRef) -> Option<NodeFuture<'_, NodeHandle>> {
        None
    }

    /// Returns the error of an operation that this kind of node does not support. The hint lists those it supports.
    fn unsupported(&self) -> EngineError {
        let message = format!("node '{}' has no terminal", self.id());
        let hint = format!("a {} node can be executed, interrupted, stopped", self.kind());
        EngineError::invalid_request(message).hint(hint)
    }
}

/// Returns the description of something that is always ready.
pub fn stateless_info(id: &str, kind: &'static str) -> NodeInfo {
    NodeInfo {
        node_id: id.to_string(),
        kind: kind.to_string(),
        state: NodeState::Ready,
        persistent: false,
        approximate: false,
        progress: Default::default(),
        metadata: Default::default(),
    }
}

/// Returns the error of a prompt for something that takes none.
pub fn no_prompts_error(id: &str, kind: &str) -> EngineError {
    let message = format!("node '{id}' is a {kind} and takes no prompts");
    EngineError::invalid_request(message).hint("a graph is run: `graph run`")
}
