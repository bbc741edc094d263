//! The queue of prompts and the turn in progress.

use std::collections::VecDeque;
use std::sync::Arc;

use nerve_agent::parse::ParserKind;
use nerve_api::value::Delivery;
use nerve_transcript::SentPrompt;
use nerve_types::TsNs;

use super::lost_rows::PromptLayout;
use super::request::RequestedTurn;
use super::shadow_terminal::ShadowTerminal;
use super::status::ProgressRecord;
use crate::client_origin::ClientOrigin;
use crate::error::{EngineError, ErrorKind};
use crate::metrics::TurnTimer;
use crate::response::Response;
use crate::stream::Stream;
use crate::turn_queue::MAX_QUEUED;

/// Maximum number of characters of prompts and answers in overviews.
const EXCERPT_CHARS: usize = 200;

/// The turn in progress.
#[derive(Debug)]
pub(super) struct ActiveTurn {
    pub(super) request: RequestedTurn,
    pub(super) number: u64,
    /// Time at which the prompt was sent.
    pub(super) since: TsNs,
    pub(super) parser: ParserKind,
    pub(super) preceding: Option<u64>,
    /// The chunk stream, if chunks were requested.
    pub(super) stream: Option<Stream>,
    pub(super) stream_due: Option<TsNs>,
    /// A caller cleared rows of the answer from the scrollback.
    pub(super) is_cleared: bool,
    pub(super) layout: PromptLayout,
    /// The terminal without older text that the answer may cover, if there is such text.
    pub(super) shadow: Option<ShadowTerminal>,
    /// The transcript is being read for the end of the answer.
    pub(super) is_reading_transcript: bool,
    /// The response as parsed from the screen, while the transcript of the ended turn is being read.
    pub(super) finishing: Option<Box<Response>>,
    pub(super) timer: TurnTimer,
}

impl ActiveTurn {
    /// Returns the prompt for finding it in a transcript.
    pub(super) fn sent_prompt(&self) -> SentPrompt {
        SentPrompt { text: Arc::clone(&self.request.prompt.text), since: self.since }
    }

    /// Returns true if this is the prompt with the ticket and its answer is not known yet.
    pub(super) fn can_cancel(&self, ticket: u64) -> bool {
        self.request.has_ticket(ticket) && self.finishing.is_none()
    }

    /// Answers the caller. Does nothing after the first call.
    pub(super) fn answer(&mut self, answer: Result<Response, EngineError>) {
        self.timer.end(&answer);
        self.request.answer(answer);
    }
}

/// The turns of a node: those in the queue, and the one in progress.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) queue: PromptQueue,
    active: Option<ActiveTurn>,
    /// Number of the last turn.
    last: u64,
    /// First line of its prompt.
    last_prompt: Option<Arc<str>>,
    /// Last line of the last answer.
    last_line: Option<Arc<str>>,
}

impl Turns {
    /// Creates the turns of a node, which continue from `progress`.
    pub(super) fn with_progress(progress: &ProgressRecord) -> Turns {
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        let (last_prompt, last_line) = (text(&progress.last_prompt), text(&progress.last_line));
        Turns { last_prompt, last_line, ..Turns::default() }
    }

    /// Returns the number of turns begun.
    pub(super) fn count(&self) -> u64 {
        self.last
    }

    /// Returns true if a prompt would begin its turn without waiting for another one.
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_none() && self.queue.is_empty()
    }

    /// Returns the turn in progress.
    pub(super) fn active(&self) -> Option<&ActiveTurn> {
        self.active.as_ref()
    }

    /// Returns the turn in progress.
    pub(super) fn active_mut(&mut self) -> Option<&mut ActiveTurn> {
        self.active.as_mut()
    }

    /// Returns the beginning of the last prompt.
    pub(super) fn last_prompt(&self) -> Option<Arc<str>> {
        self.last_prompt.clone()
    }

    /// Returns the end of the last answer.
    pub(super) fn last_line(&self) -> Option<Arc<str>> {
        self.last_line.clone()
    }

    /// Makes a turn the one in progress.
    pub(super) fn begin(&mut self, turn: ActiveTurn) {
        self.last = turn.number;
        self.last_prompt = turn.request.prompt.text.lines().find_map(excerpt);
        self.active = Some(turn);
    }

    /// Removes the turn in progress, which ended with this text.
    pub(super) fn end(&mut self, answer: &str) -> Option<ActiveTurn> {
        self.last_line = answer.lines().rev().find_map(excerpt);
        self.active.take()
    }

    /// Returns when a turn times out or its next chunk is due.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        let active = self.active.as_ref();
        let times = [
            self.queue.deadline(),
            active.and_then(|active| active.request.deadline),
            active.and_then(|active| active.stream_due),
        ];
        times.into_iter().flatten().min()
    }
}

