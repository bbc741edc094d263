//! Events from the engine to subscribers: one bounded queue for each, so that a slow one holds nobody up.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nerve_api::{EventMessage, EventType, RequestId};
use nerve_core::command::{EngineEvent, EventKind};
use tokio::sync::{Notify, broadcast};

use crate::convert;
use crate::metrics::Metrics;

/// Events that wait for one subscriber; the oldest are dropped for newer ones.
const QUEUE_EVENTS: usize = 1024;
/// The same in bytes: chunks of output can be large.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// Past events that a subscriber can ask for with `since`.
const RING_EVENTS: usize = 4096;
/// The same in bytes.
const RING_BYTES: usize = 16 * 1024 * 1024;

/// Takes events from the engine, keeps the last ones, hands them to subscribers.
///
/// Whoever calls [`Hub::forward`] first does the work. A connection calls it before it queues a reply, so that the events that led to
/// a reply are always before it, with no hand-over between tasks in the way.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// What is counted of them, and of what else the server does.
    pub(crate) metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Inner {
    engine: broadcast::Receiver<EngineEvent>,
    ring: Bounded,
    last_seq: u64,
    subscribers: Vec<Weak<Queue>>,
    metrics: Arc<Metrics>,
}

/// By what a connection knows the chunks of a turn that it asked for; no two turns of a server have the same.
pub(crate) type Tag = u64;

/// One event, ready to be sent.
#[derive(Debug)]
pub(crate) struct Published {
    seq: u64,
    tag: Option<Tag>,
    event: EventMessage,
    line: Vec<u8>,
}

impl Published {
    fn new(event: EngineEvent) -> Published {
        let tag = match event.kind {
            EventKind::OutputChunk { tag, .. } => tag,
            _ => None,
        };
        let event = convert::event(event);
        Published { seq: event.seq, tag, line: convert::event_line(event.clone()), event }
    }

    /// Its lines for a subscriber, who asked for the turns in `asked`.
    fn lines(&self, filter: &Filter, asked: &HashMap<Tag, RequestId>) -> Vec<u8> {
        let request = self.tag.and_then(|tag| asked.get(&tag));
        let mut lines = match request {
            Some(request) => convert::event_line(convert::of_request(self.event.clone(), request)),
            None => self.line.clone(),
        };
        lines.extend(self.under_old_name(filter).into_iter().flatten());
        lines
    }

    fn under_old_name(&self, filter: &Filter) -> Option<Vec<u8>> {
        let old = filter.aliases.then(|| self.event.under_old_name()).flatten()?;
        Some(convert::event_line(old))
    }
}

/// What a subscriber wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only of this node.
    pub(crate) node: Option<String>,
    /// Only of this session.
    pub(crate) session: Option<String>,
    /// Only of this run.
    pub(crate) run: Option<String>,
    /// Only of these types; all if `None`, none if empty.
    pub(crate) types: Option<Vec<EventType>>,
    /// Also under the names of the first nerve.
    pub(crate) aliases: bool,
}

impl Filter {
    fn lets_through(&self, event: &EventMessage) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is(&self.node, &event.node_id)
            && is(&self.session, &event.session_id)
            && self.run.as_ref().is_none_or(|run| event.data.get("run_id").is_some_and(|found| found == run))
            && self.types.as_ref().is_none_or(|types| event.kind().is_some_and(|kind| types.contains(&kind)))
    }
}

/// The events one subscriber has still to get.
#[derive(Debug)]
pub(crate) struct Queue {
    filter: Filter,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Bounded,
    /// Dropped before the first of `events`.
    dropped: u64,
}

impl Hub {
    pub(crate) fn new(engine: broadcast::Receiver<EngineEvent>) -> Hub {
        let (ring, metrics) = (Bounded::default(), Arc::new(Metrics::new()));
        let inner = Inner { engine, ring, last_seq: 0, subscribers: Vec::new(), metrics: metrics.clone() };
        Hub { inner: Mutex::new(inner), metrics }
    }

