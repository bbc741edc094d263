//! Requests to the terminals of nodes: type, write, read, resize, interrupt, wait, explain, answer a dialog.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{
    AnswerReply, CommandTyped, Done, Interrupted, NodeExplanation, NodeShown, NodeText, ReachedState, Turn,
    Written,
};
use nerve_api::request::{
    AnswerNode, ClearBuffer, ExplainNode, GetBuffer, NodeRef, ResizeNode, RunCommand, Seconds, SendInterrupt,
    ShowNode, WaitNode, WriteData,
};
use nerve_api::value::NodeState;
use nerve_graph::executable::Executable;
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::cancellation::wait_timeout_error;
use nerve_node::dialog_answer::DialogAnswer;
use nerve_node::error::EngineError;
use nerve_node::telemetry::{begin_run_command, end_with};
use nerve_node::terminal::{OutputPosition, OutputStart, OutputSubscription};
use nerve_node::{NodeHandle, PanePlace};
use tokio::time::{Instant, sleep_until};

use super::context::RequestContext;
use super::params;
use super::turns::take_warnings;
use crate::engine::Engine;

impl Engine {
    /// Types a command and does not wait for its end.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal), NodeStopped, Blocked.
    pub async fn run_command(
        &self,
        request: RunCommand,
        context: RequestContext,
    ) -> Result<CommandTyped, EngineError> {
        let trace = context.trace(request.traceparent.as_deref(), request.tracestate.as_deref());
        let node = NodeRef::new(request.node_id, request.session_id);
        let span = begin_run_command(trace.map(Arc::new).as_ref(), &node);
        let typed = match self.node(&node) {
            Ok(node) => node.run_command(request.command).await,
            Err(error) => Err(error),
        };
        end_with(span, &typed);
        typed.map(|()| CommandTyped { executed: true })
    }

    /// Interrupts the current work of a node in the way its profile prescribes. Returns when the node is not busy any more.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (a graph), NodeStopped, Timeout (the program ignores the interrupt).
    pub async fn send_interrupt(
        &self,
        request: SendInterrupt,
        _: RequestContext,
    ) -> Result<Interrupted, EngineError> {
        let at = NodeRef::new(request.node_id, request.session_id);
        match self.executable(&at)? {
            Executable::Graph(_) => {
                let message = format!("'{}' is a graph: its runs are cancelled, not interrupted", at.node);
                Err(EngineError::invalid_request(message).hint("`graph cancel` does that"))
            }
            executable => {
                if let Some(node) = executable.node() {
                    node.interrupt().await?;
                }
                Ok(Interrupted { interrupted: true })
            }
        }
    }

    /// Writes data to a terminal as it is.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal), NodeStopped.
    pub async fn write_data(&self, request: WriteData, _: RequestContext) -> Result<Written, EngineError> {
        let node = NodeRef::new(request.node_id, request.session_id);
        let written = self.write_bytes(&node, request.data.into_bytes()).await?;
        Ok(Written { written: written as u64 })
    }

    /// Writes bytes, which need not be UTF-8, to a terminal. Returns how many were written.
    ///
    /// # Errors
    /// See [`Engine::write_data`].
    pub async fn write_bytes(&self, node: &NodeRef, bytes: Vec<u8>) -> Result<usize, EngineError> {
        self.node(node)?.write(bytes).await
    }

    /// Types keys as a person at the terminal.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal), NodeStopped, Busy.
    pub async fn type_keys(&self, node: &NodeRef, keys: Vec<u8>) -> Result<(), EngineError> {
        self.node(node)?.type_keys(keys).await
    }

    /// Subscribes to the output of a terminal, from a position on if its output is still kept.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal), NodeStopped.
    pub async fn watch_output(
        &self,
        node: &NodeRef,
        since: Option<OutputPosition>,
    ) -> Result<(OutputStart, OutputSubscription), EngineError> {
        self.node(node)?.watch_output(since).await
    }

    /// Resizes a terminal.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal, impossible size), NodeStopped.
    pub async fn resize_node(&self, request: ResizeNode, _: RequestContext) -> Result<Done, EngineError> {
        let size = params::parse_size(request.cols, request.rows)?;
        self.node(&NodeRef::new(request.node_id, request.session_id))?.resize(size).await?;
        Ok(Done {})
    }

