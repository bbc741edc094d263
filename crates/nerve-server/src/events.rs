//! Distributes the engine's events to subscribers, each with a bounded queue, so that a slow one delays no
//! other.

use nerve_types::activity::TsMs;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use nerve_api::{Event, EventKind, EventType, RequestId};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

use crate::legacy_names::old_event_line;
use crate::line::event_line;
use crate::metrics::Metrics;

/// Maximum number of events in a subscriber's queue; the oldest are dropped.
const QUEUE_EVENTS: usize = 1024;
/// Maximum size of a subscriber's queue in bytes: chunks of output can be large.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;
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

/// Identifies the output chunks of one turn for the connection that requested it. Unique within a server.
pub(crate) type Tag = u64;

/// An event in its encoded form.
#[derive(Debug)]
pub(crate) struct OutgoingEvent {
    pub(crate) event: Event,
    line: Vec<u8>,
}

impl OutgoingEvent {
    fn new(event: Event) -> OutgoingEvent {
        OutgoingEvent { line: event_line(&event), event }
    }

    /// Returns the event's lines for a subscriber; `requests`: its own requests, by tag.
    fn lines(&self, filter: &Filter, requests: &HashMap<Tag, RequestId>) -> Vec<u8> {
        let mut lines = self.line_of_request(requests).unwrap_or_else(|| self.line.clone());
        lines.extend(self.old_name_line(filter).into_iter().flatten());
        lines
    }

    /// Returns the line of an event that belongs to a request, with the request's id; `None` if no request has the
    /// event's tag. The id is sent as text, and may equal an id of another connection.
    fn line_of_request(&self, requests: &HashMap<Tag, RequestId>) -> Option<Vec<u8>> {
        let tag = match &self.event.kind {
            EventKind::OutputChunk { tag, .. } | EventKind::BranchProgress { tag, .. } => tag.as_ref()?,
            _ => return None,
        };
        let request = requests.get(tag)?;
        let mut event = self.event.clone();
        if let EventKind::OutputChunk { request_id, .. } | EventKind::BranchProgress { request_id, .. } =
            &mut event.kind
        {
            *request_id = Some(request.to_string());
        }
        Some(event_line(&event))
    }

    fn old_name_line(&self, filter: &Filter) -> Option<Vec<u8>> {
        filter.aliases.then(|| old_event_line(&self.event)).flatten()
    }
}

/// Selects the events of a subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only events of this node.
    pub(crate) node: Option<String>,
    /// Only events of this session.
    pub(crate) session: Option<String>,
    /// Only events of this run.
    pub(crate) run: Option<String>,
    /// Only events of these types; all if `None`, none if empty.
    pub(crate) types: Option<Vec<EventType>>,
    /// Also send each event under its deprecated name.
    pub(crate) aliases: bool,
    /// Send no notice about dropped events.
    pub(crate) hides_drops: bool,
}

impl Filter {
    /// Selects the events of a connection that has not subscribed. Clients of the first version of the protocol never subscribe
    /// and fail on events that it did not have.
    pub(crate) fn unsubscribed() -> Filter {
        Filter { types: Some(EventType::ORIGINAL.to_vec()), hides_drops: true, ..Filter::default() }
    }

    fn matches(&self, event: &Event) -> bool {
        let admits = |filter: &Option<String>, value: &Option<String>| filter.is_none() || filter == value;
        let run = event.kind.run().map(|run| run.run_id.clone());
        // The end of the server concerns every node, session and run.
        let is_in_scope = matches!(event.kind, EventKind::ServerShutdown { .. })
            || admits(&self.node, &event.node_id)
                && admits(&self.session, &event.session_id)
                && admits(&self.run, &run);
        is_in_scope && self.types.as_ref().is_none_or(|types| types.contains(&event.kind.event_type()))
    }
}

/// The events that one subscriber has not received yet.
#[derive(Debug)]
pub(crate) struct EventQueue {
    filter: Filter,
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
        before.pending.lock().has_ended = true;
        inner.subscribe(filter, since)
    }
}

impl Inner {
    fn subscribe(&mut self, filter: Filter, since: Option<u64>) -> Arc<EventQueue> {
        let queue = Arc::new(EventQueue { filter, pending: Mutex::default(), filled: Notify::new() });
        if let Some(since) = since {
            let oldest = self.ring.events.front().map_or(self.last_seq + 1, |event| event.event.seq);
            queue.pending.lock().dropped = oldest.saturating_sub(since.saturating_add(1));
            for event in self.ring.events.iter().filter(|event| event.event.seq > since) {
                queue.push(event);
            }
        }
        self.subscribers.push(Arc::downgrade(&queue));
        queue
    }

