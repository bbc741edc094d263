//! What is under way on a connection that carries many requests at a time, and since when nothing is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::gate::Guest;
use super::holding::Watch;
use super::patience;

/// A client that takes nothing of an answer for so long is given up, as TCP does it with one over HTTP/1.1.
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
    open: usize,
    begun: u64,
    /// Answers of which a piece was given and none wanted since, and from when on.
    given: BTreeMap<u64, Instant>,
    /// When the last request came.
    asked: Instant,
    /// When the last one ended.
    ended: Instant,
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
        let state = Mutex::new(State { open: 0, begun: 0, given: BTreeMap::new(), asked: now, ended: now });
        Activity(Arc::new(Inner { state, changed: Notify::new() }))
    }

    /// A request has come.
    pub(super) fn begin(&self) -> UnderWay {
        let mut state = self.lock();
        state.open += 1;
        state.begun += 1;
        state.asked = Instant::now();
        let number = state.begun;
        drop(state);
        self.0.changed.notify_one();
        UnderWay { activity: self.clone(), number }
    }

    /// Ends when the client has been silent for too long, or takes nothing of an answer: one that has shown the token, from the end of its last request on; a stranger from the
    /// beginning of it, for who takes an answer slowly would keep its place.
    pub(super) async fn silence(&self, guest: &Guest) {
        loop {
            let changed = self.0.changed.notified();
            let until = {
                let state = self.lock();
                match (guest.is_in(), state.open) {
                    (false, _) => Some(state.asked + patience::STRANGERS),
                    (true, 0) => Some(state.ended + patience::GUESTS),
                    // Of few, for a connection has few at a time.
                    (true, _) => state.given.values().min().map(|since| *since + TAKEN_WITHIN),
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

impl Watch for UnderWay {
    fn wanted(&self) {
        self.activity.lock().given.remove(&self.number);
    }

    fn given(&self) {
        let first = self.activity.lock().given.insert(self.number, Instant::now()).is_none();
        if first {
            self.activity.0.changed.notify_one();
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.open -= 1;
        state.given.remove(&self.number);
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
        assert_eq!(started.elapsed(), patience::STRANGERS);

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
        assert_eq!(started.elapsed(), patience::GUESTS);
    }
}
