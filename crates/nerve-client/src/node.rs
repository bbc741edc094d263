//! A node on a server.

use std::time::Duration;

use nerve_api::reply::{
    AnswerReply, NodeExplanation, NodeHistory, NodeInfo, RestoredNode, Transcript, Turn, TurnAccepted,
};
use nerve_api::request::{
    AnswerNode, ClearBuffer, CreateNode, ExecuteInput, ExplainNode, ForkNode, GetBuffer, GetHistory, GetNode,
    GetTranscript, ListNodes, NodeChoice, PruneNodes, RemoveNode, ResizeNode, RestoreNodes, RunCommand,
    Seconds, SendInterrupt, ShowNode, StartNode, States, StopNode, WaitNode, WriteData,
};
use nerve_api::value::NodeState;

use crate::client::NerveClient;
use crate::error::ClientError;
use crate::execute::ExecuteStream;

/// Number of lines returned by [`RemoteNode::read_tail`].
const TAIL_LINES: usize = 50;

/// A node on a server. All methods fail like [`NerveClient::request`].
#[derive(Debug, Clone)]
pub struct RemoteNode {
    client: NerveClient,
    node_id: String,
    session_id: Option<String>,
}

impl RemoteNode {
    pub(crate) fn new(client: NerveClient, node_id: String, session_id: Option<String>) -> RemoteNode {
        RemoteNode { client, node_id, session_id }
    }

    /// Returns the id of the node.
    pub fn id(&self) -> &str {
        &self.node_id
    }

    /// Returns the node's session; `None` for the default session.
    pub fn session(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the client of the node's server.
    pub fn client(&self) -> &NerveClient {
        &self.client
    }

    /// Returns the description of the node.
    pub async fn info(&self) -> Result<NodeInfo, ClientError> {
        self.client.node_info(&GetNode::new(&*self.node_id, self.session_id.clone())).await
    }

    /// Sends a prompt and waits for the finished turn. `input` is the text of the prompt, or an [`ExecuteInput`] with options, whose node
    /// and session are ignored.
    ///
    /// ```no_run
    /// # async fn example(node: nerve_client::RemoteNode) -> Result<(), nerve_client::ClientError> {
    /// use std::time::Duration;
    /// use nerve_api::request::ExecuteInput;
    ///
    /// node.execute("Run the tests").await?;
    /// let timeout = Some(Duration::from_secs(300).into());
    /// node.execute(ExecuteInput { timeout, ..ExecuteInput::from("Fix the failing test") }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Any [`ClientError`]; typical server errors are `timeout`, `blocked`, `busy` and `delivery_error`.
    pub async fn execute(&self, input: impl Into<ExecuteInput>) -> Result<Turn, ClientError> {
        self.client.request_as(&self.address(input.into())).await
    }

    /// Sends a prompt like [`RemoteNode::execute`] and streams its answer, then the finished turn.
    ///
    /// # Errors
    /// Any [`ClientError`]; errors of the turn are items of the stream.
    pub async fn execute_stream(&self, input: impl Into<ExecuteInput>) -> Result<ExecuteStream, ClientError> {
        self.client.stream(ExecuteInput { stream: true, ..self.address(input.into()) }).await
    }

    /// Sends a prompt like [`RemoteNode::execute`] and returns at once, with an id for [`NerveClient::wait_for_result`].
    ///
    /// # Errors
    /// Any [`ClientError`]; errors of the turn are in its result.
    pub async fn execute_async(&self, input: impl Into<ExecuteInput>) -> Result<String, ClientError> {
        let input = ExecuteInput { is_async: true, ..self.address(input.into()) };
        Ok(self.client.request_as::<_, TurnAccepted>(&input).await?.result_id)
    }

    /// Writes raw data and returns the number of bytes written.
    pub async fn write(&self, data: &str) -> Result<u64, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = WriteData { node_id, session_id, data: data.to_string() };
        Ok(self.client.request(&params).await?.written)
    }

