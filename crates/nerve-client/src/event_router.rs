//! State of a client that outlives a connection: events, warnings, request ids, and the position in the
//! server's events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::SystemTime;

use nerve_api::reply::Subscribed;
use nerve_api::{EventMessage, EventType};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast};

/// Capacity of an event stream; a slow reader loses the oldest events.
const EVENT_QUEUE: usize = 1024;

/// Maximum number of warnings that are kept.
const MAX_WARNINGS: usize = 64;

pub(crate) type Events = broadcast::Receiver<Arc<EventMessage>>;

/// Distributes events to streams. Shared by all connections of one client.
#[derive(Debug, Default)]
pub(crate) struct EventRouter {
    state: Mutex<State>,
    last_id: AtomicI64,
    unmatched: AtomicU64,
    /// A connection that ends is replaced.
    reconnects: AtomicBool,
    disconnected: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: Option<broadcast::Sender<Arc<EventMessage>>>,
    /// No more events will arrive.
    has_ended: bool,
    /// Parameters of the last SUBSCRIBE, without `since`.
    filter: Option<Map<String, Value>>,
    position: Position,
    warnings: Vec<String>,
}

/// The position in a server's events: its id, and the number of the last event received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position {
    server: Option<String>,
    seq: Option<u64>,
}

impl Position {
    /// Returns true if the reply comes from another server, whose event numbers start over.
    fn is_other_server(&self, reply: &Subscribed) -> bool {
        match (&self.server, &reply.server) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => self.seq.is_some_and(|seq| reply.seq < seq),
        }
    }
}

/// A SUBSCRIBE request.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    /// Parameters without `since`.
    pub(crate) filter: Option<Map<String, Value>>,
    pub(crate) since: Option<u64>,
    pub(crate) purpose: Purpose,
}

/// Reason for a SUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The user requested it, or created an event stream.
    Requested,
    /// A new connection resumes after the last event.
    Resume,
    /// The server is a different one, and all its events are new.
    Restart,
}

impl Subscription {
    /// Returns the subscription that the user's SUBSCRIBE line requests.
    pub(crate) fn requested(line: &[u8]) -> Option<Subscription> {
        #[derive(Deserialize)]
        struct SubscribeLine {
            params: Map<String, Value>,
        }
        let SubscribeLine { params: mut filter } = serde_json::from_slice(line).ok()?;
        let since = filter.remove("since").and_then(|since| since.as_u64());
        Some(Subscription { filter: Some(filter), since, purpose: Purpose::Requested })
    }

    /// Returns the subscription to all new events.
    pub(crate) fn all() -> Subscription {
        Subscription { filter: Some(Map::new()), since: None, purpose: Purpose::Requested }
    }

    /// Returns the same subscription from the beginning of the server's events.
    pub(crate) fn restarted(self) -> Subscription {
        Subscription { since: Some(0), purpose: Purpose::Restart, ..self }
    }

    /// Returns the parameters of the command.
    pub(crate) fn params(&self) -> Map<String, Value> {
        let mut params = self.filter.clone().unwrap_or_default();
        if let Some(since) = self.since {
            params.insert("since".to_string(), since.into());
        }
        params
    }
}

impl EventRouter {
    /// Creates the router. `reconnects`: a connection that ends is replaced.
    pub(crate) fn new(reconnects: bool) -> EventRouter {
        EventRouter { reconnects: AtomicBool::new(reconnects), ..EventRouter::default() }
    }

    /// Returns a request id that is unique within the client, over all its connections.
    pub(crate) fn new_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts an unexpected reply. Replies to requests that were given up are expected.
    pub(crate) fn count_unmatched(&self, id: Option<i64>) {
        if id.is_none_or(|id| !(1..=self.last_id.load(Ordering::Relaxed)).contains(&id)) {
            self.unmatched.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }

    pub(crate) fn warn(&self, warnings: Vec<String>) {
        if warnings.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for warning in warnings {
            if state.warnings.len() < MAX_WARNINGS && !state.warnings.contains(&warning) {
                state.warnings.push(warning);
            }
        }
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().warnings)
    }

    /// Subscribes to new events. The stream is empty if the client has ended.
    pub(crate) fn listen(&self) -> Events {
        let mut state = self.state.lock();
        match state.has_ended {
            true => broadcast::channel(1).1,
            false => state.events.get_or_insert_with(|| broadcast::channel(EVENT_QUEUE).0).subscribe(),
        }
    }

    /// Returns true if there are event streams.
    pub(crate) fn has_listeners(&self) -> bool {
        self.state.lock().events.as_ref().is_some_and(|events| events.receiver_count() > 0)
    }

    /// Returns true if the server has accepted a SUBSCRIBE.
    pub(crate) fn has_filter(&self) -> bool {
        self.state.lock().filter.is_some()
    }

    pub(crate) fn publish(&self, event: EventMessage) {
        let mut state = self.state.lock();
        if event.seq > 0 && event.event_type != EventType::EventsDropped.as_str() {
            state.position.seq = Some(event.seq);
        }
        state.publish(event);
    }

    /// Ends the current streams after the events that they hold. Later ones may get events from a new
    /// connection.
    pub(crate) fn end_streams(&self) {
        self.state.lock().events = None;
    }

