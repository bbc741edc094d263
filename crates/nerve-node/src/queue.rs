//! The queue of prompts and the active turn.

use std::collections::VecDeque;

use nerve_types::TsNs;
use tokio::sync::oneshot;

use super::actor::Call;
use super::stream::Stream;
use super::terminal::Prompt;
use crate::command::Response;
use crate::error::{EngineError, ErrorKind};
use crate::metrics::TurnTimer;

/// Maximum number of queued prompts.
const MAX_QUEUED: usize = 64;

/// Receives a turn's answer.
pub(super) type Reply = oneshot::Sender<Result<Response, EngineError>>;

/// A queued prompt.
#[derive(Debug)]
pub(super) struct QueuedPrompt {
    pub(super) prompt: Prompt,
    pub(super) call: Option<Call>,
    pub(super) reply: Reply,
    pub(super) deadline: TsNs,
}

/// The turn in progress.
#[derive(Debug)]
pub(super) struct ActiveTurn {
    pub(super) prompt: Prompt,
    pub(super) call: Option<Call>,
    pub(super) number: u64,
    /// `None` once answered: the turn may still be running.
    pub(super) reply: Option<Reply>,
    pub(super) deadline: Option<TsNs>,
    pub(super) preceding: Option<u64>,
    /// The chunk stream, if chunks were requested.
    pub(super) stream: Option<Stream>,
    pub(super) stream_due: Option<TsNs>,
    /// The response as parsed from the screen, while the transcript of the ended turn is being read.
    pub(super) finishing: Option<Box<Response>>,
    pub(super) metered: TurnTimer,
}

impl ActiveTurn {
    /// Answers the caller. Does nothing after the first call.
    pub(super) fn answer(&mut self, answer: Result<Response, EngineError>) {
        self.metered.end(&answer);
        if let Some(reply) = self.reply.take() {
            // A send error means that the caller left; the turn is in the history.
            let _ = reply.send(answer);
        }
        self.deadline = None;
    }
}

/// A bounded first-in, first-out queue of prompts.
#[derive(Debug, Default)]
pub(super) struct PromptQueue(VecDeque<QueuedPrompt>);

impl PromptQueue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Queues a prompt, or fails it if the queue is full.
    pub(super) fn push(&mut self, waiting: QueuedPrompt) {
        if self.0.len() >= MAX_QUEUED {
            let error = EngineError::new(
                ErrorKind::Busy,
                format!("the queue is full: {MAX_QUEUED} prompts are waiting"),
            )
            .hint("try again later");
            let _ = waiting.reply.send(Err(error));
        } else {
            self.0.push_back(waiting);
        }
    }

    /// Removes the next prompt whose caller still waits.
    pub(super) fn pop(&mut self) -> Option<QueuedPrompt> {
        loop {
            let waiting = self.0.pop_front()?;
            if !waiting.reply.is_closed() {
                return Some(waiting);
            }
        }
    }

    /// Puts a prompt back to the front.
    pub(super) fn push_front(&mut self, waiting: QueuedPrompt) {
        self.0.push_front(waiting);
    }

    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.0.iter().map(|waiting| waiting.deadline).min()
    }

    /// Fails the prompts whose deadline has passed.
    pub(super) fn expire(&mut self, now: TsNs, error: impl Fn() -> EngineError) {
        let (late, waiting) =
            std::mem::take(&mut self.0).into_iter().partition(|waiting| waiting.deadline <= now);
        self.0 = waiting;
        let late: VecDeque<QueuedPrompt> = late;
        for waiting in late {
            let _ = waiting.reply.send(Err(error()));
        }
    }

    /// Removes and fails the prompts that match.
    pub(super) fn remove(
        &mut self,
        matches: impl Fn(&QueuedPrompt) -> bool,
        error: impl Fn() -> EngineError,
    ) {
        let (found, rest) = std::mem::take(&mut self.0).into_iter().partition(matches);
        self.0 = rest;
        let found: VecDeque<QueuedPrompt> = found;
        for waiting in found {
            let _ = waiting.reply.send(Err(error()));
        }
    }

    /// Fails all prompts.
    pub(super) fn fail_all(&mut self, error: impl Fn() -> EngineError) {
        for waiting in self.0.drain(..) {
            let _ = waiting.reply.send(Err(error()));
        }
    }
}
