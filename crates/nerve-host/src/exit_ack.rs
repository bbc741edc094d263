//! Tracks whether a client has acknowledged the program's exit, and how long the host process waits for that.
//!
//! A host must not disappear before someone has received the exit status and the last output. It therefore lingers after the
//! program has ended until a client acknowledges the exit, every listener has left, or a deadline passes. This state machine reads no
//! clock and does no I/O.

use std::time::Duration;

use tokio::time::Instant;

/// Time that a connected client gets to acknowledge the exit.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that an announced viewer gets to connect after the program has ended.
const VIEWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides when a host whose program has ended may exit.
#[derive(Debug)]
pub(super) struct ExitAck {
    /// A viewer was announced and has not connected yet.
    viewer_expected: bool,
    /// At least one client has subscribed to the output.
    had_listener: bool,
    acknowledged: bool,
    /// Time at which the host began to wait.
    waiting_since: Option<Instant>,
}

/// The clients connected to the host at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listeners {
    /// A client is subscribed to the output.
    pub(super) has_subscribed: bool,
    /// A client has connected but not subscribed yet.
    pub(super) has_connecting: bool,
}

impl ExitAck {
    /// Creates the tracker. `viewer_expected`: a viewer will connect, possibly after a short-lived program has ended.
    pub(super) fn new(viewer_expected: bool) -> ExitAck {
        ExitAck { viewer_expected, had_listener: false, acknowledged: false, waiting_since: None }
    }

    /// Records that a client subscribed to the output.
    pub(super) fn on_subscribe(&mut self) {
        self.had_listener = true;
    }

    /// Records that the announced viewer connected. It may have disconnected again.
    pub(super) fn on_viewer_connected(&mut self) {
        self.viewer_expected = false;
    }

    /// Records a stop request. A client that stops the host does not wait for a viewer.
    pub(super) fn on_stop(&mut self) {
        self.viewer_expected = false;
    }

    /// Records that a client acknowledged the exit.
    pub(super) fn on_acknowledge(&mut self) {
        self.acknowledged = true;
    }

    /// Returns true if a client has acknowledged the exit.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Returns when [`ExitAck::should_wait`] has to be called again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since + self.timeout())
    }

    /// Returns true while the host should stay alive after the program's exit.
    pub(super) fn should_wait(&mut self, listeners: Listeners, now: Instant) -> bool {
        let all_served = self.acknowledged || (self.had_listener && !listeners.has_subscribed);
        if all_served && !self.viewer_expected && !listeners.has_connecting {
            return false;
        }
        now < *self.waiting_since.get_or_insert(now) + self.timeout()
    }

    fn timeout(&self) -> Duration {
        if self.viewer_expected { VIEWER_TIMEOUT } else { ACK_TIMEOUT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Listeners = Listeners { has_subscribed: false, has_connecting: false };
    const SUBSCRIBED: Listeners = Listeners { has_subscribed: true, has_connecting: false };
    const CONNECTING: Listeners = Listeners { has_subscribed: false, has_connecting: true };

    #[test]
    fn waits_briefly_when_no_client_listened() {
        let (mut exit_ack, now) = (ExitAck::new(false), Instant::now());
        assert!(exit_ack.should_wait(NONE, now));
        assert!(!exit_ack.should_wait(NONE, now + ACK_TIMEOUT));
    }

    #[test]
    fn waits_for_ack_but_not_for_clients_that_left() {
        let (mut exit_ack, now) = (ExitAck::new(false), Instant::now());
        exit_ack.on_subscribe();
        assert!(exit_ack.should_wait(SUBSCRIBED, now));
        assert!(!exit_ack.should_wait(NONE, now), "the client left");
        exit_ack.on_acknowledge();
        assert!(!exit_ack.should_wait(SUBSCRIBED, now));
        assert!(exit_ack.should_wait(CONNECTING, now), "a connecting client gets the exit status too");
        assert!(!exit_ack.should_wait(CONNECTING, now + ACK_TIMEOUT));
    }

    #[test]
    fn waits_longer_for_an_announced_viewer() {
        let (mut exit_ack, now) = (ExitAck::new(true), Instant::now());
        exit_ack.on_subscribe();
        exit_ack.on_acknowledge();
        assert!(exit_ack.should_wait(NONE, now));
        assert!(exit_ack.should_wait(NONE, now + ACK_TIMEOUT));
        assert_eq!(exit_ack.deadline(), Some(now + VIEWER_TIMEOUT));
        exit_ack.on_viewer_connected();
        assert!(!exit_ack.should_wait(NONE, now + ACK_TIMEOUT));
    }

    #[test]
    fn stop_cancels_the_wait_for_a_viewer() {
        let now = Instant::now();
        for exits_before_stop in [false, true] {
            let mut exit_ack = ExitAck::new(true);
            exit_ack.on_subscribe();
            exit_ack.on_acknowledge();
            if exits_before_stop {
                assert!(exit_ack.should_wait(NONE, now));
            }
            exit_ack.on_stop();
            assert!(!exit_ack.should_wait(NONE, now));
            assert!(exit_ack.should_wait(CONNECTING, now));
            assert_eq!(exit_ack.deadline(), Some(now + ACK_TIMEOUT));
        }
    }
}
