//! The places for connections, and for the requests of all of them.
//!
//! When all are taken, a new connection gets the place of another: the oldest of those that have not been let in yet, for they sent no
//! whole head, or not the token. So who opens connections and says nothing keeps nobody out. Requests that were let in keep their places until
//! their answers have gone out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Connections at once, and requests of all of them together: over HTTP/2 a connection may have many.
pub(crate) const MOST: usize = 256;
/// How long a connection may take until the head of a request has let it in.
const PATIENCE: Duration = Duration::from_secs(10);

/// All places of a proxy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    last: u64,
    /// In the order they came. What pushes one out is there until it is let in.
    seats: BTreeMap<u64, Option<CancellationToken>>,
    /// Under way.
    requests: usize,
}

/// The place of one connection; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    pushed_out: CancellationToken,
    /// Its requests that are under way.
    requests: watch::Sender<usize>,
    all: Seats,
}

/// The place of one request; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Asking(Arc<Seat>);

impl Seats {
    /// A place for one more; `None` if all belong to connections that were let in.
    pub(crate) fn take(&self) -> Option<Seat> {
        let mut taken = self.lock();
        if taken.seats.len() >= MOST {
            let (number, oldest) =
                taken.seats.iter().find_map(|(number, seat)| Some((*number, seat.clone()?)))?;
            taken.seats.remove(&number);
            oldest.cancel();
        }
        taken.last += 1;
        let (number, pushed_out) = (taken.last, CancellationToken::new());
        taken.seats.insert(number, Some(pushed_out.clone()));
        drop(taken);
        Some(Seat { number, pushed_out, requests: watch::Sender::new(0), all: self.clone() })
    }

    /// No code panics while it holds this lock; if it did, the places would still be right.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Its client may use the proxy: from now on it keeps its place.
    pub(crate) fn let_in(&self) {
        if let Some(seat) = self.all.lock().seats.get_mut(&self.number) {
            *seat = None;
        }
    }

    /// A place for a request of a client that was let in; `None` if all are taken.
    pub(crate) fn ask(self: &Arc<Seat>) -> Option<Asking> {
        let mut taken = self.all.lock();
        if taken.requests >= MOST {
            return None;
        }
        taken.requests += 1;
        drop(taken);
        self.requests.send_modify(|requests| *requests += 1);
        Some(Asking(self.clone()))
    }

    /// Ends when no request was under way for so long.
    pub(crate) async fn quiet(&self, time: Duration) {
        // The sender is here: it is not gone before this ends.
        let mut requests = self.requests.subscribe();
        loop {
            if requests.wait_for(|requests| *requests == 0).await.is_err()
                || tokio::time::timeout(time, requests.wait_for(|requests| *requests > 0)).await.is_err()
            {
                return;
            }
        }
    }

    /// Ends when the connection is to be closed: its place is needed, or it was not let in in time.
    pub(crate) async fn lost(&self) {
        if tokio::time::timeout(PATIENCE, self.pushed_out.cancelled()).await.is_ok() {
            return;
        }
        if matches!(self.all.lock().seats.get(&self.number), Some(None)) {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.all.lock().seats.remove(&self.number);
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.all.lock().requests -= 1;
        self.0.requests.send_modify(|requests| *requests -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn requests_have_places_of_their_own() {
        let seats = Seats::default();
        let (one, other) = (Arc::new(seats.take().unwrap()), Arc::new(seats.take().unwrap()));
        let mut all: Vec<Asking> = (0..MOST).map(|_| one.ask().unwrap()).collect();
        assert!(one.ask().is_none() && other.ask().is_none());
        all.pop();
        let last = other.ask().unwrap();
        assert!(one.ask().is_none());
        drop((all, last));
        assert!(seats.lock().requests == 0 && one.ask().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_quiet_when_nothing_was_asked_for_some_time() {
        let seat = Arc::new(Seats::default().take().unwrap());
        let started = tokio::time::Instant::now();
        let second = Duration::from_secs(1);
        let mut quiet = std::pin::pin!(seat.quiet(second * 10));
        let mut is_quiet_within = async |time| timeout(time, quiet.as_mut()).await.is_ok();
        for _ in 0..3 {
            assert!(!is_quiet_within(second * 9).await);
            let asking = seat.ask();
            assert!(!is_quiet_within(second * 100).await);
            drop(asking);
        }
        assert!(is_quiet_within(second * 11).await);
        assert!(started.elapsed().abs_diff(second * (3 * 109 + 10)) < second, "{:?}", started.elapsed());
    }

    #[test]
    fn the_oldest_that_was_not_let_in_goes_first() {
        let seats = Seats::default();
        let all: Vec<Seat> = (0..MOST).map(|_| seats.take().unwrap()).collect();
        all[0].let_in();
        let late = seats.take().unwrap();
        let is_out = |seat: &Seat| seat.pushed_out.is_cancelled();
        assert!(!is_out(&all[0]) && is_out(&all[1]) && !is_out(&all[2]) && !is_out(&late));
        all.iter().chain([&late]).for_each(Seat::let_in);
        assert!(seats.take().is_none(), "who was let in stays");
        // One that was pushed out has no place to give back.
        let mut all = all;
        drop(all.remove(1));
        assert!(seats.take().is_none());
        drop(late);
        assert!(seats.take().is_some());
        drop(all);
        assert!(seats.lock().seats.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_let_in_in_time_is_lost() {
        let seats = Seats::default();
        let (silent, guest) = (seats.take().unwrap(), seats.take().unwrap());
        guest.let_in();
        let started = tokio::time::Instant::now();
        silent.lost().await;
        assert!(started.elapsed().abs_diff(PATIENCE) < Duration::from_millis(100));
        assert!(tokio::time::timeout(PATIENCE * 10, guest.lost()).await.is_err());
    }
}
