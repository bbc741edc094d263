//! What the connections of one client leave for it, one after the other: events, warnings, and how far it has come in the events.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_proto::data::SubscribedData;
use nerve_proto::{EventMessage, EventType};
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast};

use crate::events::dropped_event;

/// Events kept for a reader that is slow; then the oldest are lost, and it is reply.
const EVENT_QUEUE: usize = 1024;

/// Warnings kept until somebody takes them.
const MAX_WARNINGS: usize = 64;

pub(crate) type Events = broadcast::Receiver<Arc<EventMessage>>;

/// Shared by all that is of one client.
#[derive(Debug, Default)]
pub(crate) struct EventRouter {
    state: Mutex<State>,
    last_id: AtomicI64,
    unmatched: AtomicU64,
    /// A connection that ends is followed by another one.
    reconnects: AtomicBool,
    disconnected: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: Option<broadcast::Sender<Arc<EventMessage>>>,
    /// There will be no events any more.
    has_ended: bool,
    /// The params of the last SUBSCRIBE, `since` left out.
    filter: Option<Map<String, Value>>,
    position: Position,
    warnings: Vec<String>,
}

/// How far a client has come in the events of which server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position {
    server: Option<String>,
    seq: Option<u64>,
}

impl Position {
    /// The server that says this counts its events restarted.
    fn is_other_server(&self, reply: &SubscribedData) -> bool {
        match (&self.server, &reply.server) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => self.seq.is_some_and(|seq| reply.seq < seq),
        }
    }
}

/// A SUBSCRIBE that is on its way.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    /// Its params, `since` left out.
    pub(crate) filter: Option<Map<String, Value>>,
    pub(crate) since: Option<u64>,
    pub(crate) purpose: Purpose,
}

/// What a SUBSCRIBE is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody wants these events.
    Requested,
    /// A new connection goes on where the last one disconnected.
    Resume,
    /// It leads to another server, all of whose events are new.
    Restart,
}

impl Subscription {
    /// What somebody asks for with these params.
    pub(crate) fn requested(params: &Map<String, Value>) -> Subscription {
        let mut filter = params.clone();
        let since = filter.remove("since").and_then(|since| since.as_u64());
        Subscription { filter: Some(filter), since, purpose: Purpose::Requested }
    }

    /// The same events once more, from all that the server has.
    pub(crate) fn restarted(self) -> Subscription {
        Subscription { since: Some(0), purpose: Purpose::Restart, ..self }
    }

    /// The params of the command.
    pub(crate) fn params(&self) -> Map<String, Value> {
        let mut params = self.filter.clone().unwrap_or_default();
        if let Some(since) = self.since {
            params.insert("since".to_string(), since.into());
        }
        params
    }
}

impl EventRouter {
    /// `reconnects`: a connection that ends is followed by another one.
    pub(crate) fn new(reconnects: bool) -> EventRouter {
        EventRouter { reconnects: AtomicBool::new(reconnects), ..EventRouter::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a new request; no other one of this client has it, has_ended whatever connection.
    pub(crate) fn new_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An answer came that no open request waits for. One to a request that was given up is no surprise, any other is counted.
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
        let mut state = self.state();
        for warning in warnings {
            if state.warnings.len() < MAX_WARNINGS && !state.warnings.contains(&warning) {
                state.warnings.push(warning);
            }
        }
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state().warnings)
    }

    /// Events from now on; of a client that has disconnected none.
    pub(crate) fn listen(&self) -> Events {
        let mut state = self.state();
        match state.has_ended {
            true => broadcast::channel(1).1,
            false => state.events.get_or_insert_with(|| broadcast::channel(EVENT_QUEUE).0).subscribe(),
        }
    }

    /// Somebody reads events.
    pub(crate) fn has_listeners(&self) -> bool {
        self.state().events.as_ref().is_some_and(|events| events.receiver_count() > 0)
    }

    pub(crate) fn publish(&self, event: EventMessage) {
        let mut state = self.state();
        if event.seq > 0 && event.event_type != EventType::EventsDropped.as_str() {
            state.position.seq = Some(event.seq);
        }
        state.publish(event);
    }

    /// Streams end after what they hold; later ones may begin if another connection comes about.
    pub(crate) fn end_streams(&self) {
        self.state().events = None;
    }

