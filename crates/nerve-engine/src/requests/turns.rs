//! EXECUTE_INPUT: turns on nodes.

use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::{ExecuteReply, Turn, TurnAccepted};
use nerve_api::request::{ExecuteInput, NodeRef, Seconds};
use nerve_api::value::{Delivery, NodeState};
use nerve_graph::executable::Executable;
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::no_prompts_error;
use nerve_node::response::Response;
use nerve_node::terminal::{DialogPolicy, Prompt, check_prompt};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};

use super::caller::Caller;
use super::context::{RequestContext, Warnings};
use super::params;
use super::results::{busy_error, queue_timeout_error};
use crate::engine::Engine;

impl Engine {
    /// Runs one turn on a node, or accepts it if the request is asynchronous.
    ///
    /// Dropping the future detaches from the turn and does not undo typed input.
    ///
    /// # Errors
    /// NotFound, InvalidRequest, Busy, Blocked (with the dialog), Delivery (the prompt did not arrive), Timeout, Interrupted.
    pub async fn execute_input(
        &self,
        mut request: ExecuteInput,
        context: RequestContext,
    ) -> Result<ExecuteReply, EngineError> {
        check_prompt(&request.text)?;
        let is_async = request.is_async;
        let webhook = params::parse_webhook(is_async, request.webhook.take())?;
        if is_async {
            let caller = Caller::new(&request, &context);
            let (result_id, node_id) = self.execute_in_background(request, caller, webhook).await?;
            return Ok(ExecuteReply::Accepted(TurnAccepted { result_id, node_id }));
        }
        let warnings = context.warnings.clone();
        let mut response = self.run_turn(request, context).await?;
        take_warnings(&mut response, &warnings);
        Ok(ExecuteReply::Turn(Box::new(Turn::from(response))))
    }

    /// Runs one turn on a node. In addition to the reply of [`Engine::execute_input`], the response has the turn's byte range, its times
    /// and the evidence that ended it.
    ///
    /// # Errors
    /// See [`Engine::execute_input`].
    pub async fn run_turn(
        &self,
        request: ExecuteInput,
        context: RequestContext,
    ) -> Result<Response, EngineError> {
        check_prompt(&request.text)?;
        let caller = Caller::new(&request, &context);
        let mut request = request;
        let _turn_guard = self.await_earlier_turns(&mut request).await?;
        self.turn(request, caller).await
    }

    /// Waits until the asynchronous turns that the node accepted earlier have ended, so that prompts run in the order of their
    /// arrival. A node with a dialog rejects a prompt that does not wait for it.
    async fn await_earlier_turns(
        &self,
        request: &mut ExecuteInput,
    ) -> Result<Option<OwnedMutexGuard<()>>, EngineError> {
        let results = &self.inner.results;
        let at = NodeRef::new(&request.node_id, request.session_id.clone()).without_default_session();
        let Some(lock) = results.held_node_lock(&at) else { return Ok(None) };
        if request.fail_if_busy {
            return lock.try_lock_owned().map(Some).map_err(|_| busy_error(&at));
        }
        let limit = match request.timeout {
            Some(limit) => limit.duration(),
            None => self.response_timeout(&at)?,
        };
        let deadline = Instant::now() + limit.min(MAX_TIMEOUT);
        let _waiter = results.begin_wait(&at).ok_or_else(|| full_queue_error(&at))?;
        self.inner.events.publish(Some(&at), EventKind::NodeQueueChanged {});
        let blocked = async {
            match request.fail_if_blocked {
                true => self.wait_for_block(&at).await,
                false => std::future::pending().await,
            }
        };
        let guard = tokio::select! {
            biased;
            guard = timeout_at(deadline, lock.lock_owned()) => Some(guard.map_err(|_| queue_timeout_error(&at))?),
            () = blocked => None,
            () = results.closing.cancelled() => return Err(shut_down_error(&at)),
        };
        self.inner.events.publish(Some(&at), EventKind::NodeQueueChanged {});
        if request.timeout.is_some() {
            request.timeout = Some(deadline.saturating_duration_since(Instant::now()).into());
        }
        Ok(guard)
    }

    fn response_timeout(&self, at: &NodeRef) -> Result<Duration, EngineError> {
        let spec = self.inner.sessions.get(at.session.as_deref())?.definition(&at.node);
        Ok(spec.map_or(MAX_TIMEOUT, |spec| spec.response_timeout.duration()))
    }

    /// Waits until a dialog blocks the node. Never returns if the node is gone.
    async fn wait_for_block(&self, at: &NodeRef) {
        if let Ok(node) = self.node(at)
            && node.wait(&[NodeState::Blocked, NodeState::Suspended], None).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Runs a turn, together with the conversation it belongs to.
    pub(super) async fn turn(&self, request: ExecuteInput, caller: Caller) -> Result<Response, EngineError> {
        let conversation = request.conversation.map(params::parse_conversation).transpose()?;
        let at = NodeRef::new(request.node_id, request.session_id);
        let node = match self.executable(&at)? {
            Executable::Node(node) => node,
            other => return Err(no_prompts_error(&at.node, other.kind())),
        };
        let mut text = request.text;
        let conversation = self.begin_conversation_turn(&node, &at, conversation, &mut text).await?;
        let prompt = Prompt {
            parser: request.parser,
            text: text.into(),
            stream: request.stream,
            tag: caller.tag,
            timeout: request.timeout.map(Seconds::duration),
            fail_if_busy: request.fail_if_busy,
            at_dialog: match request.fail_if_blocked {
                true => DialogPolicy::Fail,
                false if request.is_async => DialogPolicy::Wait,
                false => DialogPolicy::Report,
            },
            detach_on_timeout: request.detach_on_timeout,
            trace: None,
            origin: caller.origin,
        };
        let mut context = self
            .inner
            .sessions
            .get(at.session.as_deref())?
            .turn_context()
            .with_telemetry(self.inner.telemetry, caller.trace)
            .with_canceller(caller.canceller);
        if let Some(cancellation) = caller.cancellation {
            context = context.with_cancellation(cancellation);
        }
        let mut response = node.turn(prompt, context).await?;
        if let Some(turn) = conversation {
            self.end_conversation_turn(turn, &node, &mut response).await;
        }
        Ok(response)
    }
}

/// Moves the warnings of a turn to those of its request.
pub(super) fn take_warnings(response: &mut Response, warnings: &Warnings) {
    std::mem::take(&mut response.warnings).into_iter().for_each(|warning| warnings.add(warning));
}

/// Returns the error of a prompt for which the queue has no place.
fn full_queue_error(at: &NodeRef) -> EngineError {
    EngineError::busy(format!("the queue of node '{}' is full", at.node)).hint("try again later")
}

/// Returns the error of a prompt that was waiting for another turn when the server was shut down.
fn shut_down_error(at: &NodeRef) -> EngineError {
    let message = format!("node '{}': the server was shut down before the prompt was sent", at.node);
    let error = EngineError::new(ErrorKind::Interrupted, message).hint("send it again");
    EngineError { delivery: Some(Delivery::Unsent), ..error }
}
