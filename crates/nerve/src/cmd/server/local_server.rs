//! A server on this machine, which runs the node of a branch.

use std::process::Stdio;

use anyhow::{Context, Result};
use nerve_api::Request;
use nerve_api::reply::{AnswerReply, NodeExplanation, NodeInfo, NodeList, Turn};
use nerve_api::request::{AnswerNode, CreateNode, ExecuteInput, ExplainNode, GetNode, ListNodes, WaitNode};
use nerve_api::value::NodeState;
use nerve_client::{ClientError, NerveClient};
use nerve_engine::branches::{CreateFailure, NodeServer};
use nerve_node::error::{EngineError, ErrorKind};

use crate::cmd::engine_error::engine_error;
use crate::exit::{FAILED, Failure};

/// A connection to a server on this machine.
pub(crate) struct LocalServer(NerveClient);

impl LocalServer {
    /// Connects to a running server.
    pub(crate) async fn connect(name: &str) -> Result<LocalServer> {
        Ok(LocalServer(super::connect(name).await?))
    }

    /// Connects to the server, starting it if necessary.
    pub(crate) async fn connect_or_start(
        name: &str,
        on_progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<LocalServer> {
        if let Ok(client) = LocalServer::connect(name).await {
            return Ok(client);
        }
        on_progress(&format!("starting server '{name}'"));
        let program = crate::current_exe::path()?;
        let mut command = tokio::process::Command::new(program);
        command.args(["server", "start", "--name", name]).stdin(Stdio::null());
        let output = command.output().await.context("cannot start this program again")?;
        // Another process may have started it meanwhile.
        match LocalServer::connect(name).await {
            Ok(client) => Ok(client),
            Err(_) if !output.status.success() => {
                let stderr = String::from_utf8_lossy(&output.stderr).trim().to_string();
                let message = format!("cannot start server '{name}': {stderr}");
                Err(Failure::new(FAILED, message).into())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the client.
    pub(crate) fn into_client(self) -> NerveClient {
        self.0
    }

    async fn request<R: Request + Sync>(&self, request: R) -> Result<R::Reply, EngineError> {
        self.0.request(&request).await.map_err(engine_error)
    }
}

impl NodeServer for LocalServer {
    async fn list_nodes(&self, request: ListNodes) -> Result<Vec<NodeInfo>, EngineError> {
        let NodeList { mut nodes_info, stopped, .. } = self.request(request).await?;
        nodes_info.extend(stopped);
        Ok(nodes_info)
    }

    async fn create_node(&self, request: CreateNode) -> Result<(), CreateFailure> {
        self.0.request(&request).await.map(drop).map_err(|error| CreateFailure {
            may_exist: may_have_taken_effect(&error),
            error: engine_error(error),
        })
    }

    async fn get_node(&self, request: GetNode) -> Result<NodeInfo, EngineError> {
        self.0.node_info(&request).await.map_err(engine_error)
    }

    async fn wait_node(&self, request: WaitNode) -> Result<NodeState, EngineError> {
        Ok(self.request(request).await?.state)
    }

    async fn explain_node(&self, request: ExplainNode) -> Result<NodeExplanation, EngineError> {
        self.request(request).await
    }

    async fn answer_node(&self, request: AnswerNode) -> Result<(), EngineError> {
        match self.request(request).await? {
            AnswerReply::Turn(_) | AnswerReply::Done(_) => Ok(()),
        }
    }

    async fn execute_input(&self, request: ExecuteInput) -> Result<Turn, EngineError> {
        self.0.request_as(&request).await.map_err(engine_error)
    }
}

/// Returns true if the request may have taken effect although its reply is missing.
fn may_have_taken_effect(error: &ClientError) -> bool {
    match error {
        ClientError::Closed(unanswered) => unanswered.sent,
        ClientError::Protocol(_) => true,
        ClientError::Server(error) => error.details.error_type == ErrorKind::Internal,
        ClientError::NotRunning { .. } | ClientError::Io { .. } | ClientError::Ssh(_) => false,
    }
}
