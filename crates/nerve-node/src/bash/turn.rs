//! Turns of a bash node: their lock, their budget and their span.

use std::pin::pin;

use nerve_host::clock::MAX_TIMEOUT;
use nerve_types::TimeSpan;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::BashNode;
use crate::cancellation::cancelled_error;
use crate::context::TurnContext;
use crate::error::{EngineError, ErrorKind};
use crate::prompt::Prompt;
use crate::response::Response;
use crate::telemetry::TurnAttributes;

/// The lock that a turn takes on the node.
#[derive(Clone, Copy)]
pub(super) enum TurnLock {
    /// Steps of graphs run at the same time: they keep no state.
    Shared,
    /// A prompt runs alone.
    Exclusive,
}

/// One of the two guards of the lock.
type TurnGuards<'a> = (Option<RwLockReadGuard<'a, ()>>, Option<RwLockWriteGuard<'a, ()>>);

impl BashNode {
    /// Runs a command and returns its output. A failing command is a response with its exit code, not an error.
    ///
    /// A command ends when its `bash` exits. Processes that it left in the background run on, and their output counts only for
    /// another half second.
    pub(super) async fn run_turn(
        &self,
        prompt: Prompt,
        context: &TurnContext,
        lock: TurnLock,
    ) -> Result<Response, EngineError> {
        let (telemetry, node) = (context.telemetry(), &self.inner.state.node);
        let span =
            telemetry.begin_turn(context.trace_context(), node, &prompt.text, BashNode::telemetry_target);
        let prompt = Prompt { trace: span.context().cloned(), ..prompt };
        let cancellation = context.cancellation();
        let result = match self.run_locked(prompt, lock, cancellation).await {
            Err(error) if cancellation.is_cancelled() && error.kind == ErrorKind::Interrupted => {
                Err(cancelled_error())
            }
            result => result,
        };
        span.end(&result, || None);
        result
    }

    /// Runs a command when the lock is free.
    async fn run_locked(
        &self,
        prompt: Prompt,
        lock: TurnLock,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let deadline = Instant::now() + prompt.timeout.unwrap_or(self.inner.timeout).min(MAX_TIMEOUT);
        let _guards = self.lock(lock, prompt.fail_if_busy, deadline, cancellation).await?;
        let mut timer = self.inner.state.events.begin_turn("bash");
        let result = self.run_within_budget(prompt, deadline, cancellation).await;
        timer.end(&result);
        result
    }

    async fn run_within_budget(
        &self,
        prompt: Prompt,
        deadline: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Response, EngineError> {
        let inner = &self.inner;
        let has_limit = prompt.timeout.is_some();
        let deadline = inner.state.await_budget(prompt.at_dialog, cancellation, deadline, has_limit).await?;
        // Registered before the node becomes busy, so that a busy node can always be interrupted.
        let interrupted = inner.state.interrupted();
        let turn = inner.state.begin_turn()?;
        let number = turn.number;
        let started = inner.clock.now();
        let result = {
            let _work = inner.state.ledger.begin_work();
            self.run_bash(number, &prompt, deadline, pin!(interrupted), cancellation).await
        };
        // Logged before the node is ready again, so that waiters find the entry in the history.
        let answer =
            self.respond(number, &prompt, result?, TimeSpan { start: started, end: inner.clock.now() });
        // Before the end of the turn: a node at a limit is blocked then, not ready.
        inner.state.refresh_limit();
        drop(turn);
        answer
    }

    /// Waits until the node's commands leave the lock free. With `fail_if_busy`, a prompt does not wait for them.
    async fn lock(
        &self,
        lock: TurnLock,
        fail_if_busy: bool,
        deadline: Instant,
        cancellation: &CancellationToken,
    ) -> Result<TurnGuards<'_>, EngineError> {
        let (turn, state) = (&self.inner.turn, &self.inner.state);
        let wait = async {
            match lock {
                TurnLock::Shared => (Some(turn.read().await), None),
                TurnLock::Exclusive => (None, Some(turn.write().await)),
            }
        };
        if let (TurnLock::Exclusive, true) = (lock, fail_if_busy) {
            let guard =
                turn.try_write().map_err(|_| state.error(ErrorKind::Busy, "another command is running"));
            return Ok((None, Some(guard?)));
        }
        let guards = tokio::select! {
            biased;
            guards = timeout_at(deadline, wait) => guards,
            () = cancellation.cancelled() => return Err(cancelled_error()),
        };
        guards.map_err(|_| {
            let what = "timed out before the command was started: another one is running";
            state.error(ErrorKind::Timeout, what)
        })
    }

    /// Describes the node for telemetry.
    fn telemetry_target() -> TurnAttributes {
        TurnAttributes { kind: "bash", ..TurnAttributes::default() }
    }
}