    /// Streams end, now and later.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.events = None;
    }

    /// Whether a connection that ends is followed by another one.
    pub(crate) fn set_reconnects(&self, reconnects: bool) {
        self.reconnects.store(reconnects, Ordering::Release);
    }

    pub(crate) fn reconnects(&self) -> bool {
        self.reconnects.load(Ordering::Acquire)
    }

    /// A connection has disconnected; `permanent` when no other one would be better.
    pub(crate) fn connection_ended(&self, permanent: bool) {
        if permanent || !self.reconnects() {
            self.end();
        }
        self.disconnected.notify_one();
    }

    /// Waits until a connection is wait_disconnected.
    pub(crate) async fn wait_disconnected(&self) {
        self.disconnected.notified().await;
    }

    /// Says that a connection is wait_disconnected.
    pub(crate) fn notify_disconnected(&self) {
        self.disconnected.notify_one();
    }

    /// What a new connection must ask for before it is as the last one was; `None` if nothing.
    pub(crate) fn resume_subscription(&self) -> Option<Subscription> {
        let heard = self.has_listeners();
        let state = self.state();
        let since = state.position.seq.filter(|_| heard);
        (heard || state.filter.is_some()).then(|| Subscription {
            filter: state.filter.clone(),
            since,
            purpose: Purpose::Resume,
        })
    }

    /// The server has taken a SUBSCRIBE: what comes from here on is what was requested for. Not so where it turns out to be another server:
    /// then gives false, and it must be requested restarted.
    pub(crate) fn subscribed(&self, requested: &Subscription, reply: SubscribedData) -> bool {
        let mut state = self.state();
        match requested.purpose {
            Purpose::Requested => state.filter.clone_from(&requested.filter),
            Purpose::Resume if requested.since.is_some() && state.position.is_other_server(&reply) => {
                return false;
            }
            // Where the last connection disconnected is not known: no event came has_ended it.
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
            // Fails when nobody listens.
            let _ = events.send(Arc::new(event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(seq: u64, server: &str) -> SubscribedData {
        let server = (!server.is_empty()).then(|| server.to_string());
        SubscribedData { subscribed: true, seq, server }
    }

    fn event(seq: u64) -> EventMessage {
        EventMessage { seq, event_type: "NODE_READY".to_string(), ..dropped_event(None) }
    }

    #[test]
    fn another_server_is_known_by_its_name_and_else_by_events_that_count_from_one_again() {
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
    fn a_connection_goes_on_where_the_last_one_ended_if_somebody_listens() {
        let router = EventRouter::default();
        assert!(router.resume_subscription().is_none());
        router.publish(event(4));
        assert!(router.resume_subscription().is_none());
        let mut events = router.listen();
        router.publish(event(5));
        let resume = router.resume_subscription().unwrap();
        assert_eq!((resume.params(), resume.purpose), (resume.clone().params(), Purpose::Resume));
        assert_eq!(Value::Object(resume.params()), serde_json::json!({ "since": 5 }));
        assert!(router.subscribed(&resume, reply(8, "a")));
        router.publish(event(6));
        let resume = router.resume_subscription().unwrap();
        assert_eq!(resume.since, Some(6));
        // It was started restarted meanwhile: nothing is believed of it until all that it has was requested for.
        assert!(!router.subscribed(&resume, reply(90, "b")));
        assert!(router.subscribed(&resume.restarted(), reply(90, "b")));
        let seen: Vec<u64> = std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.seq).collect();
        assert_eq!(seen, [5, 6, 0]);
        assert_eq!(router.resume_subscription().unwrap().since, Some(0));
    }

    #[test]
    fn a_filter_is_asked_for_again_whoever_listens() {
        let router = EventRouter::default();
        let params = serde_json::json!({ "node_id": "a", "since": 3 });
        let requested = Subscription::requested(params.as_object().unwrap());
        assert!(router.subscribed(&requested, reply(8, "a")));
        let resume = router.resume_subscription().unwrap();
        assert_eq!(Value::Object(resume.params()), serde_json::json!({ "node_id": "a" }));
        let _events = router.listen();
        // Events after 3 were still to come.
        assert_eq!(router.resume_subscription().unwrap().since, Some(3));
    }

    #[test]
    fn only_answers_to_what_was_never_asked_are_counted() {
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
