//! Connections whose client has not shown a token yet.
//!
//! There are few places for them. When all are taken, a new one gets the place of another: of the network that has most of them, the one
//! that has stood longest. So whoever opens connections and leaves them pushes out his own, and a client that shows its token at once
//! comes in however many stand there.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::subnet::Origin;

/// At one time.
pub(crate) const MOST: usize = 256;

/// The places, and who stands there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<Standing>>);

#[derive(Debug, Default)]
struct Standing {
    last: u64,
    /// In the order they came.
    places: BTreeMap<u64, (Origin, CancellationToken)>,
}

/// A client that has not shown a token yet. It is a stranger until this is dropped.
#[derive(Debug)]
pub(crate) struct Stranger {
    number: u64,
    pushed_out: CancellationToken,
    all: Strangers,
}

impl Strangers {
    /// A place for one more; `true` if another had to go for it.
    pub(crate) fn take(&self, from: IpAddr) -> (Stranger, bool) {
        let mut standing = self.lock();
        let full = standing.places.len() >= MOST;
        if let Some(number) = full.then(|| standing.longest_of_most()).flatten()
            && let Some((_, pushed_out)) = standing.places.remove(&number)
        {
            pushed_out.cancel();
        }
        standing.last += 1;
        let (number, pushed_out) = (standing.last, CancellationToken::new());
        standing.places.insert(number, (from.into(), pushed_out.clone()));
        (Stranger { number, pushed_out, all: self.clone() }, full)
    }

    /// How many there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().places.len()
    }

    /// No code panics while it holds this lock; if it did, the places would still be right.
    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn longest_of_most(&self) -> Option<u64> {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for (origin, _) in self.places.values() {
            *counts.entry(*origin).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        self.places
            .iter()
            .find(|(_, (origin, _))| counts.get(origin) == Some(&most))
            .map(|(number, _)| *number)
    }
}

impl Stranger {
    /// Cancelled when its place is needed for another: the connection is to be closed.
    pub(crate) fn pushed_out(&self) -> CancellationToken {
        self.pushed_out.clone()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.lock().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn who_has_most_places_loses_the_oldest_of_them() {
        let strangers = Strangers::default();
        let patient = strangers.take(address(1)).0;
        let many: Vec<Stranger> = (1..MOST).map(|_| strangers.take(address(2)).0).collect();
        assert!(many.iter().chain([&patient]).all(|stranger| !stranger.pushed_out().is_cancelled()));
        let (late, pushed) = strangers.take(address(3));
        assert!(pushed && strangers.len() == MOST);
        assert!(many[0].pushed_out().is_cancelled() && !many[1].pushed_out().is_cancelled());
        assert!(!patient.pushed_out().is_cancelled() && !late.pushed_out().is_cancelled());
    }

    #[test]
    fn who_comes_in_frees_a_place_and_is_not_pushed_out_any_more() {
        let strangers = Strangers::default();
        let (first, _) = strangers.take(address(1));
        let pushed_out = first.pushed_out();
        drop(first);
        assert_eq!(strangers.len(), 0);
        let standing: Vec<Stranger> = (0..2 * MOST).map(|_| strangers.take(address(1)).0).collect();
        assert!(!pushed_out.is_cancelled());
        assert_eq!(strangers.len(), MOST);
        drop(standing);
        assert_eq!(strangers.len(), 0);
    }
}