    /// Types a command and does not wait for its end.
    pub async fn run(&self, command: &str) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        let params = RunCommand {
            node_id,
            session_id,
            command: command.to_string(),
            traceparent: None,
            tracestate: None,
        };
        self.client.request(&params).await.map(drop)
    }

    /// Returns the last `lines` lines of text, or all.
    pub async fn read(&self, lines: Option<usize>) -> Result<String, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = GetBuffer { node_id, session_id, lines };
        Ok(self.client.request(&params).await?.buffer)
    }

    /// Returns the last 50 lines of text.
    pub async fn read_tail(&self) -> Result<String, ClientError> {
        self.read(Some(TAIL_LINES)).await
    }

    /// Clears the text buffer. The screen stays.
    pub async fn clear_buffer(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&ClearBuffer::new(node_id, session_id)).await.map(drop)
    }

    /// Interrupts the current work of the node.
    pub async fn interrupt(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&SendInterrupt::new(node_id, session_id)).await.map(drop)
    }

    /// Resizes the terminal.
    pub async fn resize(&self, cols: u16, rows: u16) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        let params = ResizeNode { node_id, session_id, cols, rows };
        self.client.request(&params).await.map(drop)
    }

    /// Opens a pane that shows the terminal, or focuses the one that does. Returns the pane's id. Node and session of `options` are
    /// ignored.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn show(&self, options: &ShowNode) -> Result<String, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = ShowNode { node_id, session_id, ..options.clone() };
        Ok(self.client.request(&params).await?.pane_id)
    }

    /// Waits until the node is in one of the states `until`, and returns that state.
    ///
    /// # Errors
    /// Any [`ClientError`]; a [`crate::ServerError`] of type `timeout` if no such state is reached in time.
    pub async fn wait(
        &self,
        until: &[NodeState],
        timeout: Option<Duration>,
    ) -> Result<NodeState, ClientError> {
        let (node_id, session_id) = self.ids();
        let until = States(until.to_vec());
        let params = WaitNode { node_id, session_id, until, timeout: timeout.map(Seconds::from) };
        Ok(self.client.request(&params).await?.state)
    }

    /// Returns entries of the node's audit log. Node and session of `filter` are ignored.
    pub async fn history(&self, filter: &GetHistory) -> Result<NodeHistory, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = GetHistory { node_id, session_id, ..filter.clone() };
        self.client.request(&params).await
    }

    /// Returns the node's prompts and answers: all, or one turn, from 1.
    pub async fn transcript(&self, turn: Option<u64>) -> Result<Transcript, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = GetTranscript { node_id: Some(node_id), session_id, turn, ..GetTranscript::default() };
        self.client.request(&params).await
    }

    /// Explains the state of the node.
    pub async fn explain(&self) -> Result<NodeExplanation, ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&ExplainNode::new(node_id, session_id)).await
    }

    /// Answers the current dialog.
    pub async fn answer(&self, choice: NodeChoice) -> Result<(), ClientError> {
        self.answer_with(Some(choice)).await
    }

    /// Answers the current dialog and waits for the end of the interrupted turn. Returns that turn, if there was one.
    ///
    /// # Errors
    /// Any [`ClientError`]; typical server errors are `timeout` and `blocked`.
    pub async fn answer_and_wait(
        &self,
        choice: NodeChoice,
        timeout: Option<Duration>,
    ) -> Result<Option<Turn>, ClientError> {
        let (node_id, session_id) = self.ids();
        let (choice, timeout) = (Some(choice), timeout.map(Seconds::from));
        let params = AnswerNode { node_id, session_id, choice, wait: true, timeout, ..AnswerNode::default() };
        match self.client.request(&params).await? {
            AnswerReply::Turn(turn) => Ok(Some(*turn)),
            AnswerReply::Done(_) => Ok(None),
        }
    }

    /// Closes the current dialog without an answer.
    pub async fn cancel_dialog(&self) -> Result<(), ClientError> {
        self.answer_with(None).await
    }

    /// Creates a node `target` that continues from the state of this one.
    ///
    /// # Errors
    /// Any [`ClientError`]; `invalid_request_error` if the node cannot be forked, `busy` if it is not ready.
    pub async fn fork(&self, target: &str) -> Result<RemoteNode, ClientError> {
        self.fork_with(target, None).await
    }

    /// Creates a node `target` that continues from the state after a turn, counted from 1.
    ///
    /// # Errors
    /// See [`RemoteNode::fork`].
    pub async fn fork_at(&self, target: &str, turn: u64) -> Result<RemoteNode, ClientError> {
        self.fork_with(target, Some(turn)).await
    }

    /// Starts the node again if it is stopped. An agent resumes its conversation.
    pub async fn start(&self) -> Result<(), ClientError> {
        self.start_with(false).await
    }

    /// Starts the node again if it is stopped, with a new conversation.
    pub async fn start_fresh(&self) -> Result<(), ClientError> {
        self.start_with(true).await
    }

    /// Stops the node. It can be started again.
    pub async fn stop(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&StopNode::new(node_id, session_id)).await.map(drop)
    }

    /// Removes the stopped node, so that it cannot be started again.
    pub async fn remove(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&RemoveNode::new(node_id, session_id)).await.map(drop)
    }

    async fn start_with(&self, fresh: bool) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&StartNode { fresh, ..StartNode::new(node_id, session_id) }).await.map(drop)
    }

    async fn answer_with(&self, choice: Option<NodeChoice>) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        let cancel = choice.is_none();
        let params = AnswerNode { node_id, session_id, choice, cancel, ..AnswerNode::default() };
        self.client.request(&params).await.map(drop)
    }

    async fn fork_with(&self, target: &str, at: Option<u64>) -> Result<RemoteNode, ClientError> {
        let (source_id, session_id) = self.ids();
        let params =
            ForkNode { source_id, target_id: target.to_string(), at, session_id: session_id.clone() };
        let forked = self.client.request(&params).await?;
        Ok(RemoteNode::new(self.client.clone(), forked.node_id, session_id))
    }

    /// Returns the ids of node and session for a request.
    fn ids(&self) -> (String, Option<String>) {
        (self.node_id.clone(), self.session_id.clone())
    }

    /// Addresses a prompt to this node.
    fn address(&self, input: ExecuteInput) -> ExecuteInput {
        let (node_id, session_id) = self.ids();
        ExecuteInput { node_id, session_id, is_async: false, ..input }
    }
}

