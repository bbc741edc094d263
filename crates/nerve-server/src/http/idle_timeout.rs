//! Idle timeouts of HTTP connections: shorter before authentication.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use super::connection_auth::ConnectionAuth;

/// Time between requests of an unauthenticated connection.
pub(super) const PREAUTH: Duration = Duration::from_secs(10);
/// Time between requests of an authenticated connection: browsers and libraries keep connections for reuse.
pub(super) const AUTHENTICATED: Duration = Duration::from_secs(60);

/// A timer for hyper's header read timeout. hyper is configured with [`PREAUTH`]; the timer extends it for
/// authenticated connections.
#[derive(Debug, Clone)]
pub(super) struct IdleTimer {
    auth: ConnectionAuth,
    timer: TokioTimer,
}

impl IdleTimer {
    pub(super) fn new(auth: ConnectionAuth) -> IdleTimer {
        IdleTimer { auth, timer: TokioTimer::new() }
    }

    fn extension(&self) -> Duration {
        if self.auth.is_authenticated() { AUTHENTICATED - PREAUTH } else { Duration::ZERO }
    }
}

impl Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep(duration + self.extension())
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep_until(deadline + self.extension())
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.timer.reset(sleep, deadline + self.extension());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn authenticated_client_may_idle_longer() {
        let (auth, clients) = ConnectionAuth::for_test();
        let timer = IdleTimer::new(auth.clone());
        let slept = async || {
            let started = tokio::time::Instant::now();
            timer.sleep(PREAUTH).await;
            started.elapsed().as_secs()
        };
        assert_eq!(slept().await, 10);
        assert!(auth.set_authenticated(&clients).is_ok());
        assert_eq!(slept().await, 60);
    }
}