    /// Hands on all events the engine has published so far.
    pub(crate) fn forward(&self) {
        use broadcast::error::TryRecvError;
        let mut inner = lock(&self.inner);
        loop {
            match inner.engine.try_recv() {
                Ok(event) => inner.publish(event),
                Err(TryRecvError::Lagged(count)) => inner.lost(count),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// The number of the newest event so far.
    pub(crate) fn last_seq(&self) -> u64 {
        lock(&self.inner).last_seq
    }

    /// A queue that gets what `filter` lets through: events later than `since` if given, else events from now on. Past events
    /// that are not kept any more count as dropped.
    pub(crate) fn subscribe(&self, filter: Filter, since: Option<u64>) -> Arc<Queue> {
        self.forward();
        let mut inner = lock(&self.inner);
        let queue = Arc::new(Queue { filter, waiting: Mutex::default(), filled: Notify::new() });
        if let Some(since) = since {
            let oldest = inner.ring.events.front().map_or(inner.last_seq + 1, |event| event.seq);
            lock(&queue.waiting).dropped = oldest.saturating_sub(since.saturating_add(1));
            for event in inner.ring.events.iter().filter(|event| event.seq > since) {
                queue.push(event);
            }
        }
        inner.subscribers.push(Arc::downgrade(&queue));
        queue
    }
}

impl Inner {
    fn publish(&mut self, event: EngineEvent) {
        self.metrics.happened(&event.kind);
        let event = Arc::new(Published::new(event));
        self.metrics.published(&event.event.event_type);
        self.last_seq = event.seq;
        let mut dropped = 0;
        self.subscribers.retain(|subscriber| match subscriber.upgrade() {
            Some(queue) => {
                dropped += queue.push(&event);
                true
            }
            None => false,
        });
        self.metrics.events_dropped(dropped);
        self.ring.push(event, RING_EVENTS, RING_BYTES);
    }

    fn lost(&mut self, count: u64) {
        tracing::warn!(count, "events were lost between the engine and the server");
        self.metrics.events_lost(count);
        for queue in self.subscribers.iter().filter_map(Weak::upgrade) {
            lock(&queue.waiting).dropped += count;
        }
    }
}

impl Queue {
    /// Adds one, if it is wanted, and says how many others had to go for it.
    fn push(&self, event: &Arc<Published>) -> u64 {
        if !self.filter.lets_through(&event.event) {
            return 0;
        }
        let mut waiting = lock(&self.waiting);
        let gone = waiting.events.push(event.clone(), QUEUE_EVENTS, QUEUE_BYTES);
        waiting.dropped += gone;
        drop(waiting);
        self.filled.notify_one();
        gone
    }

    /// How many events wait, and whether any were dropped before them.
    pub(crate) fn len(&self) -> usize {
        let waiting = lock(&self.waiting);
        waiting.events.events.len() + usize::from(waiting.dropped > 0)
    }

    /// The next lines to send, if there are any: an event, under its old name too if that was asked for, and before it how many
    /// were dropped. Chunks of the turns in `asked` name the request.
    pub(crate) fn try_next(&self, asked: &HashMap<Tag, RequestId>) -> Option<Vec<u8>> {
        let (dropped, event) = self.pop()?;
        let lines = event.map(|event| event.lines(&self.filter, asked)).unwrap_or_default();
        Some(match dropped {
            Some((_, told)) => [told, lines].concat(),
            None => lines,
        })
    }

    /// Waits until something may have come that [`Queue::try_next`] has not given out.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// The same as [`Queue::try_next`], each line by itself with its number.
    pub(crate) fn try_next_events(&self) -> Option<Vec<(u64, Vec<u8>)>> {
        let (dropped, event) = self.pop()?;
        let mut lines: Vec<(u64, Vec<u8>)> = dropped.into_iter().collect();
        if let Some(event) = event {
            lines.push((event.seq, event.line.clone()));
            lines.extend(event.under_old_name(&self.filter).map(|old| (event.seq, old)));
        }
        Some(lines)
    }

    /// The same, waiting for them. Nothing is lost if the wait is given up.
    pub(crate) async fn next_events(&self) -> Vec<(u64, Vec<u8>)> {
        loop {
            if let Some(events) = self.try_next_events() {
                return events;
            }
            self.filled.notified().await;
        }
    }

    /// The line that says how many were dropped, if any were, and the event after them, if one waits.
    fn pop(&self) -> Option<Popped> {
        let mut waiting = lock(&self.waiting);
        let dropped = std::mem::take(&mut waiting.dropped);
        let event = waiting.events.pop();
        drop(waiting);
        let told = (dropped > 0).then(|| {
            let told = convert::events_dropped(dropped, event.as_ref().map(|event| event.seq));
            (told.seq, convert::event_line(told))
        });
        (told.is_some() || event.is_some()).then_some((told, event))
    }
}

/// A line with its number, and an event.
type Popped = (Option<(u64, Vec<u8>)>, Option<Arc<Published>>);

/// Events, oldest first, within limits.
#[derive(Debug, Default)]
struct Bounded {
    events: VecDeque<Arc<Published>>,
    bytes: usize,
}

impl Bounded {
    /// Adds one and says how many of the oldest had to go.
    fn push(&mut self, event: Arc<Published>, max_events: usize, max_bytes: usize) -> u64 {
        self.bytes += event.line.len();
        self.events.push_back(event);
        let mut gone = 0;
        while self.events.len() > max_events || (self.bytes > max_bytes && self.events.len() > 1) {
            self.pop();
            gone += 1;
        }
        gone
    }

    fn pop(&mut self) -> Option<Arc<Published>> {
        let event = self.events.pop_front()?;
        self.bytes -= event.line.len();
        Some(event)
    }
}

/// No code panics while it holds one of these locks; if it did, the events inside would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use nerve_core::command::{EventKind, GraphEvent, GraphEventKind};
    use nerve_term::event::TsNs;
    use serde_json::Value;

    use super::*;

    struct Engine {
        events: broadcast::Sender<EngineEvent>,
        seq: u64,
    }

    impl Engine {
        fn with_hub() -> (Engine, Hub) {
            let (events, receiver) = broadcast::channel(8192);
            (Engine { events, seq: 0 }, Hub::new(receiver))
        }

        fn publish(&mut self, node: &str, kind: EventKind) {
            self.seq += 1;
            let node = Some(node.to_string());
            self.events.send(EngineEvent { seq: self.seq, at: TsNs(0), node, session: None, kind }).unwrap();
        }

        fn ready(&mut self, node: &str) {
            self.publish(node, EventKind::NodeReady { evidence: String::new() });
        }
    }

    /// What waits in a queue: type and number, for dropped ones type and count.
    fn drain(queue: &Queue) -> Vec<(String, u64)> {
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
    fn a_full_queue_drops_the_oldest_and_says_how_many_where_they_were() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter::default(), None);
        for _ in 0..QUEUE_EVENTS + 10 {
            engine.ready("a");
        }
        hub.forward();
        let seen = drain(&queue);
        assert_eq!(seen[0], ("EVENTS_DROPPED".to_string(), 10));
        assert_eq!(seen[1], ("NODE_READY".to_string(), 11));
        assert_eq!(seen.len(), QUEUE_EVENTS + 1);
    }

    #[test]
    fn large_events_count_by_their_bytes() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter::default(), None);
        for turn in 0..10 {
            engine.publish("a", EventKind::OutputChunk { turn, tag: None, chunk: "x".repeat(1024 * 1024) });
        }
        hub.forward();
        let seen = drain(&queue);
        assert_eq!(seen[0], ("EVENTS_DROPPED".to_string(), 3), "{seen:?}");
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn what_is_filtered_out_takes_no_room_and_is_not_counted() {
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
        engine.publish("b", EventKind::NodeCreated { kind: "pty", forked_from: None });
        hub.forward();
        assert_eq!(drain(&queue), [("NODE_READY".to_string(), 1)]);
    }

