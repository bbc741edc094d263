//! A unit of work of a step or of a name in a session: a node, a graph, a gate, or a function.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::NodeInfo;
use nerve_api::value::NodeState;
use nerve_node::usage_ledger::UsageLedger;
use nerve_node::{Node, NodeHandle, stateless_info};

use super::Graph;
use super::function::StepFunction;
use super::gate::Gate;

/// A unit of work that a step can execute and a session can register under a name. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Executable {
    /// A node. Each execution is one turn.
    Node(NodeHandle),
    /// A nested graph. Its steps belong to the caller's run.
    Graph(Arc<Graph>),
    /// A gate, which asks a person a question and waits for the answer.
    Gate(Arc<Gate>),
    /// A Rust function that can run graphs and write to the trace.
    Function(Arc<StepFunction>),
}

/// The target of a step.
#[derive(Debug, Clone)]
pub enum Target {
    /// A node, a graph or a gate that the step holds.
    Executable(Executable),
    /// A name, looked up in the session when the step starts.
    Name(Arc<str>),
}

impl Executable {
    /// Returns the id, which need not be the name it is registered under.
    pub fn id(&self) -> &str {
        match self {
            Executable::Node(node) => node.id(),
            Executable::Graph(graph) => graph.id(),
            Executable::Gate(gate) => gate.id(),
            Executable::Function(function) => function.id(),
        }
    }

    /// Returns the id as the name of a step's node; empty for a gate, which has only the id of its step.
    pub(crate) fn node_name(&self) -> &str {
        match self {
            Executable::Gate(_) => "",
            other => other.id(),
        }
    }

    /// Returns the kind: `graph`, `gate`, `function`, or the node's kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Executable::Node(node) => node.kind(),
            Executable::Graph(_) => "graph",
            Executable::Gate(_) => "gate",
            Executable::Function(_) => "function",
        }
    }

    /// Returns the node; `None` if it is something else.
    pub fn node(&self) -> Option<&NodeHandle> {
        match self {
            Executable::Node(node) => Some(node),
            _ => None,
        }
    }

    /// Returns the ledger of an agent's node.
    pub fn ledger(&self) -> Option<&UsageLedger> {
        self.node().and_then(|node| node.ledger())
    }

    /// Returns the graph; `None` if it is something else.
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        match self {
            Executable::Graph(graph) => Some(graph),
            _ => None,
        }
    }

    /// Returns true for a graph.
    pub fn is_graph(&self) -> bool {
        self.graph().is_some()
    }

    /// Returns true for a node that keeps state between executions.
    pub fn is_persistent(&self) -> bool {
        self.node().is_some_and(|node| node.is_persistent())
    }

    /// Returns id, kind and lifecycle state. Only a node has a state that changes.
    pub fn info(&self) -> NodeInfo {
        match self {
            Executable::Node(node) => node.info(),
            other => stateless_info(other.id(), other.kind()),
        }
    }

    /// Returns the lifecycle state.
    pub(crate) fn state(&self) -> NodeState {
        self.info().state
    }

    /// Stops a node and waits until its resources are released. The other kinds hold none; a graph's nodes are not stopped.
    pub async fn stop(&self, reason: &str) {
        if let Executable::Node(node) = self {
            node.stop(reason).await;
        }
    }

    /// Returns how long a cancelled execution may take to end by itself.
    pub(crate) fn cancel_grace(&self) -> Duration {
        match self {
            Executable::Node(node) => node.cancel_grace(),
            // Unlimited: each step has its own limit.
            Executable::Graph(_) => Duration::MAX,
            Executable::Gate(_) | Executable::Function(_) => Duration::ZERO,
        }
    }

    /// Returns true if usage is reported during an execution, not only in its result.
    pub(crate) fn has_live_metering(&self) -> bool {
        self.node().is_some_and(|node| node.has_live_metering())
    }

    /// See [`Node::has_live_token_count`].
    pub(crate) fn has_live_token_count(&self) -> bool {
        self.node().is_some_and(|node| node.has_live_token_count())
    }

    /// Returns true if both are the same object.
    pub(crate) fn is_same(&self, other: &Executable) -> bool {
        match (self, other) {
            (Executable::Node(one), Executable::Node(other)) => Arc::ptr_eq(one, other),
            (Executable::Graph(one), Executable::Graph(other)) => Arc::ptr_eq(one, other),
            (Executable::Gate(one), Executable::Gate(other)) => Arc::ptr_eq(one, other),
            (Executable::Function(one), Executable::Function(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<N: Node> From<Arc<N>> for Executable {
    fn from(node: Arc<N>) -> Executable {
        Executable::Node(node)
    }
}

impl From<NodeHandle> for Executable {
    fn from(node: NodeHandle) -> Executable {
        Executable::Node(node)
    }
}

impl From<Arc<Graph>> for Executable {
    fn from(graph: Arc<Graph>) -> Executable {
        Executable::Graph(graph)
    }
}

impl From<Arc<Gate>> for Executable {
    fn from(gate: Arc<Gate>) -> Executable {
        Executable::Gate(gate)
    }
}

impl From<Arc<StepFunction>> for Executable {
    fn from(function: Arc<StepFunction>) -> Executable {
        Executable::Function(function)
    }
}