    /// Opens a pane that shows a terminal, or focuses the one that does.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal, or one in this process), Process: the multiplexer failed.
    pub async fn show_node(&self, request: ShowNode, _: RequestContext) -> Result<NodeShown, EngineError> {
        let place = PanePlace { split: request.split, session: request.tmux_session, socket: request.socket };
        let at = NodeRef::new(request.node_id, request.session_id);
        let pane_id = self.node(&at)?.show(request.multiplexer, place).await?;
        Ok(NodeShown { node_id: at.node, pane_id })
    }

    /// Returns the text of a node: all of it, or the last lines, scrollback included.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no text).
    pub async fn get_buffer(&self, request: GetBuffer, _: RequestContext) -> Result<NodeText, EngineError> {
        let at = NodeRef::new(request.node_id, request.session_id);
        Ok(NodeText { buffer: self.node(&at)?.read(request.lines).await? })
    }

    /// Clears the text of a node. The screen stays.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no text).
    pub async fn clear_buffer(&self, request: ClearBuffer, _: RequestContext) -> Result<Done, EngineError> {
        let at = NodeRef::new(request.node_id, request.session_id);
        if self.node(&at)?.reset().await? {
            self.inner.programs.forget(at);
        }
        Ok(Done {})
    }

    /// Explains the state of a node: the evidence, the screen and the choices of a dialog.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no terminal).
    pub async fn explain_node(
        &self,
        request: ExplainNode,
        _: RequestContext,
    ) -> Result<NodeExplanation, EngineError> {
        let at = NodeRef::new(request.node_id, request.session_id);
        let mut explanation = self.node(&at)?.explain().await?;
        explanation.state = self.state_with_executions(&at, explanation.state);
        Ok(explanation)
    }

    /// Waits until a node is in one of the states. Returns at once if it is.
    ///
    /// # Errors
    /// NotFound, Timeout, NodeStopped.
    pub async fn wait_node(&self, request: WaitNode, _: RequestContext) -> Result<ReachedState, EngineError> {
        let until = request.until.0;
        let timeout = request.timeout.map(Seconds::duration);
        let at = NodeRef::new(request.node_id, request.session_id);
        let state = match self.executable(&at)? {
            Executable::Node(node) => self.wait_for_state(&at, &node, &until, timeout).await?,
            other => other.info().state,
        };
        Ok(ReachedState { state })
    }

    /// Waits for a state. A node is not ready before its asynchronous executions have ended.
    async fn wait_for_state(
        &self,
        at: &NodeRef,
        node: &NodeHandle,
        until: &[NodeState],
        timeout: Option<Duration>,
    ) -> Result<NodeState, EngineError> {
        let deadline = Instant::now() + timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
        loop {
            let state =
                node.wait(until, timeout.map(|_| deadline.saturating_duration_since(Instant::now()))).await?;
            let pending = self.inner.results.pending(at).filter(|_| state == NodeState::Ready);
            let Some(pending) = pending else { return Ok(state) };
            if until.contains(&NodeState::Busy) {
                return Ok(NodeState::Busy);
            }
            let mut record = pending.record.subscribe();
            let ended = async { record.wait_for(|record| record.status.is_end()).await.is_ok() };
            let others: Vec<NodeState> =
                until.iter().copied().filter(|state| *state != NodeState::Ready).collect();
            tokio::select! {
                _ = ended => {}
                state = node.wait(&others, None) => return state,
                () = sleep_until(deadline) => {
                    let limit = timeout.unwrap_or(MAX_TIMEOUT);
                    let why = "an asynchronous execution has not ended".to_string();
                    return Err(wait_timeout_error(&at.node, NodeState::Busy, until, limit, why));
                }
            }
        }
    }

    /// Answers the dialog of a blocked node. With `wait`, returns the turn that the dialog had interrupted, if there is one.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (no dialog, no such choice), Timeout, Blocked (another dialog).
    pub async fn answer_node(
        &self,
        request: AnswerNode,
        context: RequestContext,
    ) -> Result<AnswerReply, EngineError> {
        let choice = params::parse_choice(request.choice, request.cancel)?;
        let timeout = request.timeout.map(Seconds::duration);
        let node = self.node(&NodeRef::new(request.node_id, request.session_id))?;
        let (dialog_id, wait, origin) = (request.dialog_id, request.wait, context.origin);
        let answer = DialogAnswer { choice, dialog_id, wait, timeout, origin };
        Ok(match node.answer(answer).await? {
            Some(mut response) => {
                take_warnings(&mut response, &context.warnings);
                AnswerReply::Turn(Box::new(Turn::from(response)))
            }
            None => AnswerReply::Done(Done {}),
        })
    }
}
