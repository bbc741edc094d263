//! Tracks the open requests of an HTTP/2 connection, to close it when it is idle or stalled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body_guard::BodyObserver;
use super::connection_auth::ConnectionAuth;
use super::idle_timeout;

/// Time after which a response that the client does not read is aborted, as TCP does with one over HTTP/1.1.
/// If all responses stall, the connection is closed.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The open requests of one connection, from the head to the end of the response.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    started: u64,
    /// Open requests by number. There are few: the number of streams is limited.
    active: BTreeMap<u64, RequestState>,
    /// Start of the last request.
    last_started: Instant,
    /// End of the last request.
    last_ended: Instant,
}

#[derive(Debug, Default)]
struct RequestState {
    /// Time at which a chunk of the response was handed out without a request for the next one.
    sent_at: Option<Instant>,
    /// Cancelled when the response is aborted.
    abort: CancellationToken,
}

impl State {
    /// Aborts the stalled responses. Returns when to check again, or `None` if all open responses have stalled.
    fn abort_stalled(&mut self, now: Instant) -> Option<Option<Instant>> {
        let is_stalled =
            |active: &RequestState| active.sent_at.is_some_and(|sent_at| sent_at + STALL_TIMEOUT <= now);
        if self.active.values().all(is_stalled) {
            return None;
        }
        for active in self.active.values().filter(|active| is_stalled(active)) {
            active.abort.cancel();
        }
        let sent_times =
            self.active.values().filter(|active| !is_stalled(active)).filter_map(|active| active.sent_at);
        Some(sent_times.min().map(|sent_at| sent_at + STALL_TIMEOUT))
    }
}

/// An open request. Dropping it ends the request.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    activity: Activity,
    number: u64,
}

impl Activity {
    pub(super) fn new() -> Activity {
        let now = Instant::now();
        let state =
            Mutex::new(State { started: 0, active: BTreeMap::new(), last_started: now, last_ended: now });
        Activity(Arc::new(Inner { state, changed: Notify::new() }))
    }

    /// Records the start of a request.
    pub(super) fn begin(&self) -> ActiveRequest {
        let mut state = self.0.state.lock();
        state.started += 1;
        state.last_started = Instant::now();
        let number = state.started;
        state.active.insert(number, RequestState::default());
        drop(state);
        self.0.changed.notify_one();
        ActiveRequest { activity: self.clone(), number }
    }

    /// Completes when the connection should be closed. An authenticated client may be idle for a while after
    /// its last response, and must read its responses. An unauthenticated one is measured from the start of
    /// its last request: reading slowly must not keep its slot.
    pub(super) async fn wait_until_idle(&self, auth: &ConnectionAuth) {
        loop {
            let changed = self.0.changed.notified();
            let deadline = {
                let mut state = self.0.state.lock();
                match (auth.is_authenticated(), state.active.is_empty()) {
                    (false, _) => Some(state.last_started + idle_timeout::PREAUTH),
                    (true, true) => Some(state.last_ended + idle_timeout::AUTHENTICATED),
                    (true, false) => match state.abort_stalled(Instant::now()) {
                        Some(next) => next,
                        None => return,
                    },
                }
            };
            let Some(deadline) = deadline else {
                changed.await;
                continue;
            };
            if deadline <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => {}
                () = changed => {}
            }
        }
    }
}

impl ActiveRequest {
    /// Sets the token that is cancelled when the response is aborted.
    pub(super) fn with_abort_token(self, abort: &CancellationToken) -> ActiveRequest {
        if let Some(active) = self.activity.0.state.lock().active.get_mut(&self.number) {
            active.abort = abort.clone();
        }
        self
    }

    /// Sets when the last chunk was handed out, and returns the previous value.
    fn set_sent_at(&self, sent_at: Option<Instant>) -> Option<Instant> {
        let mut state = self.activity.0.state.lock();
        state.active.get_mut(&self.number).and_then(|active| std::mem::replace(&mut active.sent_at, sent_at))
    }
}

impl BodyObserver for ActiveRequest {
    fn on_poll(&self) {
        self.set_sent_at(None);
    }

    fn on_chunk(&self) {
        if self.set_sent_at(Some(Instant::now())).is_none() {
            self.activity.0.changed.notify_one();
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.activity.0.state.lock();
        state.active.remove(&self.number);
        state.last_ended = Instant::now();
        drop(state);
        self.activity.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_time_depends_on_authentication() {
        let (auth, clients) = ConnectionAuth::for_test();
        let activity = Activity::new();
        let slow = activity.begin();
        let started = Instant::now();
        activity.wait_until_idle(&auth).await;
        assert_eq!(started.elapsed(), idle_timeout::PREAUTH);

        assert!(auth.set_authenticated(&clients).is_ok());
        let still_there =
            tokio::time::timeout(Duration::from_secs(3600), activity.wait_until_idle(&auth)).await;
        assert!(still_there.is_err(), "the request was aborted in the middle of an answer");
        slow.on_chunk();
        let started = Instant::now();
        activity.wait_until_idle(&auth).await;
        assert_eq!(started.elapsed(), STALL_TIMEOUT);
        drop(slow);
        let started = Instant::now();
        activity.wait_until_idle(&auth).await;
        assert_eq!(started.elapsed(), idle_timeout::AUTHENTICATED);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_response_is_aborted_alone() {
        let (auth, clients) = ConnectionAuth::for_test();
        assert!(auth.set_authenticated(&clients).is_ok());
        let activity = Activity::new();
        let tokens = [CancellationToken::new(), CancellationToken::new()];
        let [stalled, taken] = tokens.each_ref().map(|token| activity.begin().with_abort_token(token));
        stalled.on_chunk();
        let started = Instant::now();
        tokio::select! {
            () = activity.wait_until_idle(&auth) => panic!("the whole connection was closed"),
            () = tokens[0].cancelled() => {}
        }
        assert_eq!(started.elapsed(), STALL_TIMEOUT);
        assert!(!tokens[1].is_cancelled());
        drop(stalled);
        taken.on_chunk();
        let started = Instant::now();
        activity.wait_until_idle(&auth).await;
        assert_eq!(started.elapsed(), STALL_TIMEOUT);
    }
}
