//! The turn of a call: its events, its end, and its cancellation when the client leaves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::{ExecuteReply, ResultInfo};
use nerve_api::request::{CancelResult, ConversationOptions, ExecuteInput, GetResult, NodeRef, Seconds};
use nerve_api::value::UseContext;
use nerve_api::{EventKind, EventType};
use nerve_types::activity::Activity;
use nerve_types::token_usage::TokenUsage;
use tokio::sync::OwnedSemaphorePermit;

use super::config::{Config, OnDisconnect};
use super::destination::Destination;
use super::error::ApiError;
use super::outcome::Answer;
use super::streamed_text::StreamedText;
use super::temporary_node::TemporaryNode;
use super::types::CompletionUsage;
use crate::client_origin;
use crate::events::{EncodedEvent, EventQueue, Filter};
use crate::http::budget::MemoryReservation;
use crate::http::problem::Problem;
use crate::http::resource::call;
use crate::http::{SiteState, sse};

/// Events of a node that matter for a turn.
const EVENTS: [EventType; 4] =
    [EventType::OutputChunk, EventType::NodeActivity, EventType::NodeBusy, EventType::ResultReady];

/// Options of a turn.
#[derive(Debug)]
pub(super) struct TurnOptions {
    /// Sends the answer while it grows.
    pub(super) stream: bool,
    pub(super) timeout: Duration,
    pub(super) on_disconnect: OnDisconnect,
    /// The caller's span, `traceparent` and `tracestate`.
    pub(super) trace: (Option<String>, Option<String>),
    /// The place of the call.
    pub(super) permit: OwnedSemaphorePermit,
}

impl TurnOptions {
    pub(super) fn new(stream: bool, config: &Config, permit: OwnedSemaphorePermit) -> TurnOptions {
        let (timeout, on_disconnect) = (config.timeout(), config.on_disconnect);
        TurnOptions { stream, timeout, on_disconnect, trace: (None, None), permit }
    }
}

/// A step of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TurnStep {
    /// The agent works.
    Started,
    /// The answer has grown.
    Text(String),
    /// The agent uses a tool, with these arguments.
    Tool(String, String),
    /// Nothing has happened for a while.
    Silence,
    /// The turn has ended.
    Ended,
}

/// A running turn. If it is dropped before its end, its client has left.
#[derive(Debug)]
pub(super) struct Turn {
    at: NodeRef,
    site: SiteState,
    result_id: String,
    events: Arc<EventQueue>,
    pending: VecDeque<Arc<EncodedEvent>>,
    /// Number of the turn on its node, once it streams.
    number: Option<u64>,
    /// Tokens that the agent has reported.
    counted: Option<TokenUsage>,
    /// Parts of the answer were lost.
    has_gap: bool,
    has_ended: bool,
    on_disconnect: OnDisconnect,
    temporary: Option<TemporaryNode>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Sends the prompt.
    ///
    /// # Errors
    /// The node does not take it now.
    pub(super) async fn start(
        destination: Destination,
        options: TurnOptions,
        site: SiteState,
    ) -> Result<Turn, ApiError> {
        let Destination { at, messages, prompt, temporary } = destination;
        let TurnOptions { stream, timeout, on_disconnect, trace: (traceparent, tracestate), permit } =
            options;
        let types = Some(EVENTS.to_vec());
        let filter =
            Filter { node: Some(at.node.clone()), session: at.session.clone(), types, ..Filter::default() };
        let events = site.state.hub.subscribe(filter, None);
        // Fails instead of leaving messages out if the node would run them as commands.
        let context = Some(UseContext::Always);
        let conversation = (!messages.is_empty()).then(|| ConversationOptions {
            history: messages,
            context,
            ..ConversationOptions::default()
        });
        let request = ExecuteInput {
            session_id: at.session.clone(),
            stream,
            timeout: Some(Seconds::from(timeout)),
            // Events do not say whose turn they belong to, so no other turn may run.
            fail_if_busy: true,
            fail_if_blocked: true,
            is_async: true,
            conversation,
            traceparent,
            tracestate,
            ..ExecuteInput::new(at.node.clone(), prompt)
        };
        let (reply, _) = call(request, &site).await.map_err(|problem| ApiError::from(problem).at(&at))?;
        let ExecuteReply::Accepted(accepted) = reply else {
            return Err(Problem::internal("an asynchronous prompt was not accepted").into());
        };
        Ok(Turn {
            at,
            site,
            result_id: accepted.result_id,
            events,
            pending: VecDeque::new(),
            number: None,
            counted: None,
            has_gap: false,
            has_ended: false,
            on_disconnect,
            temporary,
            permit: Some(permit),
        })
    }

