//! What goes to one client, in order: replies, before each the events that led to it, and events between them.
//!
//! Nothing here waits for a client that reads slowly: what is not taken stays in queues that are bounded elsewhere, replies by the permits
//! they carry, events by their [`Queue`]. So much as a client may well take at once is gathered and written in one go.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nerve_api::RequestId;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::connection::WriteHalf;
use crate::events::{Queue, Tag};

/// Lines that are gathered before they are written …
const LINES: usize = 64;
/// … as long as they are no longer together, in bytes.
const BYTES: usize = 64 * 1024;

/// Places that a queue keeps while nothing waits in it.
const SPARE: usize = 8;

/// Given back when a reply is written.
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
    pub(crate) and: And,
}

impl Reply {
    /// Gives back what it held, and tells who waits for it.
    fn settle(self) {
        let Permits { in_flight, large } = self.permits;
        drop((in_flight, large));
        if let And::Tells(waiting) = self.and {
            let _ = waiting.send(());
        }
    }
}

/// What goes with a reply.
#[derive(Debug)]
pub(crate) enum And {
    Nothing,
    /// The chunks of this turn were the request's; there are no more.
    Ends(Tag),
    /// From then on other events.
    Subscribes(Arc<Queue>),
    /// Somebody waits until it is written.
    Tells(oneshot::Sender<()>),
}

/// One client's side of the way out.
pub(crate) struct Outgoing {
    write: WriteHalf,
    events: Arc<Queue>,
    /// The client asked for events; it may want them even when it sends no more.
    listens: bool,
    /// Turns whose chunks this client asked for, and in which request.
    asked: HashMap<Tag, RequestId>,
    replies: VecDeque<Reply>,
    /// Events still to go before the first of `replies`.
    ahead: Option<usize>,
    gathered: Gathered,
}

/// Lines that are being written.
#[derive(Default)]
struct Gathered {
    lines: VecDeque<(Vec<u8>, Option<Reply>)>,
    /// Of all of them.
    bytes: usize,
    /// Bytes of the first one that are gone.
    written: usize,
    /// Something was written and not handed on: TLS may keep the end of it for itself until it is told.
    kept_back: bool,
}

impl Outgoing {
    pub(crate) fn new(write: WriteHalf, events: Arc<Queue>) -> Outgoing {
        let (asked, replies, gathered) = (HashMap::new(), VecDeque::new(), Gathered::default());
        Outgoing { write, events, listens: false, asked, replies, ahead: None, gathered }
    }

    /// A reply, after those that wait already.
    pub(crate) fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// The chunks of the turn with this tag are told to be those of `request`, until its reply is written.
    pub(crate) fn tag(&mut self, tag: Tag, request: RequestId) {
        self.asked.insert(tag, request);
    }

    /// Where its events come from now.
    pub(crate) fn events(&self) -> Arc<Queue> {
        self.events.clone()
    }

    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    /// Replies that are not gathered yet.
    pub(crate) fn waiting(&self) -> usize {
        self.replies.len()
    }

    /// Nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.gathered.lines.is_empty() && !self.gathered.kept_back
    }

    /// More would be gathered if there was more.
    pub(crate) fn has_room(&self) -> bool {
        self.gathered.lines.len() < LINES && self.gathered.bytes < BYTES
    }

    /// Gathers what waits, within bounds.
    pub(crate) fn gather(&mut self) {
        while self.has_room() {
            if self.replies.is_empty() {
                let Some(lines) = self.events.try_next(&self.asked) else { break };
                self.gathered.push(lines, None);
                continue;
            }
            // Those that are there now, and no more: a reply does not wait for all that may still come.
            let ahead = self.ahead.get_or_insert_with(|| self.events.len());
            if *ahead > 0
                && let Some(lines) = self.events.try_next(&self.asked)
            {
                *ahead -= 1;
                self.gathered.push(lines, None);
                continue;
            }
            self.ahead = None;
            if let Some(mut reply) = self.replies.pop_front() {
                match &reply.and {
                    And::Ends(tag) => drop(self.asked.remove(tag)),
                    And::Subscribes(events) => {
                        self.events = events.clone();
                        self.listens = true;
                    }
                    And::Nothing | And::Tells(_) => {}
                }
                self.gathered.push(std::mem::take(&mut reply.line), Some(reply));
            }
        }
        // A crowd that has gone leaves no room behind.
        if self.replies.is_empty() && self.replies.capacity() > SPARE {
            self.replies = VecDeque::new();
        }
    }

    /// Writes all that is gathered. What is written is known even if the future is dropped.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn write(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.gathered.poll_write(&mut self.write, cx)).await
    }

    /// Writes all that waits.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn write_all(&mut self) -> io::Result<()> {
        while !self.is_idle() || self.waiting() > 0 {
            self.gather();
            self.write().await?;
        }
        Ok(())
    }

    /// Writes what is left, the events that wait now with it, and closes.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        // Bounded, whatever comes in meanwhile.
        for _ in 0..self.events.len() {
            let Some(lines) = self.events.try_next(&self.asked) else { break };
            self.gathered.push(lines, None);
            if !self.has_room() {
                self.write().await?;
            }
        }
        self.write().await?;
        self.write.shutdown().await
    }
}

