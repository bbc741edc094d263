//! Writes replies and events to one client, in order: each reply follows the events that led to it.
//!
//! Nothing here waits for a slow client. Replies stay in a queue that is bounded by their permits, events in
//! an [`EventQueue`] of limited size. As many lines as fit into a batch are written at once.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nerve_api::RequestId;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::events::{EventQueue, Filter, Hub, Tag};
use crate::link::WriteHalf;

/// Maximum number of lines in a batch.
const MAX_BATCH_LINES: usize = 64;
/// Maximum size of a batch in bytes, exceeded only by a single long line.
const MAX_BATCH_BYTES: usize = 64 * 1024;

/// Capacity that an empty queue keeps.
const IDLE_CAPACITY: usize = 8;

/// Permits that are released when a reply is written.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    pub(crate) in_flight: Option<OwnedSemaphorePermit>,
    pub(crate) large: Option<OwnedSemaphorePermit>,
}

/// A line that answers a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) line: Vec<u8>,
    pub(crate) permits: Permits,
    pub(crate) after_send: AfterSend,
}

impl Reply {
    /// Releases the permits and notifies the waiter.
    fn complete(self) {
        let Permits { in_flight, large } = self.permits;
        drop((in_flight, large));
        if let AfterSend::Notify(waiting) = self.after_send {
            let _ = waiting.send(());
        }
    }
}

/// Action after a reply was sent.
#[derive(Debug)]
pub(crate) enum AfterSend {
    Nothing,
    /// Forget the tag: the turn's output no longer belongs to this request.
    EndTurn(Tag),
    /// Send the events of this queue from now on.
    Subscribe(Arc<EventQueue>),
    /// Notify the task that waits until the reply is written.
    Notify(oneshot::Sender<()>),
}

/// The sending side of one client's connection.
pub(crate) struct SendQueue {
    write: WriteHalf,
    events: Arc<EventQueue>,
    /// The queue of the last SUBSCRIBE, whose reply may still be queued.
    newest: Arc<EventQueue>,
    /// The client has subscribed to events; it may want them even when it sends no more requests.
    listens: bool,
    /// Requests whose turns produce output chunks, by tag.
    requests: HashMap<Tag, RequestId>,
    replies: VecDeque<Reply>,
    /// Number of events to send before the first of `replies`.
    events_ahead: Option<usize>,
    batch: Batch,
}

/// Lines that are being written.
#[derive(Default)]
struct Batch {
    lines: VecDeque<(Vec<u8>, Option<Reply>)>,
    /// Total size of the lines.
    bytes: usize,
    /// Bytes of the first line that are already written.
    written: usize,
    /// Something was written but not flushed: TLS may buffer the end of it.
    needs_flush: bool,
}

impl SendQueue {
    pub(crate) fn new(write: WriteHalf, events: Arc<EventQueue>) -> SendQueue {
        let (requests, replies, batch) = (HashMap::new(), VecDeque::new(), Batch::default());
        let newest = events.clone();
        SendQueue { write, events, newest, listens: false, requests, replies, events_ahead: None, batch }
    }

    /// Queues a reply.
    pub(crate) fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// Marks the output chunks with this tag as those of `request`, until its reply is sent.
    pub(crate) fn tag(&mut self, tag: Tag, request: RequestId) {
        self.requests.insert(tag, request);
    }

    /// Returns the queue that events are taken from.
    pub(crate) fn events(&self) -> Arc<EventQueue> {
        self.events.clone()
    }

    /// Subscribes instead of the last SUBSCRIBE. The events are sent after its reply, see [`AfterSend::Subscribe`].
    pub(crate) fn resubscribe(&mut self, hub: &Hub, filter: Filter, since: Option<u64>) -> Arc<EventQueue> {
        self.newest = hub.resubscribe(&self.newest, filter, since);
        self.newest.clone()
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listens
    }

    /// Returns the number of replies that are not in the batch yet.
    pub(crate) fn queued_replies(&self) -> usize {
        self.replies.len()
    }

