//! The places for connections.
//!
//! When all are taken, a new connection gets the place of another: the oldest of those that have not been let in yet, for they sent no
//! whole head, or not the token. So who opens connections and says nothing keeps nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Connections at once.
const MOST: usize = 256;
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
}

/// The place of one connection; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    pushed_out: CancellationToken,
    all: Seats,
}

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
        Some(Seat { number, pushed_out, all: self.clone() })
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

#[cfg(test)]
mod tests {
    use super::*;

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