impl Gathered {
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
            self.kept_back = true;
            self.wrote(written);
        }
        if self.kept_back {
            ready!(Pin::new(write).poll_flush(cx))?;
            self.kept_back = false;
        }
        if self.lines.capacity() > SPARE {
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
        let mut parts = [IoSlice::new(&[]); LINES];
        let mut count = 0;
        for (part, (line, _)) in parts.iter_mut().zip(&self.lines) {
            let gone = if count == 0 { self.written } else { 0 };
            *part = IoSlice::new(&line[gone..]);
            count += 1;
        }
        Pin::new(write).poll_write_vectored(cx, &parts[..count])
    }

    fn wrote(&mut self, mut bytes: usize) {
        while let Some((line, _)) = self.lines.front() {
            let left = line.len() - self.written;
            if bytes < left {
                self.written += bytes;
                return;
            }
            bytes -= left;
            self.bytes -= line.len();
            self.written = 0;
            if let Some((_, Some(reply))) = self.lines.pop_front() {
                reply.settle();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nerve_core::command::{EngineEvent, EventKind};
    use nerve_term::event::TsNs;
    use tokio::io::{AsyncReadExt, DuplexStream};
    use tokio::sync::{Semaphore, broadcast};

    use super::*;
    use crate::events::{Filter, Hub};

    struct Stage {
        engine: broadcast::Sender<EngineEvent>,
        hub: Hub,
        out: Outgoing,
        client: DuplexStream,
    }

    /// A client whose stream holds `room` bytes.
    fn stage(room: usize) -> Stage {
        let (engine, receiver) = broadcast::channel(8192);
        let hub = Hub::new(receiver);
        let (client, server) = tokio::io::duplex(room);
        let out = Outgoing::new(Box::new(server), hub.subscribe(Filter::default(), None));
        Stage { engine, hub, out, client }
    }

    impl Stage {
        fn publish(&self, kind: EventKind) {
            let event = EngineEvent { seq: 1, at: TsNs(0), node: Some("n".into()), session: None, kind };
            self.engine.send(event).unwrap();
            self.hub.forward();
        }

        fn ready(&self) {
            self.publish(EventKind::NodeReady { evidence: String::new() });
        }

        fn push(&mut self, line: &str, and: And) {
            self.out.push(Reply { line: format!("{line}\n").into_bytes(), permits: Permits::default(), and });
        }

        /// What the client gets of all that waits, one word a line.
        async fn got(mut self) -> Vec<String> {
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
    async fn events_go_before_the_reply_that_they_led_to_and_the_next_reply_behind_it() {
        let mut stage = stage(7);
        stage.ready();
        stage.push("first", And::Nothing);
        stage.push("second", And::Nothing);
        stage.out.gather();
        stage.ready();
        stage.push("third", And::Nothing);
        assert_eq!(stage.got().await, ["NODE_READY", "first", "second", "NODE_READY", "third"]);
    }

    #[tokio::test]
    async fn replies_do_not_wait_for_all_events_that_still_come() {
        let mut stage = stage(1 << 20);
        for _ in 0..2 * LINES {
            stage.ready();
        }
        stage.push("reply", And::Nothing);
        stage.out.gather();
        assert!(!stage.out.has_room() && stage.out.waiting() == 1);
        for _ in 0..500 {
            stage.ready();
        }
        let got = stage.got().await;
        assert_eq!(got.iter().position(|line| line == "reply"), Some(2 * LINES));
    }

    #[tokio::test]
    async fn a_permit_is_held_until_its_reply_is_written_to_the_last_byte() {
        let mut stage = stage(10);
        let permits = Arc::new(Semaphore::new(2));
        for line in ["12345678\n", "123456789012\n"] {
            let in_flight = permits.clone().try_acquire_owned().ok();
            let line = line.as_bytes().to_vec();
            stage.out.push(Reply { line, permits: Permits { in_flight, large: None }, and: And::Nothing });
        }
        stage.out.gather();
        let stuck = tokio::time::timeout(std::time::Duration::from_millis(1), stage.out.write()).await;
        assert!(stuck.is_err());
        assert_eq!(permits.available_permits(), 1, "the first is written, the second is not");
        let (written, mut left) = (stage.out.write(), [0; 22]);
        let (written, read) = tokio::join!(written, stage.client.read_exact(&mut left));
        assert!(written.is_ok() && read.is_ok());
        assert_eq!(permits.available_permits(), 2);
        assert_eq!(&left, b"12345678\n123456789012\n");
    }

    #[tokio::test]
    async fn chunks_name_their_request_until_it_is_answered() {
        let mut stage = stage(1 << 20);
        let chunk = |tag| EventKind::OutputChunk { turn: 1, tag, chunk: "x".to_string() };
        stage.out.tag(7, RequestId::Number(3));
        for tag in [Some(7), Some(8), None] {
            stage.publish(chunk(tag));
        }
        stage.push("answer", And::Ends(7));
        stage.out.gather();
        stage.publish(chunk(Some(7)));
        let got = stage.got().await;
        assert_eq!(got, ["OUTPUT_CHUNK3", "OUTPUT_CHUNK", "OUTPUT_CHUNK", "answer", "OUTPUT_CHUNK"]);
    }

    #[tokio::test]
    async fn other_events_come_behind_the_reply_that_says_so() {
        let mut stage = stage(1 << 20);
        stage.ready();
        let other = stage.hub.subscribe(Filter { node: Some("other".into()), ..Filter::default() }, None);
        stage.push("subscribed", And::Subscribes(other));
        stage.out.gather();
        assert!(stage.out.listens());
        stage.ready();
        assert_eq!(stage.got().await, ["NODE_READY", "subscribed"]);
    }
}
