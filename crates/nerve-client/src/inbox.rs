//! What the connections of one client leave for it, one after the other: events, warnings, and how far it has come in the events.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_api::reply::Subscribed;
use nerve_api::{EventMessage, EventType};
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast};

use crate::events::dropped_event;

/// Events kept for a reader that is slow; then the oldest are lost, and it is told.
const EVENT_QUEUE: usize = 1024;

/// Warnings kept until somebody takes them.
const KEPT_WARNINGS: usize = 64;

pub(crate) type Events = broadcast::Receiver<Arc<EventMessage>>;

/// Shared by all that is of one client.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    last_id: AtomicI64,
    unmatched: AtomicU64,
    /// A connection that ends is followed by another one.
    goes_on: AtomicBool,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: Option<broadcast::Sender<Arc<EventMessage>>>,
    /// There will be no events any more.
    over: bool,
    /// The params of the last SUBSCRIBE, `since` left out.
    filter: Option<Map<String, Value>>,
    place: Place,
    warnings: Vec<String>,
}

/// How far a client has come in the events of which server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Place {
    server: Option<String>,
    seq: Option<u64>,
}

impl Place {
    /// The server that says this counts its events anew.
    fn is_elsewhere(&self, told: &Subscribed) -> bool {
        match (&self.server, &told.server) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => self.seq.is_some_and(|seq| told.seq < seq),
        }
    }
}

/// A SUBSCRIBE that is on its way.
#[derive(Debug, Clone)]
pub(crate) struct Subscribing {
    /// Its params, `since` left out.
    pub(crate) filter: Option<Map<String, Value>>,
    pub(crate) since: Option<u64>,
    pub(crate) why: Why,
}

/// What a SUBSCRIBE is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody wants these events.
    Asked,
    /// A new connection goes on where the last one ended.
    Resume,
    /// It leads to another server, all of whose events are new.
    Anew,
}

impl Subscribing {
    /// What somebody asks for with these params.
    pub(crate) fn asked(params: &Map<String, Value>) -> Subscribing {
        let mut filter = params.clone();
        let since = filter.remove("since").and_then(|since| since.as_u64());
        Subscribing { filter: Some(filter), since, why: Why::Asked }
    }

