//! A turn: its place in the queue, its cancellation, its end and its entry in the log.

use std::pin::pin;
use std::time::Duration;

use nerve_acp_protocol::rpc_error::{AUTH_REQUIRED, RpcError};
use nerve_acp_protocol::types::{PromptResponse, StopReason};
use nerve_api::event::EventKind;
use nerve_api::reply::{ModelTokens, Section};
use nerve_api::value::{Delivery, SectionKind};
use nerve_host::clock::MAX_TIMEOUT;
use nerve_node::cancellation::cancelled_error;
use nerve_node::context::TurnContext;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::response::Response;
use nerve_node::telemetry::TurnAttributes;
use nerve_node::terminal::{DialogPolicy, Prompt, check_prompt};
use nerve_node::turn_state::OpenDialog;
use nerve_record::history::{LoggedUsage, ResponseData};
use nerve_types::TimeSpan;
use nerve_types::token_usage::TokenUsage;
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::handshake::describe;
use crate::link::{CallError, TurnStream};
use crate::node::AcpNode;
use crate::response::{build_response, partial_text};

/// Time that an agent has to end a cancelled turn. The node then ends the agent, because a late turn would mix with the next prompt.
pub(crate) const CANCEL_TIME: Duration = Duration::from_secs(8);
/// Time that an agent has to end its turn if the node is stopping.
const STOP_TIME: Duration = Duration::from_secs(2);

/// The result of a turn; `None` while it runs.
pub(crate) type TurnResult = Option<Result<Response, EngineError>>;

/// The end of a turn: its response, and true if an interrupt or a stop of the node cut it short.
type TurnEnd = Result<(PromptResponse, bool), EngineError>;

impl AcpNode {
    /// Runs a turn. A turn that has started continues if the caller drops the future; a queued prompt is then never sent.
    ///
    /// # Errors
    /// InvalidRequest, Busy, Blocked (with the choices; the turn continues), Timeout, Cancelled, NodeStopped, Budget, Process (the agent
    /// ended), Api, Authentication.
    pub(crate) async fn run(&self, prompt: Prompt, context: &TurnContext) -> Result<Response, EngineError> {
        let inner = &self.inner;
        let node = &inner.state.node;
        let target = || TurnAttributes { kind: "acp", is_agent: true, ..TurnAttributes::default() };
        let span = context.telemetry().begin_turn(context.trace_context(), node, &prompt.text, target);
        let result = self.run_queued(prompt, context).await;
        span.end(&result, || Some(inner.link.session_id()));
        result
    }

    async fn run_queued(&self, prompt: Prompt, context: &TurnContext) -> Result<Response, EngineError> {
        let state = &self.inner.state;
        check_prompt(&prompt.text).map_err(|error| self.with_node_name(error))?;
        let limit = prompt.timeout.unwrap_or(self.inner.timeout).min(MAX_TIMEOUT);
        let (policy, has_own_timeout) = (prompt.at_dialog, prompt.timeout.is_some());
        let (cancellation, deadline) = (context.cancellation(), Instant::now() + limit);
        let slot = tokio::select! {
            slot = self.inner.turn.enter(state, &prompt, cancellation, deadline) => slot?,
            // A turn that has started returns at a dialog unless the policy is `Wait`; a queued one only with `Fail`.
            dialog = state.dialog_opened(), if policy == DialogPolicy::Fail => {
                return Err(self.blocked_error(&dialog, Delivery::Unsent));
            }
        };
        let deadline = state.await_budget(policy, cancellation, deadline, has_own_timeout).await?;
        // The caller stops waiting at `detach_at`. The turn itself may run until `deadline`.
        let (detach_at, deadline) = match prompt.detach_on_timeout {
            true => (Some(deadline), deadline.max(Instant::now() + self.inner.timeout.min(MAX_TIMEOUT))),
            false => (None, deadline),
        };
        let (sender, receiver) = watch::channel(None);
        *self.inner.last_turn.lock() = Some(receiver.clone());
        let (node, context) = (self.clone(), context.clone());
        tokio::spawn(async move { node.run_turn(prompt, context, deadline, slot, sender).await });
        self.await_turn(receiver, policy, detach_at).await
    }

