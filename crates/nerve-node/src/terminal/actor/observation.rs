//! The schedule of the screen's observations.

use std::time::Duration;

use nerve_types::TsNs;

/// Minimum time between two observations of the screen while output arrives.
const INTERVAL: Duration = Duration::from_millis(8);

/// Decides when the driver observes the screen.
#[derive(Debug)]
pub(super) struct ObservationTimer {
    last: TsNs,
    due: Option<TsNs>,
}

impl ObservationTimer {
    /// Creates a timer with the time of the first observation.
    pub(super) fn new(due: Option<TsNs>) -> ObservationTimer {
        ObservationTimer { last: TsNs(0), due }
    }

    /// Returns the time of the next observation.
    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.due
    }

    /// Schedules an observation.
    pub(super) fn schedule(&mut self, at: TsNs) {
        self.due = Some(at);
    }

    /// Handles output. Returns true if the screen has to be observed now; otherwise an observation is scheduled.
    pub(super) fn on_output(&mut self, now: TsNs, is_urgent: bool) -> bool {
        let next = self.last + INTERVAL;
        if is_urgent || now >= next {
            return true;
        }
        self.due.get_or_insert(next);
        false
    }

    /// Notes that the screen is observed now.
    pub(super) fn record(&mut self, now: TsNs) {
        self.last = now;
        self.due = None;
    }
}
