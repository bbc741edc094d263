//! A turn of a chat node: its place in the queue, its cancellation, and its entries in the conversation and the log.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use nerve_agent::parse::{Section, SectionKind};
use nerve_api::event::EventKind;
use nerve_llm::answer::Usage;
use nerve_llm::message::Message;
use nerve_record::history::{LoggedUsage, ResponseData};
use nerve_types::TimeSpan;
use tokio::time::{Instant, sleep_until, timeout};

use super::node::{CANCEL_GRACE, ChatNode, run_blocking};
use super::response::{answer_text, response};
use super::turn::{Turn, TurnResult};
use super::{file, tools};
use crate::Node;
use crate::cancellation::cancelled_error;
use crate::context::{ChunkSink, TurnContext};
use crate::error::{EngineError, ErrorKind};
use crate::prompt::{Prompt, check_prompt};
use crate::response::Response;
use crate::telemetry::TurnAttributes;

impl ChatNode {
    /// Runs a turn within its span.
    pub(super) async fn run_turn(
        &self,
        prompt: &Prompt,
        context: &TurnContext,
        deadline: Instant,
    ) -> Result<Response, EngineError> {
        let (parent, node) = (context.trace_context(), &self.inner.state.node);
        let span = context.telemetry().begin_turn(parent, node, &prompt.text, || self.telemetry_target());
        let mut turn_context = context.clone();
        turn_context.span = span.context().cloned();
        let result = self.run_queued_turn(prompt, &turn_context, deadline).await;
        span.end(&result, || None);
        result
    }

    /// Waits for the turn's place in the queue and for the budget. Runs the turn and logs it.
    async fn run_queued_turn(
        &self,
        prompt: &Prompt,
        context: &TurnContext,
        deadline: Instant,
    ) -> Result<Response, EngineError> {
        let inner = &self.inner;
        check_prompt(&prompt.text).map_err(|error| self.with_node_name(error))?;
        let _turn = inner.turn.enter(&inner.state, prompt, context.cancellation(), deadline).await?;
        let (policy, has_limit) = (prompt.at_dialog, prompt.timeout.is_some());
        let budget = inner.state.await_budget(policy, context.cancellation(), deadline, has_limit).await;
        let deadline = match budget {
            Ok(deadline) => deadline,
            Err(error) => {
                let (now, refused) = (inner.clock.now(), Err(error));
                self.log(prompt, TimeSpan { start: now, end: now }, &refused, None, Usage::default());
                return refused;
            }
        };
        // Registered before the node becomes busy, so that a busy node can always be interrupted.
        let interrupted = pin!(inner.state.interrupted());
        let running = inner.state.begin_turn()?;
        let number = running.number;
        let mut timer = inner.setup.events.begin_turn("chat");
        let started = inner.clock.now();
        let mut usage = Usage::default();
        let outcome = self.converse(prompt, number, context, deadline, interrupted, &mut usage).await;
        let time = TimeSpan { start: started, end: inner.clock.now() };
        let model = outcome.as_ref().ok().and_then(|result| result.model.clone());
        let result = match outcome {
            Ok(mut result) => {
                // Commits the turn to the conversation.
                let problem = self.replace(std::mem::take(&mut result.messages)).await;
                let settings = &inner.setup.settings;
                let mut response = response(self.id(), settings, number, time, &mut result, usage);
                response.warnings.extend(problem);
                Ok(response)
            }
            Err(error) => Err(error),
        };
        self.log(prompt, time, &result, model, usage);
        timer.end(&result);
        // Before the end of the turn: a node at a limit is blocked then, not ready.
        inner.state.refresh_limit();
        drop(running);
        if let Ok(response) = &result {
            let (sections, is_complete) = (response.sections.len(), response.is_complete);
            let parsed = EventKind::OutputParsed { turn: number, sections, is_complete };
            inner.state.publish(parsed);
        }
        result
    }

    /// Describes the node for telemetry.
    fn telemetry_target(&self) -> TurnAttributes {
        let settings = self.settings();
        TurnAttributes {
            kind: "chat",
            is_agent: true,
            provider: Some(settings.provider.as_str().to_string()),
            profile: None,
            model: Some(settings.model.clone()),
        }
    }

