//! Starts the requests of one connection.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use nerve_api::reply::{Authenticated, Stopped, Subscribed};
use nerve_engine::dispatch::{PreparedRequest, ReplySize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::events::Tag;
use crate::reply_context::ReplyContext;
use crate::requests::{self, Command, DecodedRequest};
use crate::send_queue::{AfterSend, Permits, Reply, SendQueue};
use crate::state::ServerState;

/// Maximum number of one client's requests in progress that may have large replies.
const MAX_LARGE_IN_FLIGHT: usize = 8;
/// Time limit for writing the reply to SHUTDOWN.
const SHUTDOWN_REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts requests. Each running request holds a reference: after the connection drops its own, no request starts
/// and only replies arrive.
pub(super) struct Spawner {
    replies: mpsc::Sender<Reply>,
    disconnected: CancellationToken,
    large: Arc<Semaphore>,
    state: Arc<ServerState>,
}

impl Spawner {
    /// Creates the spawner of one connection. `disconnected` is cancelled when the client leaves.
    pub(super) fn new(
        replies: mpsc::Sender<Reply>,
        disconnected: CancellationToken,
        state: Arc<ServerState>,
    ) -> Spawner {
        Spawner { replies, disconnected, large: Arc::new(Semaphore::new(MAX_LARGE_IN_FLIGHT)), state }
    }

    /// Executes a request, and queues its reply in `out` unless it needs a task of its own. The error of a `request` that
    /// could not be read is the line that answers it.
    pub(super) fn handle(
        self: &Arc<Self>,
        request: Result<DecodedRequest, Vec<u8>>,
        permits: Permits,
        out: &mut SendQueue,
    ) {
        let DecodedRequest { command, context } = match request {
            Ok(request) => request,
            Err(line) => {
                self.state.hub.metrics.count_refusal();
                return out.push(Reply { line, permits, after_send: AfterSend::Nothing });
            }
        };
        let (line, after_send) = match command {
            Command::Call(call) => return self.start(call, context, permits, out),
            Command::Subscribe { filter, since } => {
                let events = out.resubscribe(&self.state.hub, filter, since);
                let (seq, server) = (events.start, Some(self.state.id.clone()));
                (context.ok_line(Subscribed { subscribed: true, seq, server }), AfterSend::Subscribe(events))
            }
            Command::Authenticate => {
                (context.ok_line(Authenticated { authenticated: true }), AfterSend::Nothing)
            }
            Command::Shutdown { keep_nodes } => {
                (context.ok_line(Stopped { stopped: true }), AfterSend::Notify(self.shut_down(keep_nodes)))
            }
        };
        out.push(Reply { line, permits, after_send });
    }

    /// Shuts the server down after the reply has been written or its time limit has passed.
    fn shut_down(&self, keep_nodes: bool) -> oneshot::Sender<()> {
        let (written, is_written) = oneshot::channel();
        let state = self.state.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(SHUTDOWN_REPLY_TIMEOUT, is_written).await;
            state.shut_down(keep_nodes);
        });
        written
    }

    /// Executes a request: inline if it finishes at once, otherwise in its own task.
    fn start(
        self: &Arc<Self>,
        call: PreparedRequest,
        context: ReplyContext,
        permits: Permits,
        out: &mut SendQueue,
    ) {
        let id = context.request_id.clone().filter(|_| call.streams);
        let tag: Option<Tag> = id.as_ref().map(|_| self.state.tag());
        tag.into_iter().zip(id).for_each(|(tag, id)| out.tag(tag, id));
        let after_send = tag.map_or(AfterSend::Nothing, AfterSend::EndTurn);
        let is_brief = call.is_brief;
        let mut work = Box::pin(self.clone().run(call, context, tag, permits, after_send));
        if let Some(reply) = is_brief.then(|| (&mut work).now_or_never()).flatten() {
            return reply.into_iter().for_each(|reply| out.push(reply));
        }
        let replies = self.replies.clone();
        tokio::spawn(async move {
            if let Some(reply) = work.await {
                // The connection may be closed.
                let _ = replies.send(reply).await;
            }
        });
    }

    /// Executes a request and encodes its reply. `tag` identifies the output chunks of the turn. Returns `None` if
    /// the client left first.
    async fn run(
        self: Arc<Self>,
        call: PreparedRequest,
        context: ReplyContext,
        tag: Option<Tag>,
        mut permits: Permits,
        after_send: AfterSend,
    ) -> Option<Reply> {
        let size = call.size;
        if size == ReplySize::Large {
            permits.large = Some(self.acquire_large().await?);
        }
        let outcome = requests::execute(call, &context, tag, &self.disconnected).await?;
        if size == ReplySize::LargeAtEnd {
            permits.large = Some(self.acquire_large().await?);
        }
        requests::record_outcome(&context, &outcome, &self.state);
        Some(Reply { line: context.outcome_line(outcome), permits, after_send })
    }

    /// Waits for the permit of a large reply. Returns `None` if the client disconnects.
    async fn acquire_large(&self) -> Option<OwnedSemaphorePermit> {
        self.disconnected.run_until_cancelled(self.large.clone().acquire_owned()).await?.ok()
    }
}
