//! Whether somebody has seen the program's end, and how long that is waited for. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long somebody who listens may take to say that the end was seen, and one who has connected to listen.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a viewer that is on its way may take after the program's end.
const VIEWER_COMES: Duration = Duration::from_secs(10);

/// Those who look at a host's terminal.
#[derive(Debug)]
pub(super) struct Witness {
    /// A viewer is on its way.
    expected: bool,
    /// Somebody has listened.
    listened: bool,
    seen: bool,
    /// All is over but nobody has seen it: that is waited for since then.
    since: Option<Instant>,
}

/// Who is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Audience {
    /// Somebody listens.
    pub(super) any_live: bool,
    /// Somebody has connected and does not listen yet.
    pub(super) any_pending: bool,
}

impl Witness {
    /// `expected`: a viewer is on its way, and is to see a program that ends sooner than it comes.
    pub(super) fn new(expected: bool) -> Witness {
        Witness { expected, listened: false, seen: false, since: None }
    }

    /// Somebody listens.
    pub(super) fn listens(&mut self) {
        self.listened = true;
    }

    /// A viewer has come, and listens or has left again.
    pub(super) fn viewer_came(&mut self) {
        self.expected = false;
    }

    /// Somebody has asked for the end: whoever does that has no viewer on its way.
    pub(super) fn stopped(&mut self) {
        self.expected = false;
    }

    /// Somebody has seen the program's end.
    pub(super) fn saw(&mut self) {
        self.seen = true;
    }

    /// Somebody has.
    pub(super) fn has_seen(&self) -> bool {
        self.seen
    }

    /// When [`Witness::is_awaited`] is to be asked again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + self.patience())
    }

    fn patience(&self) -> Duration {
        if self.expected { VIEWER_COMES } else { PATIENCE }
    }

    /// All is over. Somebody should see it, and may still: whoever started this was not quick enough to listen, or listens and has not
    /// said that it saw.
    pub(super) fn is_awaited(&mut self, audience: Audience, now: Instant) -> bool {
        let over = self.seen || (self.listened && !audience.any_live);
        if over && !self.expected && !audience.any_pending {
            return false;
        }
        now < *self.since.get_or_insert(now) + self.patience()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Audience = Audience { any_live: false, any_pending: false };
    const LISTENER: Audience = Audience { any_live: true, any_pending: false };
    const NEWCOMER: Audience = Audience { any_live: false, any_pending: true };

    #[test]
    fn whoever_was_not_quick_enough_is_waited_for_a_moment() {
        let (mut witness, now) = (Witness::new(false), Instant::now());
        assert!(witness.is_awaited(NOBODY, now));
        assert!(!witness.is_awaited(NOBODY, now + PATIENCE));
    }

    #[test]
    fn one_that_listens_says_that_it_saw_and_one_that_has_left_does_not() {
        let (mut witness, now) = (Witness::new(false), Instant::now());
        witness.listens();
        assert!(witness.is_awaited(LISTENER, now));
        assert!(!witness.is_awaited(NOBODY, now), "it has left");
        witness.saw();
        assert!(!witness.is_awaited(LISTENER, now));
        assert!(witness.is_awaited(NEWCOMER, now), "one that has just come is told too");
        assert!(!witness.is_awaited(NEWCOMER, now + PATIENCE));
    }

    #[test]
    fn a_viewer_on_its_way_is_waited_for_longer_whoever_else_has_seen_it() {
        let (mut witness, now) = (Witness::new(true), Instant::now());
        witness.listens();
        witness.saw();
        assert!(witness.is_awaited(NOBODY, now));
        assert!(witness.is_awaited(NOBODY, now + PATIENCE));
        assert_eq!(witness.deadline(), Some(now + VIEWER_COMES));
        witness.viewer_came();
        assert!(!witness.is_awaited(NOBODY, now + PATIENCE));
    }

    #[test]
    fn after_a_stop_no_viewer_is_expected_whether_it_comes_before_the_end_or_after_it() {
        let now = Instant::now();
        for is_over_before in [false, true] {
            let mut witness = Witness::new(true);
            witness.listens();
            witness.saw();
            if is_over_before {
                assert!(witness.is_awaited(NOBODY, now));
            }
            witness.stopped();
            assert!(!witness.is_awaited(NOBODY, now));
            assert!(witness.is_awaited(NEWCOMER, now));
            assert_eq!(witness.deadline(), Some(now + PATIENCE));
        }
    }
}
