//! What is under way on a connection that carries many requests at a time, and since when nothing is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body_guard::Watch;
use super::gate::Guest;
use super::idle_timeout;

/// An answer of which a client takes nothing for so long is given up, as TCP does it with one over HTTP/1.1; the client with it, if it takes
/// nothing of any.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// Requests of one connection, from their head to the end of their answer.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    begun: u64,
    /// By number. Few, for a connection has few at a time.
    open: BTreeMap<u64, Open>,
    /// When the last request came.
    asked: Instant,
    /// When the last one ended.
    ended: Instant,
}

#[derive(Debug, Default)]
struct Open {
    /// A piece of its answer was given then, and none wanted since.
    given: Option<Instant>,
    /// What to tell when it is given up.
    given_up: CancellationToken,
}

impl State {
    /// Gives up the answers of which nothing was taken for too long. When to look again; `None`: those are all there are.
    fn give_up(&mut self, now: Instant) -> Option<Option<Instant>> {
        let late = |open: &Open| open.given.is_some_and(|given| given + TAKEN_WITHIN <= now);
        if self.open.values().all(late) {
            return None;
        }
        for open in self.open.values().filter(|open| late(open)) {
            open.given_up.cancel();
        }
        let waited_for = self.open.values().filter(|open| !late(open)).filter_map(|open| open.given);
        Some(waited_for.min().map(|given| given + TAKEN_WITHIN))
    }
}

/// One request that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    activity: Activity,
    number: u64,
}

impl Activity {
    pub(super) fn new() -> Activity {
        let now = Instant::now();
        let state = Mutex::new(State { begun: 0, open: BTreeMap::new(), asked: now, ended: now });
        Activity(Arc::new(Inner { state, changed: Notify::new() }))
    }

    /// A request has come.
    pub(super) fn begin(&self) -> UnderWay {
        let mut state = self.lock();
        state.begun += 1;
        state.asked = Instant::now();
        let number = state.begun;
        state.open.insert(number, Open::default());
        drop(state);
        self.0.changed.notify_one();
        UnderWay { activity: self.clone(), number }
    }

    /// Ends when the client has been silent for too long, or takes nothing of its answers: one that has shown the token, from the end of its last request on; a stranger from the
    /// beginning of it, for who takes an answer slowly would keep its place.
    pub(super) async fn silence(&self, guest: &Guest) {
        loop {
            let changed = self.0.changed.notified();
            let until = {
                let mut state = self.lock();
                match (guest.is_in(), state.open.is_empty()) {
                    (false, _) => Some(state.asked + idle_timeout::STRANGERS),
                    (true, true) => Some(state.ended + idle_timeout::GUESTS),
                    (true, false) => match state.give_up(Instant::now()) {
                        Some(next) => next,
                        None => return,
                    },
                }
            };
            let Some(until) = until else {
                changed.await;
                continue;
            };
            if until <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = changed => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// What is told when its answer is given up.
    pub(super) fn given_up_with(self, given_up: &CancellationToken) -> UnderWay {
        if let Some(open) = self.activity.lock().open.get_mut(&self.number) {
            open.given_up = given_up.clone();
        }
        self
    }

    /// Notes when a piece was given; what was noted before.
    fn note(&self, given: Option<Instant>) -> Option<Instant> {
        let mut state = self.activity.lock();
        state.open.get_mut(&self.number).and_then(|open| std::mem::replace(&mut open.given, given))
    }
}

impl Watch for UnderWay {
    fn wanted(&self) {
        self.note(None);
    }

    fn given(&self) {
        if self.note(Some(Instant::now())).is_none() {
            self.activity.0.changed.notify_one();
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.open.remove(&self.number);
        state.ended = Instant::now();
        drop(state);
        self.activity.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::server::Clients;

    #[tokio::test(start_paused = true)]
    async fn a_stranger_is_measured_from_its_last_question_and_a_guest_from_the_end_of_its_last_answer() {
        let clients = Clients::new(1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (stranger, _) = clients.strangers.take(peer);
        let guest = Guest::new(peer, stranger);
        let activity = Activity::new();
        let slow = activity.begin();
        let started = Instant::now();
        activity.silence(&guest).await;
        assert_eq!(started.elapsed(), idle_timeout::STRANGERS);

        assert!(guest.come_in(&clients, crate::access::Pass::of_test()).is_ok());
        let still_there = tokio::time::timeout(Duration::from_secs(3600), activity.silence(&guest)).await;
        assert!(still_there.is_err(), "it was given up in the middle of an answer");
        slow.given();
        let started = Instant::now();
        activity.silence(&guest).await;
        assert_eq!(started.elapsed(), TAKEN_WITHIN);
        drop(slow);
        let started = Instant::now();
        activity.silence(&guest).await;
        assert_eq!(started.elapsed(), idle_timeout::GUESTS);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_ends_alone_and_the_last_with_the_connection() {
        let clients = Clients::new(1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let guest = Guest::new(peer, clients.strangers.take(peer).0);
        assert!(guest.come_in(&clients, crate::access::Pass::of_test()).is_ok());
        let activity = Activity::new();
        let tokens = [CancellationToken::new(), CancellationToken::new()];
        let [stalled, taken] = tokens.each_ref().map(|token| activity.begin().given_up_with(token));
        stalled.given();
        let started = Instant::now();
        tokio::select! {
            () = activity.silence(&guest) => panic!("all of it was given up"),
            () = tokens[0].cancelled() => {}
        }
        assert_eq!(started.elapsed(), TAKEN_WITHIN);
        assert!(!tokens[1].is_cancelled());
        drop(stalled);
        taken.given();
        let started = Instant::now();
        activity.silence(&guest).await;
        assert_eq!(started.elapsed(), TAKEN_WITHIN);
    }
}