    /// Returns true if nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.batch.lines.is_empty() && !self.batch.needs_flush
    }

    /// Returns true if the batch can take another line.
    pub(crate) fn has_room(&self) -> bool {
        self.batch.lines.len() < MAX_BATCH_LINES && self.batch.bytes < MAX_BATCH_BYTES
    }

    /// Fills the batch from the queues.
    pub(crate) fn gather(&mut self) {
        while self.has_room() {
            if self.replies.is_empty() {
                let Some(lines) = self.events.try_next(&self.requests) else { break };
                self.batch.push(lines, None);
                continue;
            }
            // Only the events present now: a reply does not wait for later ones.
            let events_ahead = self.events_ahead.get_or_insert_with(|| self.events.len());
            if *events_ahead > 0
                && let Some(lines) = self.events.try_next(&self.requests)
            {
                *events_ahead -= 1;
                self.batch.push(lines, None);
                continue;
            }
            self.events_ahead = None;
            if let Some(mut reply) = self.replies.pop_front() {
                match &reply.after_send {
                    AfterSend::EndTurn(tag) => drop(self.requests.remove(tag)),
                    AfterSend::Subscribe(events) => {
                        self.events = events.clone();
                        self.listens = true;
                    }
                    AfterSend::Nothing | AfterSend::Notify(_) => {}
                }
                self.batch.push(std::mem::take(&mut reply.line), Some(reply));
            }
        }
        // Release the memory of a burst.
        if self.replies.is_empty() && self.replies.capacity() > IDLE_CAPACITY {
            self.replies = VecDeque::new();
        }
    }

    /// Writes the batch. Cancel-safe: progress is kept.
    ///
    /// # Errors
    /// Returns an error if the client is gone.
    pub(crate) async fn write(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.batch.poll_write(&mut self.write, cx)).await
    }

    /// Writes all queued replies and the events before them.
    ///
    /// # Errors
    /// Returns an error if the client is gone.
    pub(crate) async fn write_all(&mut self) -> io::Result<()> {
        while !self.is_idle() || self.queued_replies() > 0 {
            self.gather();
            self.write().await?;
        }
        Ok(())
    }

    /// Writes everything that is queued now and closes the stream.
    ///
    /// # Errors
    /// Returns an error if the client is gone.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        // Bounded, even if events keep arriving.
        for _ in 0..self.events.len() {
            let Some(lines) = self.events.try_next(&self.requests) else { break };
            self.batch.push(lines, None);
            if !self.has_room() {
                self.write().await?;
            }
        }
        self.write().await?;
        self.write.shutdown().await
    }
}

impl Batch {
    fn push(&mut self, line: Vec<u8>, reply: Option<Reply>) {
        if line.is_empty() {
            return;
        }
        self.bytes += line.len();
        self.lines.push_back((line, reply));
    }

