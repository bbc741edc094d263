//! The bounded queue of one subscriber.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use nerve_api::{Event, EventKind, RequestId};
use nerve_types::activity::TsMs;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{EncodedEvent, Filter, Tag};

/// Maximum number of events in a subscriber's queue; the oldest are dropped.
pub(super) const QUEUE_EVENTS: usize = 1024;
/// Maximum size of a subscriber's queue in bytes: chunks of output can be large.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;

/// The events that one subscriber has not received yet.
#[derive(Debug)]
pub(crate) struct EventQueue {
    filter: Filter,
    /// The sequence number of the newest event when the queue was created.
    pub(crate) start: u64,
    pending: Mutex<Pending>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    events: EventBuffer,
    /// Number of events dropped before the first of `events`.
    dropped: u64,
    /// Another queue receives the later events.
    has_ended: bool,
}

impl EventQueue {
    /// Creates an empty queue for the events that match `filter`. `start`: the sequence number of the newest event.
    pub(super) fn new(filter: Filter, start: u64) -> EventQueue {
        EventQueue { filter, start, pending: Mutex::default(), filled: Notify::new() }
    }

    /// Counts events that were lost before they reached the queue.
    pub(super) fn add_dropped(&self, count: u64) {
        self.pending.lock().dropped += count;
    }

    /// Accepts no more events: another queue receives them.
    pub(super) fn end(&self) {
        self.pending.lock().has_ended = true;
    }

    /// Adds an event if it matches and returns the number of evicted ones.
    pub(super) fn push(&self, event: &Arc<EncodedEvent>) -> u64 {
        if !self.filter.matches(&event.event) {
            return 0;
        }
        let mut pending = self.pending.lock();
        if pending.has_ended {
            return 0;
        }
        let evicted = pending.events.push(event.clone(), QUEUE_EVENTS, QUEUE_BYTES);
        pending.dropped += evicted;
        drop(pending);
        self.filled.notify_one();
        evicted
    }

    /// Returns true if the subscriber is notified about `dropped` lost events.
    fn has_notice(&self, dropped: u64) -> bool {
        dropped > 0 && !self.filter.hides_drops
    }

    /// Returns the number of queued events; a notice about dropped ones counts as an event.
    pub(crate) fn len(&self) -> usize {
        let pending = self.pending.lock();
        pending.events.events.len() + usize::from(self.has_notice(pending.dropped))
    }

    /// Returns the next lines to send: a notice about dropped events and an event, also under its deprecated
    /// name if the filter says so. Chunks of the turns in `requests` carry the request's id.
    pub(crate) fn try_next(&self, requests: &HashMap<Tag, RequestId>) -> Option<Vec<u8>> {
        let events = self.try_next_events()?;
        Some(events.iter().flat_map(|event| event.lines(&self.filter, requests)).collect())
    }

    /// Waits until [`EventQueue::try_next`] may return something new.
    pub(crate) async fn wait_until_filled(&self) {
        self.filled.notified().await;
    }

    /// Returns the next events: a notice about dropped ones and an event.
    pub(crate) fn try_next_events(&self) -> Option<Vec<Arc<EncodedEvent>>> {
        let mut pending = self.pending.lock();
        let dropped = std::mem::take(&mut pending.dropped);
        let event = pending.events.pop();
        drop(pending);
        let next = event.as_ref().map(|event| event.event.seq);
        let notice =
            self.has_notice(dropped).then(|| Arc::new(EncodedEvent::new(events_dropped(dropped, next))));
        let events: Vec<_> = notice.into_iter().chain(event).collect();
        (!events.is_empty()).then_some(events)
    }

    /// Like [`EventQueue::try_next_events`], but waits for an event. Cancel-safe.
    pub(crate) async fn next_events(&self) -> Vec<Arc<EncodedEvent>> {
        loop {
            if let Some(events) = self.try_next_events() {
                return events;
            }
            self.filled.notified().await;
        }
    }

    /// Returns the lines of an event: one, and one under its deprecated name if the filter says so.
    pub(crate) fn lines_of(&self, event: &EncodedEvent) -> impl Iterator<Item = Vec<u8>> {
        std::iter::once(event.line.clone()).chain(event.old_name_line(&self.filter))
    }
}

/// Creates the event for `dropped` lost events. `before`: sequence number of the following event, if there is one.
fn events_dropped(dropped: u64, before: Option<u64>) -> Event {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Event {
        kind: EventKind::EventsDropped { dropped: Some(dropped) },
        node_id: None,
        session_id: None,
        emitted_at: TsMs(now.map_or(0, nerve_types::millis)),
        // A client that resumes after the last number it saw must not go back.
        seq: before.map_or(0, |seq| seq.saturating_sub(1)),
    }
}

/// A queue of events with limits, oldest first.
#[derive(Debug, Default)]
pub(super) struct EventBuffer {
    pub(super) events: VecDeque<Arc<EncodedEvent>>,
    bytes: usize,
}

impl EventBuffer {
    /// Adds an event and returns the number of evicted ones.
    pub(super) fn push(&mut self, event: Arc<EncodedEvent>, max_events: usize, max_bytes: usize) -> u64 {
        self.bytes += event.line.len();
        self.events.push_back(event);
        let mut evicted = 0;
        while self.events.len() > max_events || (self.bytes > max_bytes && self.events.len() > 1) {
            self.pop();
            evicted += 1;
        }
        evicted
    }

    fn pop(&mut self) -> Option<Arc<EncodedEvent>> {
        let event = self.events.pop_front()?;
        self.bytes -= event.line.len();
        Some(event)
    }
}
