//! Requests given to the engine, one at a time: for connections, and for clients whose requests come without one.

use nerve_core::command::{Command, Outcome};
use nerve_core::error::{EngineError, ErrorKind};
use tokio_util::sync::CancellationToken;

use crate::convert::{self, Request};
use crate::serving::Serving;

/// Answers one request line as a connection would, and gives the line that answers it. SUBSCRIBE is refused: it is for connections. `None`: `gone` was
/// cancelled before there was an answer.
pub(crate) async fn answer(line: &[u8], serving: &Serving, gone: &CancellationToken) -> Option<Vec<u8>> {
    match convert::request(line) {
        Ok(Request::Command { command, answer }) => {
            let outcome = work(command, serving, gone).await?;
            // Events that led to this answer go before it.
            serving.hub.forward();
            Some(answer.outcome(outcome))
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
        Err(line) => Some(line),
    }
}

/// Lets the engine work. A client that leaves ends only what changes nothing: a turn goes on to its end and into the history, a run to its end. `None`:
/// nobody waits for the answer any more.
pub(crate) async fn work(command: Command, serving: &Serving, gone: &CancellationToken) -> Option<Outcome> {
    let changes_nothing = convert::changes_nothing(&command);
    let engine = serving.engine.clone();
    // A task of its own: a panic must not take the answer with it.
    let mut task = tokio::spawn(async move { engine.execute(command).await });
    let joined = tokio::select! {
        joined = &mut task => joined,
        () = gone.cancelled(), if changes_nothing => {
            task.abort();
            return None;
        }
    };
    Some(joined.unwrap_or_else(|error| {
        tracing::error!(%error, "a request failed in the engine");
        Err(EngineError::new(
            ErrorKind::Internal,
            "the request ended without an answer: this is a bug in nerve",
        ))
    }))
}