    /// Returns true if parts of the answer were lost because the client did not read them in time.
    pub(super) fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Remembers how an answer was sent, because its client will send it back.
    pub(super) fn remember(&self, sent: &StreamedText, answer: &Answer) {
        if let Some(sent) = sent.letters() {
            self.site.openai.sent_answers.add(sent, &answer.letters());
        }
    }

    /// Returns the next step. [`TurnStep::Ended`] is the last one.
    pub(super) async fn next(&mut self) -> TurnStep {
        let closing = self.site.state.closing.clone();
        loop {
            while let Some(event) = self.pending.pop_front() {
                if let Some(step) = self.read(&event).await {
                    return step;
                }
            }
            tokio::select! {
                biased;
                events = self.events.next_events() => self.pending.extend(events),
                // The result says that the server was shut down.
                () = closing.cancelled() => return TurnStep::Ended,
                () = tokio::time::sleep(sse::HEARTBEAT) => return TurnStep::Silence,
            }
        }
    }

    async fn read(&mut self, event: &EncodedEvent) -> Option<TurnStep> {
        match &event.event.kind {
            EventKind::NodeBusy { .. } => Some(TurnStep::Started),
            EventKind::OutputChunk { turn, chunk, .. } => {
                // A person may begin the next turn before the end of this one is known.
                let is_own = *self.number.get_or_insert(*turn) == *turn;
                (is_own && !self.has_gap).then(|| TurnStep::Text(chunk.clone()))
            }
            EventKind::NodeActivity(activity) => self.read_activity(activity),
            EventKind::ResultReady { result_id, .. } if *result_id == self.result_id => Some(TurnStep::Ended),
            EventKind::EventsDropped { .. } => {
                self.has_gap = true;
                let result = self.result().await;
                result.is_ok_and(|(result, _)| result.status.is_end()).then_some(TurnStep::Ended)
            }
            _ => None,
        }
    }

    fn read_activity(&mut self, activity: &Activity) -> Option<TurnStep> {
        match activity {
            Activity::ToolStart { name, args, .. } => Some(TurnStep::Tool(name.clone(), args.clone())),
            Activity::Usage { input, output, cache_read, cache_write, .. } => {
                let [input, output, cache_read, cache_write] = [*input, *output, *cache_read, *cache_write];
                *self.counted.get_or_insert_default() +=
                    TokenUsage { input, output, cache_read, cache_write };
                None
            }
            _ => None,
        }
    }

    async fn result(&self) -> Result<(ResultInfo, MemoryReservation), Problem> {
        call(GetResult { result_id: self.result_id.clone(), ..GetResult::default() }, &self.site).await
    }

    /// Returns the answer after the last step, and its memory.
    ///
    /// # Errors
    /// The turn failed, was interrupted, waits at a dialog, or has no complete answer.
    pub(super) async fn answer(&mut self) -> Result<(Answer, MemoryReservation), ApiError> {
        self.has_ended = true;
        let (result, memory) = self.result().await.map_err(|problem| {
            // The turn has ended, and would run again.
            ApiError::from(problem).at(&self.at).final_failure()
        })?;
        let counted = self.counted.map(CompletionUsage::from);
        Ok((Answer::read(result, counted, self.temporary.is_some())?, memory))
    }
}

impl Drop for Turn {
    /// Interrupts a turn whose client has left, unless the settings let it continue. A temporary node is removed after that.
    fn drop(&mut self) {
        // Without a runtime, the process ends.
        let (false, Ok(runtime)) = (self.has_ended, tokio::runtime::Handle::try_current()) else { return };
        let (site, result_id) = (self.site.clone(), self.result_id.clone());
        let (temporary, permit) = (self.temporary.take(), self.permit.take());
        let on_disconnect = self.on_disconnect;
        tracing::info!(node = %self.at.node, result = %result_id, "the client left before the end of the turn");
        runtime.spawn(client_origin::scope(client_origin::current(), async move {
            let ended = match on_disconnect {
                OnDisconnect::Interrupt => call(CancelResult { result_id }, &site).await.map(drop),
                OnDisconnect::Continue => {
                    call(GetResult { result_id, wait: true, timeout: None }, &site).await.map(drop)
                }
            };
            if let Err(problem) = ended {
                tracing::info!(error = %problem.detail, "the turn had ended already");
            }
            drop((temporary, permit));
        }));
    }
}
