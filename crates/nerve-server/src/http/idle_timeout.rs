//! How long a connection may keep silent: strangers less than those that have shown the token.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use super::gate::ConnectionAuth;

/// How long one that has not shown the token may take for the head of its next request, from the end of the last one on.
pub(super) const PREAUTH: Duration = Duration::from_secs(10);
/// The same for one that has: browsers and libraries keep connections to use them again.
pub(super) const AUTHENTICATED: Duration = Duration::from_secs(60);

/// What hyper measures the time for a head with, and nothing else: it is told [`PREAUTH`], and waits longer for those let in.
#[derive(Debug, Clone)]
pub(super) struct IdleTimer {
    auth: ConnectionAuth,
    timer: TokioTimer,
}

impl IdleTimer {
    pub(super) fn new(auth: ConnectionAuth) -> IdleTimer {
        IdleTimer { auth, timer: TokioTimer::new() }
    }

    fn extra(&self) -> Duration {
        if self.auth.is_authenticated() { AUTHENTICATED - PREAUTH } else { Duration::ZERO }
    }
}

impl Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep(duration + self.extra())
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep_until(deadline + self.extra())
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.timer.reset(sleep, deadline + self.extra());
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
        let (slot, _) = clients.preauth.acquire(peer);
        let auth = ConnectionAuth::new(peer, slot);
        let timer = IdleTimer::new(auth.clone());
        let slept = async || {
            let started = tokio::time::Instant::now();
            timer.sleep(PREAUTH).await;
            started.elapsed().as_secs()
        };
        assert_eq!(slept().await, 10);
        assert!(auth.set_authenticated(&clients, crate::access::Credential::for_test()).is_ok());
        assert_eq!(slept().await, 60);
    }
}
