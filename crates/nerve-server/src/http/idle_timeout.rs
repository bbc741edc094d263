//! How long a connection may keep silent: strangers less than those that have shown the token.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use super::gate::Guest;

/// How long one that has not shown the token may take for the head of its next request, from the end of the last one on.
pub(super) const STRANGERS: Duration = Duration::from_secs(10);
/// The same for one that has: browsers and libraries keep connections to use them again.
pub(super) const GUESTS: Duration = Duration::from_secs(60);

/// What hyper measures the time for a head with, and nothing else: it is told [`STRANGERS`], and waits longer for those let in.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    guest: Guest,
    timer: TokioTimer,
}

impl Patience {
    pub(super) fn new(guest: Guest) -> Patience {
        Patience { guest, timer: TokioTimer::new() }
    }

    fn more(&self) -> Duration {
        if self.guest.is_in() { GUESTS - STRANGERS } else { Duration::ZERO }
    }
}

impl Timer for Patience {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep(duration + self.more())
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep_until(deadline + self.more())
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.timer.reset(sleep, deadline + self.more());
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::server::Clients;

    #[tokio::test(start_paused = true)]
    async fn who_has_shown_the_token_may_keep_silent_for_longer() {
        let clients = Clients::new(1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (stranger, _) = clients.strangers.take(peer);
        let guest = Guest::new(peer, stranger);
        let patience = Patience::new(guest.clone());
        let waited = async || {
            let started = tokio::time::Instant::now();
            patience.sleep(STRANGERS).await;
            started.elapsed().as_secs()
        };
        assert_eq!(waited().await, 10);
        assert!(guest.come_in(&clients, crate::access::Pass::of_test()).is_ok());
        assert_eq!(waited().await, 60);
    }
}
