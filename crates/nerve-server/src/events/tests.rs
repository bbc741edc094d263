//! Queues of subscribers: order, limits, filters and past events.

use std::collections::HashMap;

use nerve_api::{EventKind, EventType, RunIds};
use serde_json::Value;

use super::queue::QUEUE_EVENTS;
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
    assert_eq!((before.start, after.start), (0, 1));
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
    let filter =
        Filter { node: Some("b".to_string()), types: Some(vec![EventType::NodeReady]), ..Filter::default() };
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
