//! The messages that a node's actor receives from its handles and from its own tasks.

use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_api::reply::NodeExplanation;
use nerve_host::output_feed::WatchReply;
use nerve_types::{Size, TsNs};
use tokio::sync::oneshot;

use crate::client_origin::ClientOrigin;
use crate::context::ChunkSink;
use crate::dialog_answer::DialogAnswer;
use crate::error::EngineError;
use crate::prompt::Prompt;
use crate::proxy::SpendSink;
use crate::response::Response;

/// A request to a node's actor.
pub(crate) enum Request {
    Execute(RequestedTurn),
    Write {
        data: Vec<u8>,
        reply: oneshot::Sender<Result<usize, EngineError>>,
    },
    Run {
        command: String,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Keys of a person.
    TypeKeys {
        keys: Vec<u8>,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Subscribes to the output, after an offset if it is still kept.
    Watch {
        since: Option<u64>,
        reply: WatchReply,
    },
    Read {
        lines: Option<usize>,
        reply: oneshot::Sender<String>,
    },
    Clear {
        reply: oneshot::Sender<()>,
    },
    Interrupt {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Withdraws a prompt from the queue, or interrupts its turn.
    Cancel {
        ticket: u64,
        by: ClientOrigin,
    },
    Resize {
        size: Size,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    Answer {
        answer: DialogAnswer,
        reply: DialogReply,
    },
    Explain {
        reply: oneshot::Sender<NodeExplanation>,
    },
    Stop {
        reason: String,
        reply: oneshot::Sender<()>,
    },
    /// Leaves the program running and detaches from it, if the backend can.
    Release {
        reply: oneshot::Sender<bool>,
    },
    /// The agent's conversation id, sent by the task that looked it up.
    Conversation {
        id: String,
    },
    /// The turn in the transcript, if the transcript has the answer whose end the screen shows. Sent by the task that read it.
    TranscriptChecked {
        turn: u64,
        written: Option<TranscriptTurn>,
    },
    /// A turn's final response, sent by the task that read the transcript.
    Finished {
        response: Box<Response>,
    },
}

/// Receives a turn's answer.
pub(crate) type TurnReply = oneshot::Sender<Result<Response, EngineError>>;

/// Receives the outcome of an answered dialog.
pub(crate) type DialogReply = oneshot::Sender<Result<Option<Response>, EngineError>>;

/// A turn that a caller requested: in the mailbox, in the queue, and in progress.
#[derive(Debug)]
pub(crate) struct RequestedTurn {
    pub(crate) prompt: Prompt,
    pub(crate) call: Option<CancellableCall>,
    /// `None` once answered: the turn may still be running.
    pub(crate) reply: Option<TurnReply>,
    /// Time limit for the answer, from the arrival of the request on.
    pub(crate) deadline: Option<TsNs>,
}

impl RequestedTurn {
    pub(crate) fn new(prompt: Prompt, call: Option<CancellableCall>, reply: TurnReply) -> RequestedTurn {
        RequestedTurn { prompt, call, reply: Some(reply), deadline: None }
    }

    /// Answers the caller. Does nothing after the first call.
    pub(crate) fn answer(&mut self, answer: Result<Response, EngineError>) {
        if let Some(reply) = self.reply.take() {
            // A send error means that the caller left; the turn is in the history.
            let _ = reply.send(answer);
        }
        self.deadline = None;
    }

    /// Returns true if the time limit is over.
    pub(crate) fn is_late(&self, now: TsNs) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns true if the caller still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Returns true if the caller cancels the turn by this ticket.
    pub(crate) fn has_ticket(&self, ticket: u64) -> bool {
        self.call.as_ref().is_some_and(|call| call.ticket == ticket)
    }
}

/// The part of a prompt's request that only cancellable callers have.
#[derive(Clone)]
pub(crate) struct CancellableCall {
    /// The number to cancel the prompt by.
    pub(crate) ticket: u64,
    /// Receives pieces of the answer.
    pub(crate) chunks: Option<ChunkSink>,
    /// Receives the usage of the turn's API requests.
    pub(crate) spend: Option<SpendSink>,
}

impl std::fmt::Debug for CancellableCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
