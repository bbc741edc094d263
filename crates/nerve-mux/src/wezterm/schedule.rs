//! Decides when a pane is polled next. No I/O.

use std::time::Duration;

use tokio::time::Instant;

/// Interval while the screen changes and there is no byte counter.
const FAST_INTERVAL: Duration = Duration::from_millis(30);
/// Interval while a turn may end or input may be echoed.
const WATCHFUL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval while a turn has been silent for [`SLOW_AFTER`].
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
const SLOW_AFTER: Duration = Duration::from_secs(30);
/// Interval of list-only polls while idle.
const IDLE_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum age of the text, even if the list is unchanged.
const MAX_TEXT_AGE: Duration = Duration::from_secs(12);
/// Time after input, and after a change, during which more changes are expected.
const AFTER_INPUT: Duration = Duration::from_secs(1);
const AFTER_CHANGE: Duration = Duration::from_millis(400);
/// Interval of checks of the byte counter, during a turn and while idle.
const COUNTER_INTERVAL: Duration = Duration::from_millis(15);
const IDLE_COUNTER_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum pause between polls; longer while the screen keeps changing.
const MIN_GAP: Duration = Duration::from_millis(15);
const BUSY_GAP: Duration = Duration::from_millis(90);
/// Consecutive changes after which the screen counts as busy.
const BUSY_STREAK: u32 = 5;
/// After this many fruitless polls the byte counter is no longer trusted.
const MAX_FRUITLESS_POLLS: u32 = 9;

/// The times and results of the previous polls.
#[derive(Debug)]
pub(super) struct PollSchedule {
    started: Instant,
    ended: Instant,
    last_change: Instant,
    text_read_at: Option<Instant>,
    last_input: Option<Instant>,
    /// Bytes written by the program before the last poll.
    counter: Option<u64>,
    /// Consecutive polls with a change.
    streak: u32,
    /// Consecutive polls without a change although something was written, probably elsewhere.
    fruitless: u32,
}

impl PollSchedule {
    pub(super) fn new(now: Instant) -> PollSchedule {
        PollSchedule {
            started: now,
            ended: now,
            last_change: now,
            text_read_at: None,
            last_input: None,
            counter: None,
            streak: 0,
            fruitless: 0,
        }
    }

    /// Records that input was sent, or the current content requested.
    pub(super) fn on_input(&mut self, now: Instant) {
        (self.last_input, self.fruitless) = (Some(now), 0);
    }

    /// Records the start of a poll.
    pub(super) fn on_start(&mut self, now: Instant) {
        self.started = now;
    }

    /// Records the end of a poll that read only the list.
    pub(super) fn on_list(&mut self, now: Instant) {
        self.ended = now;
    }

    /// Records the end of a poll that read the text. `counter`: the bytes written before it.
    pub(super) fn on_text(&mut self, now: Instant, counter: Option<u64>) {
        (self.counter, self.ended, self.text_read_at) = (counter, now, Some(self.started));
    }

    /// Records whether the screen has changed since the last text.
    pub(super) fn on_screen(&mut self, now: Instant, has_changed: bool) {
        if has_changed {
            (self.streak, self.fruitless) = (self.streak.saturating_add(1), 0);
            self.last_change = now;
        } else {
            (self.streak, self.fruitless) = (0, self.fruitless.saturating_add(1));
        }
    }

    /// Returns when the next poll is due.
    pub(super) fn due(&self, now: Instant, is_watchful: bool) -> Instant {
        self.started + self.interval(now, is_watchful)
    }

    /// Returns when the byte counter is to be checked; `None` if there is none.
    pub(super) fn next_count(&self, now: Instant, is_watchful: bool) -> Option<Instant> {
        let is_active = is_watchful || self.is_recent(now);
        self.counter.map(|_| now + if is_active { COUNTER_INTERVAL } else { IDLE_COUNTER_INTERVAL })
    }

    /// Returns the earliest time of a poll that the byte counter causes.
    pub(super) fn earliest(&self) -> Instant {
        let base = if self.streak > BUSY_STREAK { BUSY_GAP } else { MIN_GAP };
        let gap = base.saturating_mul(1 << self.fruitless.min(MAX_FRUITLESS_POLLS)).min(IDLE_INTERVAL);
        self.ended + gap
    }

    /// Returns true if input was sent after the last poll began.
    pub(super) fn has_new_input(&self) -> bool {
        self.last_input.is_some_and(|at| at > self.started)
    }

    /// Returns true shortly after input or a change.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        self.last_input.is_some_and(|at| now < at + AFTER_INPUT) || now < self.last_change + AFTER_CHANGE
    }

    /// Returns true if the program has written since the last poll. `written`: its counter now.
    pub(super) fn has_written(&self, written: Option<u64>) -> bool {
        self.counter.is_some() && written != self.counter
    }

    /// Returns true while writing shows on the screen, at least now and then.
    pub(super) fn trusts_counter(&self) -> bool {
        self.fruitless < MAX_FRUITLESS_POLLS
    }

    /// Returns true if the text need not be read while the list is unchanged.
    pub(super) fn has_recent_text(&self, now: Instant) -> bool {
        self.text_read_at.is_some_and(|at| now < at + MAX_TEXT_AGE)
    }

    fn interval(&self, now: Instant, is_watchful: bool) -> Duration {
        match self.counter {
            None if self.is_recent(now) => FAST_INTERVAL,
            Some(_) if self.is_recent(now) => WATCHFUL_INTERVAL,
            Some(_) if is_watchful && now > self.last_change + SLOW_AFTER => SLOW_INTERVAL,
            _ if is_watchful => WATCHFUL_INTERVAL,
            _ => IDLE_INTERVAL,
        }
    }
}
