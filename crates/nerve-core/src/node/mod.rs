//! Units of work. A terminal node drives a program on a terminal, turn by turn. A bash node runs one-shot commands, a chat node
//! talks to a model's API, a function node calls a function, and a gate waits for a person. A graph is a node too.

pub mod bash;
pub mod factory;
pub mod function;
pub mod gate;
pub(crate) mod launch;
pub mod observer;
pub mod template;
pub mod terminal;

mod actor;
pub mod hooks;
mod journal;
mod queue;
pub(crate) mod response;
pub(crate) mod response_value;
mod stream;
mod transcript;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::terminal::TerminalNode;
/// The info, configuration and state of a node.
pub use crate::command::{NodeInfo, NodeSpec as NodeConfig, StateName as NodeState};

use crate::chat::ChatNode;
use crate::command::{NodeRef, StateName};
use crate::context::ExecutionContext;
use crate::error::EngineError;
use crate::graph::Graph;

/// The future of a fallible node operation.
pub type NodeFuture<'a, T = Value> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;
/// The future of a node operation that cannot fail.
pub type BoxFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A node of any kind.
pub type NodeHandle = Arc<dyn Node>;

/// A unit of work. Operations that only terminals support are on [`TerminalNode`].
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Returns the node's name: 1–32 of `a-z 0-9 -` where it is registered under it.
    fn id(&self) -> &str;

    /// Returns the kind: `pty`, `bash`, `function`, `gate`, `graph` …
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
    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a>;

    /// Returns the node's current description.
    fn info(&self) -> NodeInfo {
        NodeInfo {
            id: self.id().to_string(),
            kind: self.kind().to_string(),
            state: StateName::Ready,
            persistent: self.is_persistent(),
            metadata: Default::default(),
        }
    }

    /// Returns how long a cancelled execution may take to end by itself before it is dropped. A node with a non-zero grace period
    /// has to watch the context's cancellation and to enforce the context's timeout itself.
    fn cancel_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns true if usage is counted in the context while an execution runs, not taken from its response.
    fn has_live_metering(&self) -> bool {
        false
    }

    /// Acquires the node's resources. Nodes that are created running have nothing to do.
    ///
    /// # Errors
    /// Returns why the node could not be started.
    fn start(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Releases the node's resources and returns when they are gone.
    fn stop<'a>(&'a self, _reason: &'a str) -> BoxFuture<'a> {
        Box::pin(async {})
    }

    /// Forgets the node's state but keeps its resources.
    ///
    /// # Errors
    /// Returns why the node cannot be reset.
    fn reset(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Interrupts the current execution.
    ///
    /// # Errors
    /// NodeStopped: the node is stopped.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Detaches from what the node drives and leaves it running. Returns false if the node cannot do that.
    fn release(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Returns a copy of the node in its current state under another name, or `None` if this kind of node does not fork by copying.
    /// An error says why it cannot fork now.
    fn fork(&self, _at: &NodeRef) -> Option<Result<NodeHandle, EngineError>> {
        None
    }

    /// Returns the terminal node, if this is one.
    fn as_terminal(&self) -> Option<&TerminalNode> {
        None
    }

    /// Returns the bash node, if this is one.
    fn as_bash(&self) -> Option<&bash::BashNode> {
        None
    }

    /// Returns the chat node, if this is one.
    fn as_chat(&self) -> Option<&ChatNode> {
        None
    }

    /// Returns the graph, if this is one.
    fn as_graph(&self) -> Option<&Graph> {
        None
    }
}

/// Returns the node's lifecycle state.
pub(crate) fn state_of(node: &dyn Node) -> StateName {
    node.info().state
}