impl NerveClient {
    /// Creates and starts a node.
    pub async fn create_node(&self, request: &CreateNode) -> Result<RemoteNode, ClientError> {
        let created = self.request(request).await?;
        Ok(RemoteNode::new(self.clone(), created.node_id, request.session_id.clone()))
    }

    /// Returns an existing node.
    ///
    /// # Errors
    /// See [`NerveClient::request`]; a [`crate::ServerError`] of type `not_found_error` if it does not exist.
    pub async fn get_node(&self, node_id: &str, session: Option<&str>) -> Result<RemoteNode, ClientError> {
        let node = self.node(node_id, session);
        node.info().await?;
        Ok(node)
    }

    /// Returns a node without checking that it exists.
    pub fn node(&self, node_id: &str, session: Option<&str>) -> RemoteNode {
        RemoteNode::new(self.clone(), node_id.to_string(), session.map(str::to_string))
    }

    /// Starts a stopped node again. An agent resumes its conversation.
    pub async fn start_node(&self, node_id: &str, session: Option<&str>) -> Result<RemoteNode, ClientError> {
        let node = self.node(node_id, session);
        node.start().await?;
        Ok(node)
    }

    /// Returns the description of a node.
    pub async fn node_info(&self, node: &GetNode) -> Result<NodeInfo, ClientError> {
        self.request(node).await
    }

    /// Lists the nodes of all sessions.
    ///
    /// # Errors
    /// The connection fails. A session that is deleted meanwhile is left out.
    pub async fn list_all_nodes(&self) -> Result<Vec<NodeInfo>, ClientError> {
        let mut nodes = Vec::new();
        for session in self.sessions().await? {
            match self.list_nodes(Some(&session.name)).await {
                Ok(list) => nodes.extend(list),
                Err(ClientError::Server(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(nodes)
    }

    /// Lists the nodes of a session.
    pub async fn list_nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, ClientError> {
        Ok(self
            .request(&ListNodes { session_id: session.map(str::to_string), ..ListNodes::default() })
            .await?
            .nodes_info)
    }

    /// Lists the stopped nodes of a session, which can be started again.
    pub async fn list_stopped_nodes(&self, session: Option<&str>) -> Result<Vec<NodeInfo>, ClientError> {
        let session_id = session.map(str::to_string);
        Ok(self.request(&ListNodes { session_id, ..ListNodes::default() }).await?.stopped)
    }

    /// Removes the stopped nodes of a session, except those that could be restored. Returns their ids.
    pub async fn prune_nodes(&self, session: Option<&str>) -> Result<Vec<String>, ClientError> {
        let request = PruneNodes { session_id: session.map(str::to_string), ..PruneNodes::default() };
        Ok(self.request(&request).await?.removed)
    }

    /// Starts the nodes of all sessions that ran when the server or the machine went down.
    pub async fn restore_nodes(&self) -> Result<Vec<RestoredNode>, ClientError> {
        Ok(self.request(&RestoreNodes {}).await?.nodes)
    }
}
