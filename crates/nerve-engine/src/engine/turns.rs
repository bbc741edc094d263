//! EXECUTE_INPUT: turns on nodes.

use std::sync::Arc;

use nerve_api::reply::{ExecuteReply, Turn, TurnAccepted};
use nerve_api::request::{ExecuteInput, Seconds};

use super::context::{RequestContext, Warnings};
use super::{Engine, specs};
use crate::conversation::Conversation;
use nerve_graph::executable::Executable;
use nerve_node::cancellation::CancellationToken;
use nerve_node::command::{NodeRef, Response};
use nerve_node::error::EngineError;
use nerve_node::takes_no_prompts;
use nerve_node::telemetry::TraceContext;
use nerve_node::terminal::Prompt;

/// A prompt for a node.
#[derive(Debug)]
pub(super) struct NodePrompt {
    pub(super) at: NodeRef,
    pub(super) prompt: Prompt,
    pub(super) conversation: Option<Conversation>,
    /// The caller's span.
    pub(super) trace: Option<TraceContext>,
}

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
        let is_async = request.is_async;
        let webhook = specs::webhook(is_async, request.webhook.take())?;
        if is_async {
            let prompt = NodePrompt::new(request, &context)?;
            let (result_id, node_id) = self.execute_in_background(prompt, webhook).await?;
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
        self.turn(NodePrompt::new(request, &context)?, None).await
    }

    /// Runs a turn, together with the conversation it belongs to.
    pub(super) async fn turn(
        &self,
        mut request: NodePrompt,
        cancellation: Option<&CancellationToken>,
    ) -> Result<Response, EngineError> {
        let node = match self.executable(&request.at)? {
            Executable::Node(node) => node,
            other => return Err(takes_no_prompts(&request.at.node, other.kind())),
        };
        let conversation = self.begin_conversation_turn(&node, &mut request).await?;
        let NodePrompt { at, prompt, trace, .. } = request;
        let mut context = self
            .inner
            .sessions
            .get(at.session.as_deref())?
            .turn_context()
            .with_telemetry(self.inner.telemetry, trace.map(Arc::new));
        if let Some(cancellation) = cancellation {
            context = context.with_cancellation(cancellation.clone());
        }
        let mut response = node.turn(prompt, context).await?;
        if let Some(turn) = conversation {
            self.end_conversation_turn(turn, &node, &mut response).await;
        }
        Ok(response)
    }
}

impl NodePrompt {
    /// Reads a request.
    ///
    /// # Errors
    /// InvalidRequest: invalid conversation.
    pub(super) fn new(request: ExecuteInput, context: &RequestContext) -> Result<NodePrompt, EngineError> {
        let prompt = Prompt {
            parser: request.parser,
            text: request.text,
            stream: request.stream,
            tag: context.tag,
            timeout: request.timeout.map(Seconds::duration),
            fail_if_busy: request.fail_if_busy,
            detach_on_timeout: request.detach_on_timeout,
            trace: None,
        };
        let conversation = request.conversation.map(specs::conversation).transpose()?;
        let trace = context.trace(request.traceparent.as_deref(), request.tracestate.as_deref());
        Ok(NodePrompt {
            at: specs::node_ref(request.node_id, request.session_id),
            prompt,
            conversation,
            trace,
        })
    }
}

/// Moves the warnings of a turn to those of its request.
pub(super) fn take_warnings(response: &mut Response, warnings: &Warnings) {
    let of_turn = response.attributes.remove(Response::WARNINGS).unwrap_or_default();
    of_turn.lines().for_each(|warning| warnings.add(warning.to_string()));
}
