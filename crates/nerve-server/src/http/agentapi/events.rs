//! The event stream of agentapi: all messages and the status, then changes.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use futures_util::stream::unfold;
use nerve_api::EventType;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::message::MessageUpdate;
use super::{Agent, AgentStatus, encode};
use crate::events::{EncodedEvent, EventQueue, Filter};
use crate::http::budget::MemoryReservation;
use crate::http::problem::Problem;
use crate::http::sse;

/// Streams until the client leaves, the node is gone or the server shuts down.
pub(super) async fn stream(agent: Agent) -> Result<Response, Problem> {
    let node = Some(agent.node.clone());
    // Subscribe before the first poll, so that nothing after it is missed.
    let queue = agent.site.state.hub.subscribe(Filter { node, ..Filter::default() }, None);
    let closing = agent.site.state.closing.clone();
    let mut reader = Reader {
        agent,
        queue,
        closing,
        pending: VecDeque::new(),
        memory: MemoryReservation::default(),
        last_sent: 0,
        status: None,
        ended: false,
    };
    reader.poll(true).await?;
    Ok(sse::respond(unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) })))
}

struct Reader {
    agent: Agent,
    queue: Arc<EventQueue>,
    closing: CancellationToken,
    pending: VecDeque<Bytes>,
    /// The memory of `pending`.
    memory: MemoryReservation,
    /// Id of the last message that was sent.
    last_sent: u64,
    status: Option<AgentStatus>,
    ended: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.pending.pop_front() {
                return Some(chunk);
            }
            self.memory = MemoryReservation::default();
            if self.ended {
                return None;
            }
            let mut ended_turn = tokio::select! {
                events = self.queue.next_events() => events.iter().any(may_end_a_turn),
                () = self.closing.cancelled() => return None,
                () = tokio::time::sleep(sse::HEARTBEAT) => {
                    self.pending.push_back(Bytes::from_static(sse::COMMENT));
                    // A turn that failed is in the history too, but causes no event of its own.
                    true
                }
            };
            // One poll covers all events so far.
            while let Some(events) = self.queue.try_next_events() {
                ended_turn |= events.iter().any(may_end_a_turn);
            }
            self.ended = self.poll(ended_turn).await.is_err();
        }
    }

    /// Sends what has changed. The history is a growing file, and output causes many events. So only its end is read,
    /// and only when a turn may have ended.
    async fn poll(&mut self, ended_turn: bool) -> Result<(), Problem> {
        let status = self.agent.status().await?;
        if ended_turn {
            let (messages, memory) = self.agent.messages_after(self.last_sent).await?;
            self.memory = memory;
            for message in messages {
                self.last_sent = message.id;
                self.pending.push_back(event("message_update", &MessageUpdate::from(message)));
            }
        }
        if self.status.as_ref() != Some(&status) {
            self.pending.push_back(event("status_change", &status));
            self.status = Some(status);
        }
        self.memory.shrink(self.pending.iter().map(Bytes::len).sum());
        Ok(())
    }
}

/// Returns true if the history may contain new messages after this event: one that follows the end of a turn,
/// or a notice about dropped events.
fn may_end_a_turn(event: &Arc<EncodedEvent>) -> bool {
    matches!(
        event.event.kind.event_type(),
        EventType::NodeReady
            | EventType::ResultReady
            | EventType::OutputParsed
            | EventType::NodeStopped
            | EventType::EventsDropped
    )
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    [format!("event: {name}\ndata: ").as_bytes(), &encode(data), b"\n\n"].concat().into()
}
