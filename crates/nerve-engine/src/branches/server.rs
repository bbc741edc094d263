//! The server that runs the node of a branch.

use nerve_api::reply::{NodeExplanation, NodeInfo, Turn};
use nerve_api::request::{AnswerNode, CreateNode, ExecuteInput, ExplainNode, GetNode, ListNodes, WaitNode};
use nerve_api::value::NodeState;

use nerve_node::error::EngineError;

/// The server that runs the node of a branch: an engine, or a client of a server.
pub trait NodeServer: Send + Sync {
    /// Runs `work`, which reads and writes files, on a thread for blocking work. A server with many callers limits how
    /// many of these run at the same time.
    fn run_file_job<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
    ) -> impl Future<Output = Result<T, EngineError>> + Send {
        async { tokio::task::spawn_blocking(work).await? }
    }

    /// Lists the nodes of a session.
    fn list_nodes(
        &self,
        request: ListNodes,
    ) -> impl Future<Output = Result<Vec<NodeInfo>, EngineError>> + Send;

    /// Creates and starts a node.
    fn create_node(&self, request: CreateNode) -> impl Future<Output = Result<(), CreateFailure>> + Send;

    /// Describes a node.
    fn get_node(&self, request: GetNode) -> impl Future<Output = Result<NodeInfo, EngineError>> + Send;

    /// Waits for a state of a node and returns it.
    fn wait_node(&self, request: WaitNode) -> impl Future<Output = Result<NodeState, EngineError>> + Send;

    /// Explains the state of a node.
    fn explain_node(
        &self,
        request: ExplainNode,
    ) -> impl Future<Output = Result<NodeExplanation, EngineError>> + Send;

    /// Answers the dialog of a blocked node.
    fn answer_node(&self, request: AnswerNode) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Sends a prompt and waits for the end of its turn.
    fn execute_input(&self, request: ExecuteInput) -> impl Future<Output = Result<Turn, EngineError>> + Send;
}

/// A node that could not be created.
#[derive(Debug)]
pub struct CreateFailure {
    /// The error.
    pub error: EngineError,
    /// True if the node may exist all the same, for example because the reply was lost.
    pub may_exist: bool,
}