/// Returns the first [`EXCERPT_CHARS`] characters of a line; `None` if it is blank.
fn excerpt(line: &str) -> Option<Arc<str>> {
    let line = line.trim();
    let end = line.char_indices().nth(EXCERPT_CHARS).map_or(line.len(), |(end, _)| end);
    (!line.is_empty()).then(|| line[..end].into())
}

/// A bounded first-in, first-out queue of prompts.
#[derive(Debug, Default)]
pub(super) struct PromptQueue {
    waiting: VecDeque<RequestedTurn>,
    /// Prompts that failed before they were typed, for the audit log.
    unsent: Vec<UnsentPrompt>,
}

/// A prompt that was never typed.
#[derive(Debug)]
pub(super) struct UnsentPrompt {
    pub(super) text: Arc<str>,
    pub(super) reason: String,
    pub(super) origin: ClientOrigin,
}

impl PromptQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues a prompt, or fails it if the queue is full.
    pub(super) fn push(&mut self, waiting: RequestedTurn) {
        if self.waiting.len() >= MAX_QUEUED {
            let error = EngineError::busy(format!("the queue is full: {MAX_QUEUED} prompts are waiting"))
                .hint("try again later");
            self.refuse(waiting, error);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// Removes the next prompt whose caller still waits.
    pub(super) fn pop(&mut self) -> Option<RequestedTurn> {
        loop {
            let waiting = self.waiting.pop_front()?;
            if waiting.is_awaited() {
                return Some(waiting);
            }
            self.refuse(waiting, EngineError::new(ErrorKind::Cancelled, "its client left before its turn"));
        }
    }

    /// Fails a prompt that was not typed.
    pub(super) fn refuse(&mut self, mut prompt: RequestedTurn, mut error: EngineError) {
        // The error may describe another prompt's turn.
        error.delivery = Some(Delivery::Unsent);
        self.unsent.push(UnsentPrompt {
            text: Arc::clone(&prompt.prompt.text),
            reason: error.message.clone(),
            origin: prompt.prompt.origin.clone(),
        });
        prompt.answer(Err(error));
    }

    /// Removes the prompts that failed since the last call.
    pub(super) fn take_unsent(&mut self) -> Vec<UnsentPrompt> {
        std::mem::take(&mut self.unsent)
    }

    /// Returns the text of the queued prompt with a ticket.
    pub(super) fn text_of(&self, ticket: u64) -> Option<&str> {
        self.waiting.iter().find(|waiting| waiting.has_ticket(ticket)).map(|waiting| &*waiting.prompt.text)
    }

    /// Puts a prompt back to the front.
    pub(super) fn push_front(&mut self, waiting: RequestedTurn) {
        self.waiting.push_front(waiting);
    }

    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.waiting.iter().filter_map(|waiting| waiting.deadline).min()
    }

    /// Fails the prompts whose deadline has passed.
    pub(super) fn expire(&mut self, now: TsNs, error: impl Fn() -> EngineError) {
        self.fail_if(|waiting| waiting.is_late(now), error);
    }

    /// Fails the prompt with a ticket.
    pub(super) fn cancel(&mut self, ticket: u64, error: impl Fn() -> EngineError) {
        self.fail_if(|waiting| waiting.has_ticket(ticket), error);
    }

    /// Fails all prompts.
    pub(super) fn fail_all(&mut self, error: &EngineError) {
        self.fail_if(|_| true, || error.clone());
    }

    /// Returns true if a prompt fails at a dialog. `has_turn`: the dialog belongs to a turn.
    pub(super) fn fails_at_dialog(&self, has_turn: bool) -> bool {
        self.waiting.iter().any(|waiting| waiting.prompt.at_dialog.fails_in_queue(has_turn))
    }

    /// Fails the prompts that do not wait at a dialog.
    pub(super) fn fail_at_dialog(&mut self, has_turn: bool, error: &EngineError) {
        self.fail_if(|waiting| waiting.prompt.at_dialog.fails_in_queue(has_turn), || error.clone());
    }

    fn fail_if(&mut self, matches: impl Fn(&RequestedTurn) -> bool, error: impl Fn() -> EngineError) {
        let (failed, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(matches);
        self.waiting = rest;
        for waiting in failed {
            self.refuse(waiting, error());
        }
    }
}
