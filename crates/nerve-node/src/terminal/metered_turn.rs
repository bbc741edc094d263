//! A turn whose usage is counted while it runs, and its cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::TerminalNode;
use super::actor::request::{CancellableCall, Request, RequestedTurn};
use crate::Node;
use crate::budget::Checkpoint;
use crate::cancellation::{INTERRUPT_RETRY, cancelled_error};
use crate::context::{ChunkSink, TurnContext};
use crate::error::{EngineError, ErrorKind};
use crate::prompt::Prompt;
use crate::proxy::SpendSink;
use crate::response::Response;

/// Time after which a turn that exceeded a budget and ignores interrupts is abandoned.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(20);

impl TerminalNode {
    /// Runs a turn and counts its usage while it runs, if a proxy or a session file reports it. Exceeding a budget interrupts the
    /// turn.
    pub(super) async fn execute_metered(
        &self,
        prompt: Prompt,
        context: &TurnContext,
    ) -> Result<Response, EngineError> {
        let chunks = context.chunks().cloned();
        if !self.has_live_token_count() {
            return self.send_until(prompt, chunks, None, context.cancellation(), context).await;
        }
        let stop = context.cancellation().child_token();
        let spend: SpendSink = {
            let (pool, stop) = (context.pool().clone(), stop.clone());
            Arc::new(move |used| {
                pool.add_usage(used);
                if pool.check_stops(Checkpoint::WithinStep).is_err() {
                    stop.cancel();
                }
            })
        };
        let abandoned = async {
            stop.cancelled().await;
            if context.cancellation().is_cancelled() {
                // The caller waits as long as it wants to.
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(ABANDON_TIMEOUT).await;
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.send_until(prompt, chunks, Some(spend), &stop, context) => outcome,
            () = abandoned => Err(cancelled_error()),
        };
        match outcome {
            Err(error) if error.kind == ErrorKind::Cancelled && !context.cancellation().is_cancelled() => {
                context.pool().check_stops(Checkpoint::WithinStep).and(Err(error))
            }
            outcome => outcome,
        }
    }

    /// Runs a turn until `stop`: the caller's own cancellation, or a child of it that a budget can trigger too.
    async fn send_until(
        &self,
        prompt: Prompt,
        chunks: Option<ChunkSink>,
        spend: Option<SpendSink>,
        stop: &CancellationToken,
        context: &TurnContext,
    ) -> Result<Response, EngineError> {
        static TICKETS: AtomicU64 = AtomicU64::new(1);
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        let call = Some(CancellableCall { ticket, chunks, spend });
        let turn = self.request(|reply| Request::Execute(RequestedTurn::new(prompt, call, reply)));
        tokio::pin!(turn);
        tokio::select! {
            biased;
            response = &mut turn => return response?,
            () = stop.cancelled() => {}
        }
        let response = loop {
            // A send error means that the node and its turn are gone.
            let _ = self.inner.requests.send(Request::Cancel { ticket, by: context.canceller() }).await;
            if context.cancellation().is_cancelled() {
                // Some agents exit on a second interrupt.
                break turn.await??;
            }
            // An interrupt between two commands of a line or two requests of an agent is lost, so repeat it.
            if let Ok(response) = tokio::time::timeout(INTERRUPT_RETRY, &mut turn).await {
                break response??;
            }
        };
        if response.is_complete { Ok(response) } else { Err(cancelled_error()) }
    }
}