    /// Waits for the end of a turn; until `deadline`, if there is one. The turn continues after an error of the wait itself.
    ///
    /// # Errors
    /// Blocked: a dialog is open, unless the policy is to wait. Timeout. The errors of the turn.
    pub(crate) async fn await_turn(
        &self,
        mut receiver: watch::Receiver<TurnResult>,
        policy: DialogPolicy,
        deadline: Option<Instant>,
    ) -> Result<Response, EngineError> {
        let state = &self.inner.state;
        tokio::select! {
            biased;
            ended = receiver.wait_for(Option::is_some) => match ended.ok().and_then(|result| result.clone()) {
                Some(result) => result,
                None => Err(state.error(ErrorKind::Internal, "the turn was lost")),
            },
            dialog = state.dialog_opened(), if policy != DialogPolicy::Wait => {
                Err(self.blocked_error(&dialog, Delivery::Started))
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                let error = state.error(ErrorKind::Timeout, "no answer in time");
                Err(error.hint("the turn continues; its end is in the history"))
            }
        }
    }

    /// Runs a turn to its end and reports the result. The caller may already have stopped waiting for it.
    async fn run_turn(
        self,
        prompt: Prompt,
        context: TurnContext,
        deadline: Instant,
        slot: OwnedMutexGuard<()>,
        sender: watch::Sender<TurnResult>,
    ) {
        let result = self.work(&prompt, &context, deadline).await;
        sender.send_replace(Some(result));
        drop(slot);
    }

    async fn work(
        &self,
        prompt: &Prompt,
        context: &TurnContext,
        deadline: Instant,
    ) -> Result<Response, EngineError> {
        let (state, link, clock) = (&self.inner.state, &self.inner.link, &self.inner.clock);
        // Registered before the node becomes busy, so that a busy node can always be interrupted.
        let interrupted = pin!(state.interrupted());
        let running = state.begin_turn()?;
        let mut timer = state.events.begin_turn("acp");
        let (sink, has_events) = (context.chunks().cloned().filter(|_| prompt.stream), prompt.stream);
        link.begin_turn(TurnStream { number: running.number, tag: prompt.tag, has_events, sink });
        let started = clock.now();
        let end = {
            let _work = state.ledger.begin_work();
            self.converse(prompt, context, deadline, interrupted).await
        };
        let content = link.end_turn().await;
        let time = TimeSpan { start: started, end: clock.now() };
        let usage = end.as_ref().ok().and_then(|(end, _)| end.usage);
        let result = match end {
            Ok((end, is_interrupted)) => {
                Ok(build_response(self.id_text(), running.number, time, content, &end, is_interrupted))
            }
            Err(error) => Err(error.with_text(&partial_text(&content))),
        };
        let tokens = usage.map(TokenUsage::from);
        if let Some(tokens) = tokens {
            *self.inner.tokens.lock() += tokens;
            // The model is not known.
            state.ledger.add_response(&ModelTokens { model: None, tokens }, None);
        }
        let logged = tokens.map(|tokens| LoggedUsage {
            model: "acp".to_string(),
            input: tokens.whole_input(),
            output: tokens.output,
        });
        self.log(prompt, time, &result, logged);
        timer.end(&result);
        // This precedes the end of the turn, so that a node at its limit becomes blocked and not ready.
        state.refresh_limit();
        let number = running.number;
        drop(running);
        if let Ok(response) = &result {
            let (sections, is_complete) = (response.sections.len(), response.is_complete);
            state.publish(EventKind::OutputParsed { turn: number, sections, is_complete });
        }
        result
    }