    fn poll_write(&mut self, write: &mut WriteHalf, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.lines.is_empty() {
            let written = ready!(self.poll_some(write, cx))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.needs_flush = true;
            self.advance(written);
        }
        if self.needs_flush {
            ready!(Pin::new(write).poll_flush(cx))?;
            self.needs_flush = false;
        }
        if self.lines.capacity() > IDLE_CAPACITY {
            self.lines = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_some(&self, write: &mut WriteHalf, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let [(line, _)] = self.lines.as_slices().0
            && self.lines.len() == 1
        {
            return Pin::new(write).poll_write(cx, &line[self.written..]);
        }
        let mut parts = [IoSlice::new(&[]); MAX_BATCH_LINES];
        let mut count = 0;
        for (part, (line, _)) in parts.iter_mut().zip(&self.lines) {
            let start = if count == 0 { self.written } else { 0 };
            *part = IoSlice::new(&line[start..]);
            count += 1;
        }
        Pin::new(write).poll_write_vectored(cx, &parts[..count])
    }

    fn advance(&mut self, mut bytes: usize) {
        while let Some((line, _)) = self.lines.front() {
            let remaining = line.len() - self.written;
            if bytes < remaining {
                self.written += bytes;
                return;
            }
            bytes -= remaining;
            self.bytes -= line.len();
            self.written = 0;
            if let Some((_, Some(reply))) = self.lines.pop_front() {
                reply.complete();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::{Event, EventKind};
    use tokio::io::{AsyncReadExt, DuplexStream};
    use tokio::sync::{Semaphore, broadcast};

    use super::*;

    struct Fixture {
        engine: broadcast::Sender<Event>,
        hub: Hub,
        out: SendQueue,
        client: DuplexStream,
    }

    /// Creates a client whose stream holds `room` bytes.
    fn fixture(room: usize) -> Fixture {
        let (engine, receiver) = broadcast::channel(8192);
        let hub = Hub::new(receiver);
        let (client, server) = tokio::io::duplex(room);
        let out = SendQueue::new(Box::new(server), hub.subscribe(Filter::default(), None));
        Fixture { engine, hub, out, client }
    }

    impl Fixture {
        fn publish(&self, kind: EventKind) {
            let event = Event {
                kind,
                node_id: Some("n".into()),
                session_id: None,
                emitted_at: Default::default(),
                seq: 1,
            };
            self.engine.send(event).unwrap();
            self.hub.publish_pending();
        }

        fn ready(&self) {
            self.publish(EventKind::NodeReady { evidence: String::new() });
        }

        fn push(&mut self, line: &str, after_send: AfterSend) {
            self.out.push(Reply {
                line: format!("{line}\n").into_bytes(),
                permits: Permits::default(),
                after_send,
            });
        }

        /// Returns what the client receives of all queued lines, one word per line.
        async fn received(mut self) -> Vec<String> {
            let written = async {
                self.out.write_all().await.unwrap();
                self.out.finish().await.unwrap();
            };
            let mut text = String::new();
            let (_, read) = tokio::join!(written, self.client.read_to_string(&mut text));
            read.unwrap();
            let word = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
                Ok(event) => {
                    let request = event["data"]["request_id"].as_str().unwrap_or_default();
                    format!("{}{request}", event["event_type"].as_str().unwrap())
                }
                Err(_) => line.to_string(),
            };
            text.lines().map(word).collect()
        }
    }

    #[tokio::test]
    async fn events_precede_the_reply_they_led_to() {
        let mut fixture = fixture(7);
        fixture.ready();
        fixture.push("first", AfterSend::Nothing);
        fixture.push("second", AfterSend::Nothing);
        fixture.out.gather();
        fixture.ready();
        fixture.push("third", AfterSend::Nothing);
        assert_eq!(fixture.received().await, ["NODE_READY", "first", "second", "NODE_READY", "third"]);
    }

    #[tokio::test]
    async fn reply_does_not_wait_for_later_events() {
        let mut fixture = fixture(1 << 20);
        for _ in 0..2 * MAX_BATCH_LINES {
            fixture.ready();
        }
        fixture.push("reply", AfterSend::Nothing);
        fixture.out.gather();
        assert!(!fixture.out.has_room() && fixture.out.queued_replies() == 1);
        for _ in 0..500 {
            fixture.ready();
        }
        let received = fixture.received().await;
        assert_eq!(received.iter().position(|line| line == "reply"), Some(2 * MAX_BATCH_LINES));
    }

    #[tokio::test]
    async fn permit_is_held_until_reply_is_written() {
        let mut fixture = fixture(10);
        let permits = Arc::new(Semaphore::new(2));
        for line in ["12345678\n", "123456789012\n"] {
            let in_flight = permits.clone().try_acquire_owned().ok();
            let line = line.as_bytes().to_vec();
            fixture.out.push(Reply {
                line,
                permits: Permits { in_flight, large: None },
                after_send: AfterSend::Nothing,
            });
        }
        fixture.out.gather();
        let stuck = tokio::time::timeout(std::time::Duration::from_millis(1), fixture.out.write()).await;
        assert!(stuck.is_err());
        assert_eq!(permits.available_permits(), 1, "the first is written, the second is not");
        let (written, mut left) = (fixture.out.write(), [0; 22]);
        let (written, read) = tokio::join!(written, fixture.client.read_exact(&mut left));
        assert!(written.is_ok() && read.is_ok());
        assert_eq!(permits.available_permits(), 2);
        assert_eq!(&left, b"12345678\n123456789012\n");
    }

    #[tokio::test]
    async fn chunks_carry_request_id_until_reply() {
        let mut fixture = fixture(1 << 20);
        let chunk = |tag| EventKind::OutputChunk { turn: 1, chunk: "x".to_string(), request_id: None, tag };
        fixture.out.tag(7, RequestId::Number(3));
        for tag in [Some(7), Some(8), None] {
            fixture.publish(chunk(tag));
        }
        fixture.push("answer", AfterSend::EndTurn(7));
        fixture.out.gather();
        fixture.publish(chunk(Some(7)));
        let received = fixture.received().await;
        assert_eq!(received, ["OUTPUT_CHUNK3", "OUTPUT_CHUNK", "OUTPUT_CHUNK", "answer", "OUTPUT_CHUNK"]);
    }

    #[tokio::test]
    async fn subscribe_reply_switches_event_queue() {
        let mut fixture = fixture(1 << 20);
        fixture.ready();
        let filter = Filter { node: Some("other".into()), ..Filter::default() };
        let other = fixture.out.resubscribe(&fixture.hub, filter, None);
        fixture.push("subscribed", AfterSend::Subscribe(other));
        fixture.out.gather();
        assert!(fixture.out.is_listening());
        fixture.ready();
        assert_eq!(fixture.received().await, ["NODE_READY", "subscribed"]);
    }

    #[tokio::test]
    async fn no_event_is_sent_before_and_after_subscribe_reply() {
        let mut fixture = fixture(1 << 20);
        let first = fixture.out.resubscribe(&fixture.hub, Filter::default(), None);
        fixture.ready();
        let second = fixture.out.resubscribe(&fixture.hub, Filter::default(), None);
        fixture.ready();
        fixture.push("first", AfterSend::Subscribe(first));
        fixture.push("second", AfterSend::Subscribe(second));
        assert_eq!(fixture.received().await, ["first", "NODE_READY", "second", "NODE_READY"]);
    }
}
