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
mod tests;
