//! Frame pacing: the first change is drawn at once, later ones together, at most about 140 frames per second.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Minimum duration of two frames. A program that draws 60 times per second never waits.
const PAIR: Duration = Duration::from_millis(14);
/// Minimum time between two frames, because one write is often read in two pieces.
const GAP: Duration = Duration::from_millis(4);

/// Decides when to draw. It reads no clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FramePacer {
    /// Times of the last frame and the one before.
    drawn: [Option<Instant>; 2],
    is_changed: bool,
}

impl FramePacer {
    /// Requests a frame.
    pub(crate) fn request(&mut self) {
        self.is_changed = true;
    }

    /// Returns when the next frame is due, at the earliest `now`; `None` without a request.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let [last, previous] = self.drawn;
        let due = last.map(|at| at + GAP).max(previous.map(|at| at + PAIR));
        self.is_changed.then(|| due.unwrap_or(now))
    }

    /// Records a frame drawn at `now`.
    pub(crate) fn record(&mut self, now: Instant) {
        (self.drawn, self.is_changed) = ([Some(now), self.drawn[0]], false);
    }
}

/// Waits until a time; for ever without one.
pub async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_change_is_drawn_at_once_others_together() {
        let begin = Instant::now();
        let at = |milliseconds: u64| begin + Duration::from_millis(milliseconds);
        let mut pacing = FramePacer::default();
        assert_eq!(pacing.due(at(0)), None, "nothing to draw");
        pacing.request();
        assert_eq!(pacing.due(at(0)), Some(at(0)));
        pacing.record(at(0));
        assert_eq!(pacing.due(at(5)), None, "nothing has changed since");
        pacing.request();
        pacing.request();
        assert_eq!(pacing.due(at(1)), Some(at(4)), "the rest of it, not so soon after the last one");
        pacing.record(at(4));
        pacing.request();
        assert_eq!(pacing.due(at(5)), Some(at(14)), "two were drawn");
        assert_eq!(pacing.due(at(100)), Some(at(14)), "it is late");
        pacing.record(at(100));
        pacing.request();
        assert_eq!(pacing.due(at(500)), Some(at(104)), "in the past: at once");
        pacing.record(at(500));
    }

    #[test]
    fn sixty_changes_per_second_never_wait() {
        let begin = Instant::now();
        let mut pacing = FramePacer::default();
        for nth in 0..60 {
            let now = begin + Duration::from_secs(1) * nth / 60;
            pacing.request();
            assert!(pacing.due(now).is_some_and(|due| due <= now), "{nth}");
            pacing.record(now + Duration::from_millis(1));
            // It was read in two pieces.
            pacing.request();
            let rest = now + Duration::from_millis(5);
            assert_eq!(pacing.due(now), Some(rest), "{nth}");
            pacing.record(rest);
        }
    }

    #[test]
    fn continuous_changes_give_144_frames_per_second() {
        let begin = Instant::now();
        let (mut pacing, mut frames) = (FramePacer::default(), 0);
        for microseconds in (0..1_000_000).step_by(100) {
            let now = begin + Duration::from_micros(microseconds);
            pacing.request();
            if pacing.due(now).is_some_and(|due| due <= now) {
                pacing.record(now);
                frames += 1;
            }
        }
        assert_eq!(frames, 144, "two in each 14 ms");
    }
}
