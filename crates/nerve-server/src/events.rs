//! Distributes the engine's events to subscribers, each with a bounded queue, so that a slow one delays no other.

mod encoded_event;
mod filter;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use nerve_api::Event;
use parking_lot::Mutex;
use tokio::sync::broadcast;

pub(crate) use self::encoded_event::{EncodedEvent, Tag};
pub(crate) use self::filter::Filter;
use self::queue::EventBuffer;
pub(crate) use self::queue::EventQueue;
use crate::metrics::Metrics;

/// Number of past events that a subscriber can request with `since`.
const RING_EVENTS: usize = 4096;
/// Maximum size of the past events in bytes.
const RING_BYTES: usize = 16 * 1024 * 1024;

/// Receives events from the engine, keeps the latest ones and hands them to subscribers.
///
/// The first caller of [`Hub::publish_pending`] does the work. A connection calls it before it queues a reply, so
/// that the events that led to the reply are queued before it.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// Counters of events and of everything else that the server does.
    pub(crate) metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Inner {
    engine: broadcast::Receiver<Event>,
    ring: EventBuffer,
    last_seq: u64,
    subscribers: Vec<Weak<EventQueue>>,
    metrics: Arc<Metrics>,
}

impl Hub {
    pub(crate) fn new(engine: broadcast::Receiver<Event>) -> Hub {
        let (ring, metrics) = (EventBuffer::default(), Arc::new(Metrics::new()));
        let inner = Inner { engine, ring, last_seq: 0, subscribers: Vec::new(), metrics: metrics.clone() };
        Hub { inner: Mutex::new(inner), metrics }
    }

    /// Publishes all events that the engine has emitted so far.
    pub(crate) fn publish_pending(&self) {
        use broadcast::error::TryRecvError;
        let mut inner = self.inner.lock();
        loop {
            match inner.engine.try_recv() {
                Ok(event) => inner.publish(event),
                Err(TryRecvError::Lagged(count)) => inner.record_lag(count),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Returns the sequence number of the newest event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.inner.lock().last_seq
    }

    /// Creates a queue for the events that match `filter`: those after `since` if given, otherwise new ones
    /// only. Past events that are no longer available count as dropped.
    pub(crate) fn subscribe(&self, filter: Filter, since: Option<u64>) -> Arc<EventQueue> {
        self.publish_pending();
        self.inner.lock().subscribe(filter, since)
    }

    /// Like [`Hub::subscribe`], and ends the queue `before`: a new event is in one of the two queues only.
    pub(crate) fn resubscribe(
        &self,
        before: &EventQueue,
        filter: Filter,
        since: Option<u64>,
    ) -> Arc<EventQueue> {
        self.publish_pending();
        let mut inner = self.inner.lock();
        before.end();
        inner.subscribe(filter, since)
    }
}

impl Inner {
    fn subscribe(&mut self, filter: Filter, since: Option<u64>) -> Arc<EventQueue> {
        let queue = Arc::new(EventQueue::new(filter, self.last_seq));
        if let Some(since) = since {
            let oldest = self.ring.events.front().map_or(self.last_seq + 1, |event| event.event.seq);
            queue.add_dropped(oldest.saturating_sub(since.saturating_add(1)));
            for event in self.ring.events.iter().filter(|event| event.event.seq > since) {
                queue.push(event);
            }
        }
        self.subscribers.push(Arc::downgrade(&queue));
        queue
    }

    fn publish(&mut self, event: Event) {
        self.metrics.count_graph_event(&event.kind);
        let event = Arc::new(EncodedEvent::new(event));
        self.metrics.count_event(event.event.kind.event_type());
        self.last_seq = event.event.seq;
        let mut dropped = 0;
        self.subscribers.retain(|subscriber| match subscriber.upgrade() {
            Some(queue) => {
                dropped += queue.push(&event);
                true
            }
            None => false,
        });
        self.metrics.count_dropped_events(dropped);
        self.ring.push(event, RING_EVENTS, RING_BYTES);
    }

    fn record_lag(&mut self, count: u64) {
        tracing::warn!(count, "events were lost between the engine and the server");
        self.metrics.count_lost_events(count);
        for queue in self.subscribers.iter().filter_map(Weak::upgrade) {
            queue.add_dropped(count);
        }
    }
}
