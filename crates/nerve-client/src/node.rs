//! A node on a server, seen from a client (seed node-refactoring §6.8).

use std::time::Duration;

use nerve_api::reply::{AnswerReply, NodeExplanation, NodeHistory, NodeInfo, Turn, TurnAccepted};
use nerve_api::request::{
    AnswerNode, ClearBuffer, ExecuteInput, ExplainNode, ForkNode, GetBuffer, GetHistory, GetNode, NodeChoice,
    ResizeNode, RunCommand, Seconds, SendInterrupt, StartNode, States, StopNode, WaitNode, WebhookTarget,
    WriteData,
};

use crate::client::NerveClient;
use crate::error::ClientError;
use crate::execute::{ExecuteOptions, ExecuteStream};

/// Lines of a node's text that are its tail.
const TAIL_LINES: usize = 50;

/// A node on a server. All methods fail as [`NerveClient::request`] does.
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

    /// Its id.
    pub fn id(&self) -> &str {
        &self.node_id
    }

    /// Its session; `None` is the server's default one.
    pub fn session(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// The client through which it is asked.
    pub fn client(&self) -> &NerveClient {
        &self.client
    }

    /// What is known of it.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn info(&self) -> Result<NodeInfo, ClientError> {
        self.client.node_info(&GetNode::new(&*self.node_id, self.session_id.clone())).await
    }

    /// Sends a prompt and waits for the finished turn.
    ///
    /// # Errors
    /// Any [`ClientError`]; of the server's, `timeout`, `blocked`, `busy` and `delivery_error` are to be expected.
    pub async fn execute(&self, text: &str, options: &ExecuteOptions) -> Result<Turn, ClientError> {
        self.client.request_as(&self.prompt(text, options, false)).await
    }

    /// Sends a prompt and gives its answer as it grows, then the finished turn.
    ///
    /// # Errors
    /// Any [`ClientError`]; those of the turn come from the stream.
    pub async fn execute_stream(
        &self,
        text: &str,
        options: &ExecuteOptions,
    ) -> Result<ExecuteStream, ClientError> {
        self.client.stream(&self.prompt(text, options, true), &self.node_id, self.session()).await
    }

    /// Sends a prompt and does not wait: [`NerveClient::wait_for_result`] does, with the id that comes back. `webhook`: who is told over
    /// HTTP.
    ///
    /// # Errors
    /// Any [`ClientError`]; those of the turn are in its result.
    pub async fn execute_async(
        &self,
        text: &str,
        options: &ExecuteOptions,
        webhook: Option<WebhookTarget>,
    ) -> Result<String, ClientError> {
        let request = ExecuteInput { is_async: true, webhook, ..self.prompt(text, options, false) };
        Ok(self.client.request_as::<_, TurnAccepted>(&request).await?.result_id)
    }

    /// Writes data as it is; gives the number of bytes written.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn write(&self, data: &str) -> Result<u64, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = WriteData { node_id, session_id, data: data.to_string() };
        Ok(self.client.request(&params).await?.written)
    }

    /// Types a command and does not wait for its end.
    ///
    /// # Errors
    /// Any [`ClientError`].
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

    /// The last `lines` lines of text, all if `None`.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn read(&self, lines: Option<usize>) -> Result<String, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = GetBuffer { node_id, session_id, lines };
        Ok(self.client.request(&params).await?.buffer)
    }

    /// The last 50 lines of text.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn read_tail(&self) -> Result<String, ClientError> {
        self.read(Some(TAIL_LINES)).await
    }

    /// Forgets the text so far; the screen stays.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn clear_buffer(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&ClearBuffer::new(node_id, session_id)).await.map(drop)
    }

    /// Interrupts what it does now.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn interrupt(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&SendInterrupt::new(node_id, session_id)).await.map(drop)
    }

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn resize(&self, cols: u16, rows: u16) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        let params = ResizeNode { node_id, session_id, cols, rows };
        self.client.request(&params).await.map(drop)
    }

    /// Waits until it is in one of the states `until`; gives which. Answers at once when it is already.
    ///
    /// # Errors
    /// Any [`ClientError`]; a [`crate::ServerError`] of type `timeout` when none came in time.
    pub async fn wait(&self, until: &[&str], timeout: Option<Duration>) -> Result<String, ClientError> {
        let (node_id, session_id) = self.ids();
        let until = States(until.iter().map(|state| state.to_string()).collect());
        let params = WaitNode { node_id, session_id, until, timeout: timeout.map(Seconds::from) };
        Ok(self.client.request(&params).await?.state)
    }

    /// Its audit log; node and session of `filter` are not looked at.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn history(&self, filter: &GetHistory) -> Result<NodeHistory, ClientError> {
        let (node_id, session_id) = self.ids();
        let params = GetHistory { node_id, session_id, ..filter.clone() };
        self.client.request(&params).await
    }

    /// Why it is in its state.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn why(&self) -> Result<NodeExplanation, ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&ExplainNode::new(node_id, session_id)).await
    }

    /// Answers the dialog it shows.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn answer(&self, choice: NodeChoice) -> Result<(), ClientError> {
        self.answer_with(Some(choice)).await
    }

    /// Answers the dialog it shows and waits for the end of the turn that the dialog interrupted; gives the turn, if there was one.
    ///
    /// # Errors
    /// Any [`ClientError`]; of the server's, `timeout` and `blocked` are to be expected.
    pub async fn answer_and_wait(
        &self,
        choice: NodeChoice,
        timeout: Option<Duration>,
    ) -> Result<Option<Turn>, ClientError> {
        let (node_id, session_id) = self.ids();
        let (choice, timeout) = (Some(choice), timeout.map(Seconds::from));
        let params = AnswerNode { node_id, session_id, choice, cancel: false, wait: true, timeout };
        match self.client.request(&params).await? {
            AnswerReply::Turn(turn) => Ok(Some(*turn)),
            AnswerReply::Done(_) => Ok(None),
        }
    }

    /// Leaves the dialog it shows without an answer.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn cancel_dialog(&self) -> Result<(), ClientError> {
        self.answer_with(None).await
    }

    /// Makes a node `target` that goes on from where this one is.
    ///
    /// # Errors
    /// Any [`ClientError`]; of the server's, `invalid_request_error` says why it cannot be forked, and `busy` that it is not ready.
    pub async fn fork(&self, target: &str) -> Result<RemoteNode, ClientError> {
        self.fork_with(target, None).await
    }

    /// The same from where it was after a turn, counted from 1.
    ///
    /// # Errors
    /// As [`RemoteNode::fork`].
    pub async fn fork_at(&self, target: &str, turn: u64) -> Result<RemoteNode, ClientError> {
        self.fork_with(target, Some(turn)).await
    }

    /// Starts it again when it is defined and does not run.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn start(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&StartNode::new(node_id, session_id)).await.map(drop)
    }

    /// Stops it.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn stop(&self) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        self.client.request(&StopNode::new(node_id, session_id)).await.map(drop)
    }

    async fn answer_with(&self, choice: Option<NodeChoice>) -> Result<(), ClientError> {
        let (node_id, session_id) = self.ids();
        let cancel = choice.is_none();
        let params = AnswerNode { node_id, session_id, choice, cancel, wait: false, timeout: None };
        self.client.request(&params).await.map(drop)
    }

    async fn fork_with(&self, target: &str, at: Option<u64>) -> Result<RemoteNode, ClientError> {
        let (source_id, session_id) = self.ids();
        let params =
            ForkNode { source_id, target_id: target.to_string(), at, session_id: session_id.clone() };
        let forked = self.client.request(&params).await?;
        Ok(RemoteNode::new(self.client.clone(), forked.node_id, session_id))
    }

    /// Returns the ids of node and session, as requests have them.
    fn ids(&self) -> (String, Option<String>) {
        (self.node_id.clone(), self.session_id.clone())
    }

    fn prompt(&self, text: &str, options: &ExecuteOptions, stream: bool) -> ExecuteInput {
        ExecuteInput {
            session_id: self.session_id.clone(),
            parser: options.parser.clone(),
            stream,
            timeout: options.timeout.map(Seconds::from),
            fail_if_busy: options.fail_if_busy,
            detach_on_timeout: options.detach_on_timeout,
            conversation: options.conversation.clone(),
            traceparent: options.traceparent.clone(),
            tracestate: options.tracestate.clone(),
            ..ExecuteInput::new(self.node_id.as_str(), text)
        }
    }
}