    fn publish(&mut self, event: Event) {
        self.metrics.count_graph_event(&event.kind);
        let event = Arc::new(OutgoingEvent::new(event));
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
            queue.pending.lock().dropped += count;
        }
    }
}

impl EventQueue {
    /// Adds an event if it matches and returns the number of evicted ones.
    fn push(&self, event: &Arc<OutgoingEvent>) -> u64 {
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
    pub(crate) fn try_next_events(&self) -> Option<Vec<Arc<OutgoingEvent>>> {
        let mut pending = self.pending.lock();
        let dropped = std::mem::take(&mut pending.dropped);
        let event = pending.events.pop();
        drop(pending);
        let next = event.as_ref().map(|event| event.event.seq);
        let notice =
            self.has_notice(dropped).then(|| Arc::new(OutgoingEvent::new(events_dropped(dropped, next))));
        let events: Vec<_> = notice.into_iter().chain(event).collect();
        (!events.is_empty()).then_some(events)
    }

    /// Like [`EventQueue::try_next_events`], but waits for an event. Cancel-safe.
    pub(crate) async fn next_events(&self) -> Vec<Arc<OutgoingEvent>> {
        loop {
            if let Some(events) = self.try_next_events() {
                return events;
            }
            self.filled.notified().await;
        }
    }

    /// Returns the lines of an event: one, and one under its deprecated name if the filter says so.
    pub(crate) fn lines_of(&self, event: &OutgoingEvent) -> impl Iterator<Item = Vec<u8>> {
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
        emitted_at: TsMs(now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))),
        // A client that resumes after the last number it saw must not go back.
        seq: before.map_or(0, |seq| seq.saturating_sub(1)),
    }
}

/// A queue of events with limits, oldest first.
#[derive(Debug, Default)]
struct EventBuffer {
    events: VecDeque<Arc<OutgoingEvent>>,
    bytes: usize,
}

impl EventBuffer {
    /// Adds an event and returns the number of evicted ones.
    fn push(&mut self, event: Arc<OutgoingEvent>, max_events: usize, max_bytes: usize) -> u64 {
        self.bytes += event.line.len();
        self.events.push_back(event);
        let mut evicted = 0;
        while self.events.len() > max_events || (self.bytes > max_bytes && self.events.len() > 1) {
            self.pop();
            evicted += 1;
        }
        evicted
    }

