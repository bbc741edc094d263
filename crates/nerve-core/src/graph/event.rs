//! What happens in a run, as it happens (seed REQ-G6).

use std::sync::Arc;

use nerve_term::event::TsNs;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cancellation::CancellationToken;

/// What happened to a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepEvent {
    /// What.
    pub kind: StepEventKind,
    /// Path of the step: `outer/inner`, items of a list `each[3]`, rounds `loop#2`.
    pub step: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// A piece of an answer, the result, the error's message, a gate's question or its answer.
    pub data: Value,
    /// When.
    pub at: TsNs,
}

/// Kinds of events of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEventKind {
    /// It began. `queued`: its node does something else first.
    Start { queued: bool },
    /// More of its answer.
    Chunk,
    /// It is done.
    Complete { how: How, ms: u64, tokens: u64 },
    /// It failed for good.
    Error { error_type: &'static str },
    /// Its gate asks.
    Asked,
    /// Its gate was answered: by a `person`, or with its `default`.
    Answered { by: &'static str },
    /// An attempt failed; the next one comes in `delay_ms`. `attempt` is the one that comes, from 2.
    Retry { attempt: u32, delay_ms: u64, error_type: &'static str },
}

/// How a step was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was run.
    Completed,
    /// Its condition did not hold, or it failed and its policy says to go on.
    Skipped,
    /// Its result is from before the run was interrupted.
    Reused,
}

impl StepEventKind {
    /// `step_start`, `step_chunk`, `step_complete`, `step_error` (seed REQ-G6), `step_retry`, `gate_asked`,
    /// `gate_answered`.
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
}

impl How {
    /// `completed`, `skipped` or `reused`.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Completed => "completed",
            How::Skipped => "skipped",
            How::Reused => "reused",
        }
    }
}

/// Who is told what happens. Must not wait.
pub type Observer = Arc<dyn Fn(StepEvent) + Send + Sync>;

/// The events of a run, and then its result.
#[derive(Debug)]
pub struct StepEvents {
    events: mpsc::UnboundedReceiver<StepEvent>,
    run: JoinHandle<super::GraphRun>,
    /// The run is over: told to whoever waits for events.
    over: CancellationToken,
    /// Cancels the run when nobody listens any more.
    _stop: StopOnDrop,
}

#[derive(Debug)]
struct StopOnDrop(CancellationToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl StepEvents {
    pub(super) fn new(
        events: mpsc::UnboundedReceiver<StepEvent>,
        stop: CancellationToken,
        run: impl Future<Output = super::GraphRun> + Send + 'static,
    ) -> StepEvents {
        let over = CancellationToken::new();
        let told = StopOnDrop(over.clone());
        let run = tokio::spawn(async move {
            let _told = told;
            run.await
        });
        StepEvents { events, run, over, _stop: StopOnDrop(stop) }
    }

    /// The next event; `None` when the run has ended. Dropping the stream cancels the run: terminals are interrupted, and its trace
    /// says so.
    pub async fn next(&mut self) -> Option<StepEvent> {
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            // A node may have kept its context, and with it the other end.
            () = self.over.wait() => self.events.try_recv().ok(),
        }
    }

    /// What came of the run.
    ///
    /// # Panics
    /// If the run did: no node can make it.
    pub async fn end(mut self) -> super::GraphRun {
        match (&mut self.run).await {
            Ok(run) => run,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