    /// Runs the turn until it ends or is cancelled, interrupted, stopped or timed out. `spent`: its usage, however it ends.
    async fn converse(
        &self,
        prompt: &Prompt,
        number: u64,
        context: &TurnContext,
        deadline: Instant,
        interrupted: impl Future<Output = ()>,
        spent: &mut Usage,
    ) -> Result<TurnResult, EngineError> {
        let inner = &self.inner;
        let (settings, stop) = (&inner.setup.settings, context.cancellation().child_token());
        let turn_context = self.turn_context(prompt, number, context).with_cancellation(stop.clone());
        let tools = tools::find(settings, context).map_err(|error| self.with_node_name(error))?;
        let api = inner.setup.api().map_err(|error| self.with_node_name(error))?;
        let mut turn = Turn {
            settings,
            api: &api,
            tools: &tools,
            messages: self.messages(),
            context: &turn_context,
            deadline,
            clock: &inner.clock,
            ledger: &inner.setup.ledger,
            spent: Usage::default(),
            is_counted: false,
        };
        let ledger = &inner.setup.ledger;
        let result = {
            let _work = ledger.begin_work();
            let mut work = pin!(turn.run(&prompt.text));
            let early = tokio::select! {
                biased;
                result = &mut work => Ok(result),
                () = context.cancellation().cancelled() => Err(cancelled_error()),
                reached = ledger.limit_reached() => Err(reached.error(&inner.state.node)),
                () = interrupted => Err(self.error(ErrorKind::Interrupted, "the turn was interrupted")),
                () = inner.state.stopping() => {
                    Err(self.error(ErrorKind::Interrupted, "the node is being stopped"))
                }
                () = sleep_until(deadline) => {
                    let what = format!("{} timed out", api.host());
                    Err(self.error(ErrorKind::Timeout, &what).hint("give the turn a longer timeout"))
                }
            };
            match early {
                Ok(result) => result.map_err(|error| self.with_node_name(error)),
                Err(error) => {
                    stop.cancel();
                    // Wait for the tools to end; the result of the turn is dropped.
                    let _ = timeout(CANCEL_GRACE, work).await;
                    Err(error)
                }
            }
        };
        let is_counted = turn.is_counted;
        *spent = turn.spent;
        {
            let mut conversation = self.inner.conversation.lock();
            conversation.usage += *spent;
            conversation.requests += u64::from(api.sent());
        }
        // The usage of a failed turn is in no response, so it is counted here.
        result.inspect_err(|_| context.add_tokens(if is_counted { 0 } else { spent.total() }))
    }

    /// Returns the context of the turn. Chunks go to the caller's sink, and to events if the prompt asks for a stream.
    fn turn_context(&self, prompt: &Prompt, number: u64, context: &TurnContext) -> TurnContext {
        if !prompt.stream {
            return context.clone().without_chunks();
        }
        let tag = prompt.tag;
        let (outer, inner) = (context.chunks().cloned(), Arc::clone(&self.inner));
        let sink: ChunkSink = Arc::new(move |chunk: &str| {
            if let Some(outer) = &outer {
                outer(chunk);
            }
            let event =
                EventKind::OutputChunk { turn: number, chunk: chunk.to_string(), request_id: None, tag };
            inner.state.publish(event);
        });
        context.clone().with_chunks(sink)
    }

    /// Replaces the conversation. If its file cannot be written, returns why; the conversation is replaced all the same.
    pub(super) async fn replace(&self, messages: Vec<Message>) -> Option<String> {
        let inner = &self.inner;
        let stored = inner.setup.store_path().map(|path| (path, messages.clone()));
        self.inner.conversation.lock().messages = messages;
        if let Some((path, messages)) = stored
            && let Err(error) = run_blocking(move || file::save(&path, &messages)).await
        {
            tracing::warn!(node = self.id(), %error, "the conversation was not saved");
            let message = error.to_string();
            inner.state.publish(EventKind::machine_failure(message.clone()));
            return Some(message);
        }
        None
    }

    fn log(
        &self,
        prompt: &Prompt,
        time: TimeSpan,
        result: &Result<Response, EngineError>,
        model: Option<String>,
        usage: Usage,
    ) {
        let response = match result {
            Ok(response) => ResponseData {
                sections: response.sections.clone(),
                tokens: response.tokens,
                is_complete: response.is_complete,
                is_ready: true,
            },
            Err(error) => ResponseData {
                sections: vec![Section::new(SectionKind::Error, error.message.clone())],
                tokens: None,
                is_complete: false,
                is_ready: true,
            },
        };
        let model = model.unwrap_or_else(|| self.settings().model.clone());
        let usage = LoggedUsage { model, input: usage.prompt, output: usage.completion };
        let usage = Some(usage).filter(|usage| usage.input + usage.output > 0);
        let streamed = (prompt.stream && result.is_ok()).then(|| answer_text(&response.sections));
        self.inner.audit_log.lock().log_answer(&prompt.text, time, response, usage, streamed.as_deref());
    }
}
