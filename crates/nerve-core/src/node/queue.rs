//! Prompts that wait for their turn, and the one that has it.

use std::collections::VecDeque;

use nerve_term::event::TsNs;
use tokio::sync::oneshot;

use super::actor::Call;
use super::stream::Stream;
use super::terminal::Prompt;
use crate::command::Response;
use crate::error::{EngineError, ErrorKind};
use crate::metrics::TurnTimer;

/// How many prompts may wait.
const LIMIT: usize = 64;

/// Where a turn's answer goes.
pub(super) type Reply = oneshot::Sender<Result<Response, EngineError>>;

/// A prompt that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) prompt: Prompt,
    pub(super) call: Option<Call>,
    pub(super) reply: Reply,
    pub(super) deadline: TsNs,
}

/// The prompt that has its turn.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) prompt: Prompt,
    pub(super) call: Option<Call>,
    pub(super) number: u64,
    /// `None`: nobody waits any more, the turn runs on its own.
    pub(super) reply: Option<Reply>,
    pub(super) deadline: Option<TsNs>,
    pub(super) preceding: Option<u64>,
    /// Where chunks of the answer are wanted.
    pub(super) stream: Option<Stream>,
    pub(super) stream_due: Option<TsNs>,
    /// It ended; its transcript is being read. The response as the screen tells it.
    pub(super) finishing: Option<Box<Response>>,
    pub(super) metered: TurnTimer,
}

impl Active {
    /// Answers whoever waits, once.
    pub(super) fn answer(&mut self, answer: Result<Response, EngineError>) {
        self.metered.end(&answer);
        if let Some(reply) = self.reply.take() {
            // Gone: the caller left, the turn is in the history.
            let _ = reply.send(answer);
        }
        self.deadline = None;
    }
}

/// Waiting prompts, first come first served, bounded.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Waiting>);

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Queues a prompt, or answers it when the queue is full.
    pub(super) fn push(&mut self, waiting: Waiting) {
        if self.0.len() >= LIMIT {
            let error = EngineError::new(ErrorKind::Busy, format!("{LIMIT} prompts wait already"))
                .hint("try again later");
            let _ = waiting.reply.send(Err(error));
        } else {
            self.0.push_back(waiting);
        }
    }

    /// The next prompt whose caller still waits.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        loop {
            let waiting = self.0.pop_front()?;
            if !waiting.reply.is_closed() {
                return Some(waiting);
            }
        }
    }

    /// Puts a prompt back to the front.
    pub(super) fn unpop(&mut self, waiting: Waiting) {
        self.0.push_front(waiting);
    }

    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.0.iter().map(|waiting| waiting.deadline).min()
    }

    /// Answers those whose time is up.
    pub(super) fn expire(&mut self, now: TsNs, error: impl Fn() -> EngineError) {
        let (late, waiting) =
            std::mem::take(&mut self.0).into_iter().partition(|waiting| waiting.deadline <= now);
        self.0 = waiting;
        let late: VecDeque<Waiting> = late;
        for waiting in late {
            let _ = waiting.reply.send(Err(error()));
        }
    }

    /// Answers those that `is_it` finds, and takes them out.
    pub(super) fn remove(&mut self, is_it: impl Fn(&Waiting) -> bool, error: impl Fn() -> EngineError) {
        let (found, rest) = std::mem::take(&mut self.0).into_iter().partition(is_it);
        self.0 = rest;
        let found: VecDeque<Waiting> = found;
        for waiting in found {
            let _ = waiting.reply.send(Err(error()));
        }
    }

    /// Answers all of them with an error.
    pub(super) fn fail_all(&mut self, error: impl Fn() -> EngineError) {
        for waiting in self.0.drain(..) {
            let _ = waiting.reply.send(Err(error()));
        }
    }
}