    #[test]
    fn of_one_run_only_its_own_events_come() {
        let (mut engine, hub) = Engine::with_hub();
        let queue = hub.subscribe(Filter { run: Some("r1".to_string()), ..Filter::default() }, None);
        for run in ["r1", "r2"] {
            let kind = GraphEventKind::Started { steps: 1, resumed: false };
            let event = GraphEvent { run: run.to_string(), graph: "g".to_string(), kind };
            engine.publish("a", EventKind::Graph(Box::new(event)));
            engine.ready("r1");
        }
        hub.forward();
        assert_eq!(drain(&queue), [("GRAPH_STARTED".to_string(), 1)]);
    }

    #[test]
    fn past_events_come_first_and_what_is_not_kept_any_more_counts_as_dropped() {
        let (mut engine, hub) = Engine::with_hub();
        for _ in 0..RING_EVENTS + 100 {
            engine.ready("a");
        }
        hub.forward();
        let last = engine.seq;
        let tail = hub.subscribe(Filter::default(), Some(last - 2));
        engine.ready("a");
        hub.forward();
        let ready = |seq| ("NODE_READY".to_string(), seq);
        assert_eq!(drain(&tail), [ready(last - 1), ready(last), ready(last + 1)]);
        let all = Filter { types: Some(vec![EventType::NodeReady]), ..Filter::default() };
        let queue = hub.subscribe(all, Some(0));
        // 101 are gone from the ring, the rest does not fit into one queue: the newest are there, the count is right.
        let seen = drain(&queue);
        assert_eq!(seen[0], ("EVENTS_DROPPED".to_string(), last + 1 - QUEUE_EVENTS as u64));
        assert_eq!(seen.len(), QUEUE_EVENTS + 1);
        let future = hub.subscribe(Filter::default(), Some(last + 1000));
        assert_eq!(drain(&future), []);
    }

    #[test]
    fn a_hub_that_was_too_slow_for_the_engine_tells_all() {
        let (events, receiver) = broadcast::channel(4);
        let (mut engine, hub) = (Engine { events, seq: 0 }, Hub::new(receiver));
        let queue = hub.subscribe(Filter::default(), None);
        for _ in 0..10 {
            engine.ready("a");
        }
        hub.forward();
        assert_eq!(drain(&queue)[..2], [("EVENTS_DROPPED".to_string(), 6), ("NODE_READY".to_string(), 7)]);
    }

    #[test]
    fn subscribers_that_are_gone_are_forgotten() {
        let (mut engine, hub) = Engine::with_hub();
        for _ in 0..10 {
            drop(hub.subscribe(Filter::default(), None));
        }
        engine.ready("a");
        hub.forward();
        assert_eq!(lock(&hub.inner).subscribers.len(), 0);
    }
}
