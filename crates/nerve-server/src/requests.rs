//! Requests given to the engine, one at a time: for connections, and for clients whose requests come without one.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use nerve_core::command::{Command, Outcome};
use nerve_core::error::{EngineError, ErrorKind};
use tokio_util::sync::CancellationToken;

use crate::convert::{self, Answer, Request};
use crate::state::ServerState;

/// Answers one request as a connection would, and gives the line that answers it. SUBSCRIBE is refused: it is for connections. Must be
/// called in a task of its own, which nobody ends when the client leaves. `room`: waited for before an answer is put together that took its
/// time and may be long. `None`: `gone` was cancelled before there was an answer.
pub(crate) async fn answer<R: Future<Output = ()>>(
    request: Result<Request, Vec<u8>>,
    serving: &ServerState,
    gone: &CancellationToken,
    room: impl FnOnce() -> R,
) -> Option<Vec<u8>> {
    match request {
        Ok(Request::Command { command, answer }) => {
            guarded(answer, |answer| async move {
                let ends_with_much = convert::may_end_with_much(&command);
                let outcome = work(command, serving, gone).await?;
                if ends_with_much {
                    room().await;
                }
                Some(told(outcome, answer, serving))
            })
            .await
        }
        Ok(Request::Subscribe { answer, .. }) => Some(
            answer.failed(
                EngineError::new(ErrorKind::InvalidRequest, "SUBSCRIBE is for connections that stay open")
                    .hint("use a socket, the WebSocket at /api/events, or SSE at /events"),
            ),
        ),
        Ok(Request::Authenticated { answer }) => Some(answer.authenticated()),
        Ok(Request::Shutdown { keep_nodes, answer }) => {
            serving.shut_down(keep_nodes);
            Some(answer.shutting_down())
        }
        Err(line) => {
            serving.hub.metrics.refused();
            Some(line)
        }
    }
}

/// Lets the engine work. A client that leaves ends only what changes nothing: a turn goes on to its end and into the history, a run to its end. `None`:
/// nobody waits for the answer any more.
pub(crate) async fn work(
    command: Command,
    serving: &ServerState,
    gone: &CancellationToken,
) -> Option<Outcome> {
    let changes_nothing = convert::changes_nothing(&command);
    tokio::select! {
        biased;
        outcome = serving.engine.execute(command) => Some(outcome),
        () = gone.cancelled(), if changes_nothing => None,
    }
}

/// The line that says what came of it. The events that led to it are handed on: who sends it can send them first.
pub(crate) fn told(outcome: Outcome, answer: Answer, serving: &ServerState) -> Vec<u8> {
    serving.hub.forward();
    if let Some(command) = answer.command {
        serving.hub.metrics.answered(command, &outcome);
    }
    answer.outcome(outcome)
}

/// Answers a request whatever happens: a panic must not take the answer with it.
pub(crate) async fn guarded<F>(answer: Answer, work: impl FnOnce(Answer) -> F) -> Option<Vec<u8>>
where
    F: Future<Output = Option<Vec<u8>>>,
{
    let last = answer.clone();
    // What panics is not looked at again: it is dropped.
    AssertUnwindSafe(work(answer)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a request failed in the engine");
        let message = "the request ended without an answer: this is a bug in nerve";
        Some(last.failed(EngineError::new(ErrorKind::Internal, message)))
    })
}
