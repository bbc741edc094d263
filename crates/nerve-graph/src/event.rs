//! Events of a run, and the stream that delivers them.

use std::sync::Arc;

use nerve_api::value::{AnswerSource, StepState};
use nerve_types::TsNs;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use nerve_node::error::ErrorKind;

/// An event of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEvent {
    /// Kind of the event.
    pub kind: StepEventKind,
    /// Path of the step: `outer/inner`, items of a list `each[3]`, rounds `loop#2`.
    pub step: Arc<str>,
    /// Id or name of the step's node.
    pub node: Arc<str>,
    /// Chunk of an answer, result, error message, or question or answer of a gate.
    pub data: Value,
    /// Hint of an error.
    pub hint: Option<String>,
    /// Time of the event.
    pub at: TsNs,
}

/// Kinds of step events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEventKind {
    /// The step started.
    Start {
        /// True if its node is still busy.
        queued: bool,
    },
    /// A chunk of the answer arrived.
    Chunk,
    /// The step is done.
    Complete {
        /// Manner of its completion.
        how: Completion,
        /// Duration in milliseconds.
        ms: u64,
        /// Tokens used.
        tokens: u64,
    },
    /// The step failed; no attempt is left.
    Error {
        /// Kind of the error.
        error_type: ErrorKind,
    },
    /// A gate asks its question.
    Asked,
    /// A gate was answered.
    Answered {
        /// A `person`, or the gate's `default`.
        by: AnswerSource,
    },
    /// An attempt failed; another one follows.
    Retry {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// Delay before it in milliseconds.
        delay_ms: u64,
        /// Kind of the error.
        error_type: ErrorKind,
    },
}

/// Manner in which a step was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Completion {
    /// The step ran.
    Completed,
    /// Its condition was false, or it failed and its error policy is `skip`.
    Skipped,
    /// Its result was recorded before the run was interrupted.
    Reused,
}

impl StepEventKind {
    /// Returns the event's name on the wire, for example `step_start`.
    pub fn as_str(self) -> &'static str {
        match self {
            StepEventKind::Start { .. } => "step_start",
            StepEventKind::Chunk => "step_chunk",
            StepEventKind::Complete { .. } => "step_complete",
            StepEventKind::Error { .. } => "step_error",
            StepEventKind::Retry { .. } => "step_retry",
            StepEventKind::Asked => "gate_asked",
            StepEventKind::Answered { .. } => "gate_answered",
        }
    }

    /// Returns the delay before the next attempt in milliseconds; `None` if there is none.
    pub fn retry_delay_ms(self) -> Option<u64> {
        match self {
            StepEventKind::Retry { delay_ms, .. } => Some(delay_ms),
            _ => None,
        }
    }
}

impl Completion {
    /// Returns `completed`, `skipped` or `reused`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl From<Completion> for StepState {
    fn from(how: Completion) -> StepState {
        match how {
            Completion::Completed => StepState::Completed,
            Completion::Skipped => StepState::Skipped,
            Completion::Reused => StepState::Reused,
        }
    }
}

/// Receives the events of a run. Must not block.
pub type Observer = Arc<dyn Fn(StepEvent) + Send + Sync>;

/// The events of a run, followed by its result.
#[derive(Debug)]
pub struct StepEventStream {
    events: mpsc::UnboundedReceiver<StepEvent>,
    run: JoinHandle<super::GraphRun>,
    /// Cancelled when the run is over, to wake up a pending [`StepEventStream::next`].
    over: CancellationToken,
    /// Cancels the run when the stream is dropped.
    _stop: StopOnDrop,
}

#[derive(Debug)]
struct StopOnDrop(CancellationToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl StepEventStream {
    pub(super) fn new(
        events: mpsc::UnboundedReceiver<StepEvent>,
        stop: CancellationToken,
        run: impl Future<Output = super::GraphRun> + Send + 'static,
    ) -> StepEventStream {
        let over = CancellationToken::new();
        let guard = StopOnDrop(over.clone());
        let run = tokio::spawn(async move {
            let _guard = guard;
            run.await
        });
        StepEventStream { events, run, over, _stop: StopOnDrop(stop) }
    }

    /// Returns the next event, or `None` when the run has ended. Dropping the stream cancels the run and interrupts its terminals.
    pub async fn next(&mut self) -> Option<StepEvent> {
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            // A node may have kept its context, and with it a sender.
            () = self.over.cancelled() => self.events.try_recv().ok(),
        }
    }

    /// Waits for the result of the run.
    ///
    /// # Panics
    /// Panics if the run's task panicked. A panicking node does not cause that.
    pub async fn end(mut self) -> super::GraphRun {
        match (&mut self.run).await {
            Ok(run) => run,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