    /// Ends all streams, current and later ones.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.events = None;
    }

    /// Sets whether a connection that ends is replaced.
    pub(crate) fn set_reconnects(&self, reconnects: bool) {
        self.reconnects.store(reconnects, Ordering::Release);
    }

    pub(crate) fn reconnects(&self) -> bool {
        self.reconnects.load(Ordering::Acquire)
    }

    /// Records the end of a connection. `permanent`: a new one would not help.
    pub(crate) fn connection_ended(&self, permanent: bool) {
        if permanent || !self.reconnects() {
            self.end();
        }
        self.disconnected.notify_one();
    }

    /// Waits until a connection is missing.
    pub(crate) async fn wait_disconnected(&self) {
        self.disconnected.notified().await;
    }

    /// Reports that a connection is missing.
    pub(crate) fn notify_disconnected(&self) {
        self.disconnected.notify_one();
    }

    /// Returns the SUBSCRIBE that restores the state of the last connection, if one is needed.
    pub(crate) fn resume_subscription(&self) -> Option<Subscription> {
        let has_listeners = self.has_listeners();
        let state = self.state.lock();
        let since = state.position.seq.filter(|_| has_listeners);
        (has_listeners || state.filter.is_some()).then(|| Subscription {
            filter: state.filter.clone(),
            since,
            purpose: Purpose::Resume,
        })
    }

    /// Handles the reply to a SUBSCRIBE: the following events belong to it. Returns false if the reply comes
    /// from a different server; the subscription must then be restarted.
    pub(crate) fn apply_subscription(&self, requested: &Subscription, reply: Subscribed) -> bool {
        let mut state = self.state.lock();
        match requested.purpose {
            Purpose::Requested => state.filter.clone_from(&requested.filter),
            Purpose::Resume if requested.since.is_some() && state.position.is_other_server(&reply) => {
                return false;
            }
            // The position is unknown: the last connection delivered no event.
            Purpose::Resume if requested.since.is_none() => state.publish(dropped_event(None)),
            Purpose::Resume => {}
            Purpose::Restart => state.publish(dropped_event(None)),
        }
        let seq = requested.since.filter(|since| *since <= reply.seq).unwrap_or(reply.seq);
        state.position = Position { server: reply.server, seq: Some(seq) };
        true
    }
}

impl State {
    fn publish(&self, event: EventMessage) {
        if let Some(events) = &self.events {
            // Fails only without receivers.
            let _ = events.send(Arc::new(event));
        }
    }
}

/// Creates an EVENTS_DROPPED. `dropped`: the number of lost events, if known.
pub(crate) fn dropped_event(dropped: Option<u64>) -> EventMessage {
    EventMessage::events_dropped(dropped, SystemTime::now().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(seq: u64, server: &str) -> Subscribed {
        let server = (!server.is_empty()).then(|| server.to_string());
        Subscribed { subscribed: true, seq, server }
    }

    fn event(seq: u64) -> EventMessage {
        EventMessage { seq, event_type: "NODE_READY".to_string(), ..dropped_event(None) }
    }

    #[test]
    fn other_server_is_recognized_by_id_or_lower_seq() {
        let position = |server: &str| Position { server: reply(0, server).server, seq: Some(7) };
        for (ours, theirs, seq, is_other) in [
            ("a", "a", 9, false),
            ("a", "b", 9, true),
            ("a", "b", 3, true),
            ("", "b", 9, false),
            ("", "b", 3, true),
            ("a", "", 3, true),
            ("", "", 7, false),
        ] {
            let found = position(ours).is_other_server(&reply(seq, theirs));
            assert_eq!(found, is_other, "{ours:?} {theirs:?} {seq}");
        }
        assert!(!Position::default().is_other_server(&reply(0, "b")));
    }

    #[test]
    fn new_connection_resumes_after_last_event() {
        let router = EventRouter::default();
        assert!(router.resume_subscription().is_none());
        router.publish(event(4));
        assert!(router.resume_subscription().is_none());
        let mut events = router.listen();
        router.publish(event(5));
        let resume = router.resume_subscription().unwrap();
        assert_eq!((resume.params(), resume.purpose), (resume.clone().params(), Purpose::Resume));
        assert_eq!(Value::Object(resume.params()), serde_json::json!({ "since": 5 }));
        assert!(router.apply_subscription(&resume, reply(8, "a")));
        router.publish(event(6));
        let resume = router.resume_subscription().unwrap();
        assert_eq!(resume.since, Some(6));
        // The server was restarted: its events count only after a subscription from the beginning.
        assert!(!router.apply_subscription(&resume, reply(90, "b")));
        assert!(router.apply_subscription(&resume.restarted(), reply(90, "b")));
        let seen: Vec<u64> = std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.seq).collect();
        assert_eq!(seen, [5, 6, 0]);
        assert_eq!(router.resume_subscription().unwrap().since, Some(0));
    }

    #[test]
    fn filter_is_restored_without_listeners() {
        let router = EventRouter::default();
        let line = br#"{"type":"command","params":{"node_id":"a","since":3},"request_id":"1"}"#;
        let requested = Subscription::requested(line).unwrap();
        assert!(router.apply_subscription(&requested, reply(8, "a")));
        let resume = router.resume_subscription().unwrap();
        assert_eq!(Value::Object(resume.params()), serde_json::json!({ "node_id": "a" }));
        let _events = router.listen();
        // Events after 3 had not arrived yet.
        assert_eq!(router.resume_subscription().unwrap().since, Some(3));
    }

    #[test]
    fn only_unexpected_replies_are_counted() {
        let router = EventRouter::default();
        let id = router.new_id();
        router.count_unmatched(Some(id));
        assert_eq!(router.unmatched(), 0);
        for strange in [None, Some(0), Some(id + 1), Some(-1)] {
            router.count_unmatched(strange);
        }
        assert_eq!(router.unmatched(), 4);
    }
}