    /// The same events once more, from all that the server has.
    pub(crate) fn anew(self) -> Subscribing {
        Subscribing { since: Some(0), why: Why::Anew, ..self }
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

impl Inbox {
    /// `goes_on`: a connection that ends is followed by another one.
    pub(crate) fn new(goes_on: bool) -> Inbox {
        Inbox { goes_on: AtomicBool::new(goes_on), ..Inbox::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a new request; no other one of this client has it, over whatever connection.
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
            if state.warnings.len() < KEPT_WARNINGS && !state.warnings.contains(&warning) {
                state.warnings.push(warning);
            }
        }
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state().warnings)
    }

    /// Events from now on; of a client that has ended none.
    pub(crate) fn listen(&self) -> Events {
        let mut state = self.state();
        match state.over {
            true => broadcast::channel(1).1,
            false => state.events.get_or_insert_with(|| broadcast::channel(EVENT_QUEUE).0).subscribe(),
        }
    }

    /// Somebody reads events.
    pub(crate) fn is_heard(&self) -> bool {
        self.state().events.as_ref().is_some_and(|events| events.receiver_count() > 0)
    }

    pub(crate) fn publish(&self, event: EventMessage) {
        let mut state = self.state();
        if event.seq > 0 && event.event_type != EventType::EventsDropped.as_str() {
            state.place.seq = Some(event.seq);
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
        state.over = true;
        state.events = None;
    }

    /// Whether a connection that ends is followed by another one.
    pub(crate) fn set_goes_on(&self, goes_on: bool) {
        self.goes_on.store(goes_on, Ordering::Release);
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Acquire)
    }

    /// A connection has ended; `for_good` when no other one would be better.
    pub(crate) fn connection_ended(&self, for_good: bool) {
        if for_good || !self.goes_on() {
            self.end();
        }
        self.ended.notify_one();
    }

    /// Waits until a connection is missing.
    pub(crate) async fn missing(&self) {
        self.ended.notified().await;
    }

    /// Says that a connection is missing.
    pub(crate) fn miss(&self) {
        self.ended.notify_one();
    }

    /// What a new connection must ask for before it is as the last one was; `None` if nothing.
    pub(crate) fn to_resume(&self) -> Option<Subscribing> {
        let heard = self.is_heard();
        let state = self.state();
        let since = state.place.seq.filter(|_| heard);
        (heard || state.filter.is_some()).then(|| Subscribing {
            filter: state.filter.clone(),
            since,
            why: Why::Resume,
        })
    }

    /// The server has taken a SUBSCRIBE: what comes from here on is what was asked for. Not so where it turns out to be another server:
    /// then gives false, and it must be asked anew.
    pub(crate) fn subscribed(&self, asked: &Subscribing, told: Subscribed) -> bool {
        let mut state = self.state();
        match asked.why {
            Why::Asked => state.filter.clone_from(&asked.filter),
            Why::Resume if asked.since.is_some() && state.place.is_elsewhere(&told) => return false,
            // Where the last connection ended is not known: no event came over it.
            Why::Resume if asked.since.is_none() => state.publish(dropped_event(None)),
            Why::Resume => {}
            Why::Anew => state.publish(dropped_event(None)),
        }
        let seq = asked.since.filter(|since| *since <= told.seq).unwrap_or(told.seq);
        state.place = Place { server: told.server, seq: Some(seq) };
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

    fn told(seq: u64, server: &str) -> Subscribed {
        let server = (!server.is_empty()).then(|| server.to_string());
        Subscribed { subscribed: true, seq, server }
    }

    fn event(seq: u64) -> EventMessage {
        EventMessage { seq, event_type: "NODE_READY".to_string(), ..dropped_event(None) }
    }

    #[test]
    fn another_server_is_known_by_its_name_and_else_by_events_that_count_from_one_again() {
        let place = |server: &str| Place { server: told(0, server).server, seq: Some(7) };
        for (ours, theirs, seq, elsewhere) in [
            ("a", "a", 9, false),
            ("a", "b", 9, true),
            ("a", "b", 3, true),
            ("", "b", 9, false),
            ("", "b", 3, true),
            ("a", "", 3, true),
            ("", "", 7, false),
        ] {
            let found = place(ours).is_elsewhere(&told(seq, theirs));
            assert_eq!(found, elsewhere, "{ours:?} {theirs:?} {seq}");
        }
        assert!(!Place::default().is_elsewhere(&told(0, "b")));
    }

    #[test]
    fn a_connection_goes_on_where_the_last_one_ended_if_somebody_listens() {
        let inbox = Inbox::default();
        assert!(inbox.to_resume().is_none());
        inbox.publish(event(4));
        assert!(inbox.to_resume().is_none());
        let mut events = inbox.listen();
        inbox.publish(event(5));
        let resume = inbox.to_resume().unwrap();
        assert_eq!((resume.params(), resume.why), (resume.clone().params(), Why::Resume));
        assert_eq!(Value::Object(resume.params()), serde_json::json!({ "since": 5 }));
        assert!(inbox.subscribed(&resume, told(8, "a")));
        inbox.publish(event(6));
        let resume = inbox.to_resume().unwrap();
        assert_eq!(resume.since, Some(6));
        // It was started anew meanwhile: nothing is believed of it until all that it has was asked for.
        assert!(!inbox.subscribed(&resume, told(90, "b")));
        assert!(inbox.subscribed(&resume.anew(), told(90, "b")));
        let seen: Vec<u64> = std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.seq).collect();
        assert_eq!(seen, [5, 6, 0]);
        assert_eq!(inbox.to_resume().unwrap().since, Some(0));
    }

    #[test]
    fn a_filter_is_asked_for_again_whoever_listens() {
        let inbox = Inbox::default();
        let params = serde_json::json!({ "node_id": "a", "since": 3 });
        let asked = Subscribing::asked(params.as_object().unwrap());
        assert!(inbox.subscribed(&asked, told(8, "a")));
        let resume = inbox.to_resume().unwrap();
        assert_eq!(Value::Object(resume.params()), serde_json::json!({ "node_id": "a" }));
        let _events = inbox.listen();
        // Events after 3 were still to come.
        assert_eq!(inbox.to_resume().unwrap().since, Some(3));
    }

    #[test]
    fn only_answers_to_what_was_never_asked_are_counted() {
        let inbox = Inbox::default();
        let id = inbox.new_id();
        inbox.count_unmatched(Some(id));
        assert_eq!(inbox.unmatched(), 0);
        for strange in [None, Some(0), Some(id + 1), Some(-1)] {
            inbox.count_unmatched(strange);
        }
        assert_eq!(inbox.unmatched(), 4);
    }
}