    fn pop(&mut self) -> Option<Arc<OutgoingEvent>> {
        let event = self.events.pop_front()?;
        self.bytes -= event.line.len();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::RunIds;
    use serde_json::Value;

    use super::*;

    struct Engine {
        events: broadcast::Sender<Event>,
        seq: u64,
    }

    impl Engine {
        fn with_hub() -> (Engine, Hub) {
            let (events, receiver) = broadcast::channel(8192);
            (Engine { events, seq: 0 }, Hub::new(receiver))
        }

        fn publish(&mut self, node: &str, kind: EventKind) {
            self.seq += 1;
            let (node_id, seq) = (Some(node.to_string()), self.seq);
            self.events
                .send(Event { kind, node_id, session_id: None, emitted_at: Default::default(), seq })
                .unwrap();
        }

        fn ready(&mut self, node: &str) {
            self.publish(node, EventKind::NodeReady { evidence: String::new() });
        }
    }

    /// Returns the type and sequence number of all queued events; for dropped ones the count.
    fn drain(queue: &EventQueue) -> Vec<(String, u64)> {
        let mut seen = Vec::new();
        while let Some(lines) = queue.try_next(&HashMap::new()) {
            for line in String::from_utf8(lines).unwrap().lines() {
                let event: Value = serde_json::from_str(line).unwrap();
                let number = event["data"]["dropped"].as_u64().unwrap_or(event["seq"].as_u64().unwrap());
                seen.push((event["event_type"].as_str().unwrap().to_string(), number));
            }
        }
        seen
    }

    #[test]
    fn full_queue_drops_oldest_and_reports_count() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter::default(), None);
        for _ in 0..QUEUE_EVENTS + 10 {
            engine.ready("a");
        }
        hub.publish_pending();
        let seen = drain(&queue);
        assert_eq!(seen[0], ("EVENTS_DROPPED".to_string(), 10));
        assert_eq!(seen[1], ("NODE_READY".to_string(), 11));
        assert_eq!(seen.len(), QUEUE_EVENTS + 1);
    }

    #[test]
    fn unsubscribed_queue_holds_original_events_only() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter::unsubscribed(), None);
        engine.ready("a");
        engine.publish(
            "a",
            EventKind::ResultReady {
                result_id: "r".to_string(),
                success: true,
                status: nerve_api::value::ResultStatus::Done,
            },
        );
        hub.publish_pending();
        assert_eq!(drain(&queue), [("NODE_READY".to_string(), 1)]);
        for _ in 0..QUEUE_EVENTS + 10 {
            engine.ready("a");
        }
        hub.publish_pending();
        assert_eq!(queue.len(), QUEUE_EVENTS);
        let seen = drain(&queue);
        assert_eq!((seen.len(), &seen[0]), (QUEUE_EVENTS, &("NODE_READY".to_string(), 13)));
    }

    #[test]
    fn new_event_is_in_one_queue_of_a_resubscriber() {
        let (mut engine, hub) = Engine::with_hub();
        let before = hub.subscribe(Filter::unsubscribed(), None);
        engine.ready("a");
        let after = hub.resubscribe(&before, Filter::default(), None);
        engine.ready("a");
        hub.publish_pending();
        let ready = |seq| ("NODE_READY".to_string(), seq);
        assert_eq!((drain(&before), drain(&after)), (vec![ready(1)], vec![ready(2)]));
    }

    #[test]
    fn queue_is_bounded_by_bytes() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter::default(), None);
        for turn in 0..10 {
            engine.publish(
                "a",
                EventKind::OutputChunk { turn, chunk: "x".repeat(1024 * 1024), request_id: None, tag: None },
            );
        }
        hub.publish_pending();
        let seen = drain(&queue);
        assert_eq!(seen[0], ("EVENTS_DROPPED".to_string(), 3), "{seen:?}");
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn filtered_events_do_not_count() {
        let (mut engine, hub) = Engine::with_hub();
        let filter = Filter {
            node: Some("b".to_string()),
            types: Some(vec![EventType::NodeReady]),
            ..Filter::default()
        };
        let queue = hub.subscribe(filter, None);
        engine.ready("b");
        for _ in 0..QUEUE_EVENTS * 2 {
            engine.ready("a");
        }
        engine.publish("b", EventKind::NodeCreated { kind: "pty".to_string(), forked_from: None });
        hub.publish_pending();
        assert_eq!(drain(&queue), [("NODE_READY".to_string(), 1)]);
    }

    #[test]
    fn run_filter_selects_events_of_one_run() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter { run: Some("r1".to_string()), ..Filter::default() }, None);
        for run in ["r1", "r2"] {
            let run = RunIds { run_id: run.to_string(), graph_id: "g".to_string() };
            engine.publish("a", EventKind::GraphStarted { run, steps: 1, resumed: false });
            engine.ready("r1");
        }
        hub.publish_pending();
        assert_eq!(drain(&queue), [("GRAPH_STARTED".to_string(), 1)]);
    }

    #[test]
    fn since_replays_ring_and_counts_missing_events() {
        let (mut engine, hub) = Engine::with_hub();
        for _ in 0..RING_EVENTS + 100 {
            engine.ready("a");
        }
        hub.publish_pending();
        let last = engine.seq;
        let tail = hub.subscribe(Filter::default(), Some(last - 2));
        engine.ready("a");
        hub.publish_pending();
        let ready = |seq| ("NODE_READY".to_string(), seq);
        assert_eq!(drain(&tail), [ready(last - 1), ready(last), ready(last + 1)]);
        let all = Filter { types: Some(vec![EventType::NodeReady]), ..Filter::default() };
        let queue = hub.subscribe(all, Some(0));
        // 101 events have left the ring, and the rest exceeds the queue: the newest are there, and the count
        // is right.
        let seen = drain(&queue);
        assert_eq!(seen[0], ("EVENTS_DROPPED".to_string(), last + 1 - QUEUE_EVENTS as u64));
        assert_eq!(seen.len(), QUEUE_EVENTS + 1);
        let future = hub.subscribe(Filter::default(), Some(last + 1000));
        assert_eq!(drain(&future), []);
    }

    #[test]
    fn lag_behind_engine_is_reported() {
        let (events, receiver) = broadcast::channel(4);
        let (mut engine, hub) = (Engine { events, seq: 0 }, Hub::new(receiver));
        let queue = hub.subscribe(Filter::default(), None);
        for _ in 0..10 {
            engine.ready("a");
        }
        hub.publish_pending();
        assert_eq!(drain(&queue)[..2], [("EVENTS_DROPPED".to_string(), 6), ("NODE_READY".to_string(), 7)]);
    }

    #[test]
    fn dropped_subscribers_are_removed() {
        let (mut engine, hub) = Engine::with_hub();
        for _ in 0..10 {
            drop(hub.subscribe(Filter::default(), None));
        }
        engine.ready("a");
        hub.publish_pending();
        assert_eq!(hub.inner.lock().subscribers.len(), 0);
    }
}
