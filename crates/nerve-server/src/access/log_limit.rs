//! Lines in the log about what strangers do: few, whatever they do.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines in a [`SPAN`].
const MOST: u32 = 20;
const SPAN: Duration = Duration::from_secs(60);

/// Says which of many things of a kind are logged: the first of each minute, and how many were not.
#[derive(Debug)]
pub(crate) struct Notices(Mutex<Counted>);

#[derive(Debug)]
struct Counted {
    since: Instant,
    told: u32,
    untold: u64,
}

impl Notices {
    pub(crate) fn new() -> Notices {
        Notices(Mutex::new(Counted { since: Instant::now(), told: 0, untold: 0 }))
    }

    /// `Some`: this one is to be logged, and so many were not since the last one that was.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(counted.since) >= SPAN {
            (counted.since, counted.told) = (now, 0);
        }
        if counted.told >= MOST {
            counted.untold = counted.untold.saturating_add(1);
            return None;
        }
        counted.told += 1;
        Some(std::mem::take(&mut counted.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_first_of_a_minute_are_told_and_then_how_many_were_not() {
        let notices = Notices::new();
        let told = (0..1000).filter_map(|_| notices.next()).count();
        assert_eq!(told, 20);
        tokio::time::advance(SPAN).await;
        assert_eq!(notices.next(), Some(980));
        assert_eq!(notices.next(), Some(0));
    }
}