    /// Sends the prompt and waits for the response. Cancels the turn if it is interrupted, cancelled, stopped or too long.
    async fn converse(
        &self,
        prompt: &Prompt,
        context: &TurnContext,
        deadline: Instant,
        interrupted: impl Future<Output = ()>,
    ) -> TurnEnd {
        let (state, link) = (&self.inner.state, &self.inner.link);
        let content = json!([{ "type": "text", "text": &*prompt.text }]);
        let params = json!({ "sessionId": link.session_id(), "prompt": content });
        let mut response = pin!(link.call("session/prompt", params));
        // An interrupt or a stop still returns the agent's response. Every other cause returns its own error.
        let (outcome, cancel_time) = tokio::select! {
            biased;
            response = &mut response => return self.conclude(response, link.is_cancelling()),
            () = context.cancellation().cancelled() => (Err(cancelled_error()), CANCEL_TIME),
            reached = state.ledger.limit_reached() => (Err(reached.error(&state.node)), CANCEL_TIME),
            () = interrupted => (Ok(()), CANCEL_TIME),
            () = state.stopping() => (Ok(()), STOP_TIME),
            () = sleep_until(deadline) => {
                let error = state.error(ErrorKind::Timeout, "the agent did not end the turn in time");
                (Err(error.hint("give the turn a longer timeout")), CANCEL_TIME)
            }
        };
        link.cancel_turn().await;
        let Ok(response) = timeout(cancel_time, response).await else {
            link.stop_token().cancel();
            let what =
                format!("the agent did not react to session/cancel within {cancel_time:?} and was ended");
            return Err(outcome.err().unwrap_or_else(|| state.error(ErrorKind::Interrupted, &what)));
        };
        outcome?;
        self.conclude(response, true)
    }

    /// Returns the end of a turn. `is_interrupted`: an interrupt or a stop of the node cut it short.
    fn conclude(&self, response: Result<Value, CallError>, is_interrupted: bool) -> TurnEnd {
        match response {
            // Some agents fail a prompt that is cancelled.
            Err(CallError::Rpc(_)) if is_interrupted => {
                Ok((PromptResponse { stop_reason: StopReason::Cancelled, usage: None }, true))
            }
            response => Ok((self.read_response(response)?, is_interrupted)),
        }
    }

    fn read_response(&self, response: Result<Value, CallError>) -> Result<PromptResponse, EngineError> {
        let state = &self.inner.state;
        let response = match response {
            Ok(response) => response,
            Err(CallError::Rpc(error)) => return Err(self.agent_error(&error)),
            Err(CallError::Ended(end)) => return Err(end.error(state, "the turn was cut short")),
        };
        serde_json::from_value(response).map_err(|problem| {
            state.error(ErrorKind::Process, &format!("invalid response to session/prompt: {problem}"))
        })
    }

    fn agent_error(&self, error: &RpcError) -> EngineError {
        let (kind, hint) = match error.code {
            AUTH_REQUIRED => (ErrorKind::Authentication, "log in with the agent itself, and try again"),
            _ => (ErrorKind::Api, "the agent reported this error"),
        };
        self.inner.state.error(kind, &describe(error)).hint(hint)
    }

    /// Creates the error of a wait that a dialog ends.
    fn blocked_error(&self, dialog: &OpenDialog, delivery: Delivery) -> EngineError {
        let at = &self.inner.state.node;
        let message = format!("node '{}' is blocked (permission): {}", at.node, dialog.question);
        let mut error = EngineError::new(ErrorKind::Blocked, message);
        error.choices = dialog.choices.clone().into();
        error.delivery = Some(delivery);
        error.screen = Some(self.inner.link.text());
        error.hint(format!("answer the dialog: `nerve answer {} NUMBER`", at.arguments()))
    }

    fn log(
        &self,
        prompt: &Prompt,
        time: TimeSpan,
        result: &Result<Response, EngineError>,
        usage: Option<LoggedUsage>,
    ) {
        let (text, data) = match result {
            Ok(response) => (
                response.text.clone(),
                ResponseData {
                    sections: response.sections.clone(),
                    tokens: response.tokens,
                    is_complete: response.is_complete,
                    is_ready: true,
                },
            ),
            Err(error) => {
                let text = error.text.as_deref().unwrap_or_default().to_string();
                let partial = Some(Section::new(SectionKind::Text, text.clone()));
                let problem = Section::new(SectionKind::Error, error.message.clone());
                let sections = partial.into_iter().filter(|_| !text.is_empty()).chain([problem]).collect();
                (text, ResponseData { sections, tokens: None, is_complete: false, is_ready: true })
            }
        };
        let streamed = (prompt.stream && result.is_ok()).then_some(text.as_str());
        self.inner.audit_log.lock().log_answer(&prompt.text, time, data, usage, streamed);
        self.add_text(&prompt.text, &text);
    }

    fn with_node_name(&self, error: EngineError) -> EngineError {
        error.in_context(format_args!("node '{}'", self.id_text()))
    }

    fn id_text(&self) -> &str {
        &self.inner.state.node.node
    }
}
