//! Units of work (seed node-refactoring REQ-N1). A terminal node drives a program on a terminal, turn by turn; a bash node runs
//! one-shot commands; a chat node talks with a model's API; a function node calls a function; a gate asks a person; a graph is a node
//! too.

pub mod bash;
pub mod factory;
pub mod function;
pub mod gate;
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
/// What is known of a node, where it is in its life, how it is made (seed REQ-N0).
pub use crate::command::{NodeInfo, NodeSpec as NodeConfig, StateName as NodeState};

use crate::chat::ChatNode;
use crate::command::{NodeRef, StateName};
use crate::context::ExecutionContext;
use crate::error::EngineError;
use crate::graph::Graph;

/// What a node does, on its way.
pub type NodeFuture<'a, T = Value> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;
/// Something that cannot fail, on its way.
pub type Quiet<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A node of any kind.
pub type NodeHandle = Arc<dyn Node>;

/// A unit of work. What only terminals can do is on [`TerminalNode`] (decision D10).
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Its name: 1–32 of `a-z 0-9 -` where it is registered under it.
    fn id(&self) -> &str;

    /// `pty`, `bash`, `function`, `gate`, `graph` …
    fn kind(&self) -> &'static str;

    /// Keeps state between executions: does one at a time, cannot be repeated without consequences, must be stopped.
    fn persistent(&self) -> bool {
        false
    }

    /// Works on the context's input. An object with `"success": false` is a failure that has something to show.
    ///
    /// # Errors
    /// What went wrong.
    fn execute<'a>(&'a self, context: &'a ExecutionContext) -> NodeFuture<'a>;

    /// What is known of it.
    fn info(&self) -> NodeInfo {
        NodeInfo {
            id: self.id().to_string(),
            session: String::new(),
            kind: self.kind(),
            state: StateName::Ready,
            persistent: self.persistent(),
            metadata: Default::default(),
        }
    }

    /// How long an execution whose context is cancelled may take to end by itself; then it is dropped. Who says more than zero
    /// watches the context's cancellation and keeps its limit of time.
    fn winds_down(&self) -> Duration {
        Duration::ZERO
    }

    /// What an execution uses is counted in its context while it runs, and not by what its response says.
    fn meters(&self) -> bool {
        false
    }

    /// Gets what it needs (seed REQ-N2). Nodes that are made started have nothing to do.
    ///
    /// # Errors
    /// It could not be started.
    fn start(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Gives back what it holds; returns when it is gone.
    fn stop<'a>(&'a self, _reason: &'a str) -> Quiet<'a> {
        Box::pin(async {})
    }

    /// Forgets what it knows and keeps what it holds.
    ///
    /// # Errors
    /// It cannot.
    fn reset(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Interrupts what it does.
    ///
    /// # Errors
    /// It is stopped.
    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Leaves what it drives running without us; `false` if it cannot.
    fn release(&self) -> Quiet<'_, bool> {
        Box::pin(async { false })
    }

    /// A node of the same kind that goes on by itself from where this one is, under another name: for nodes that fork by copying
    /// what they hold. `None`: it does not fork that way. An error says why it cannot now.
    fn fork(&self, _at: &NodeRef) -> Option<Result<NodeHandle, EngineError>> {
        None
    }

    /// It is on a terminal.
    fn as_terminal(&self) -> Option<&TerminalNode> {
        None
    }

    /// It runs one-shot commands.
    fn as_bash(&self) -> Option<&bash::BashNode> {
        None
    }

    /// It is a conversation with a model's API.
    fn as_chat(&self) -> Option<&ChatNode> {
        None
    }

    /// It is a graph.
    fn as_graph(&self) -> Option<&Graph> {
        None
    }
}

/// Where a node is in its life.
pub(crate) fn state_of(node: &dyn Node) -> StateName {
    node.info().state
}
