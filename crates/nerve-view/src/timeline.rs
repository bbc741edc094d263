//! A recording's time: where one is in it, and what there is to be found.

use std::ops::Range;
use std::time::Duration;

/// All times are counted from the recording's begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// The moment that is shown.
    pub at: Duration,
    /// How long the recording is.
    pub of: Duration,
    /// When snapshots were taken, ascending.
    pub snapshots: Vec<Duration>,
    /// Stretches in which nothing was written, ascending.
    pub idle: Vec<Range<Duration>>,
}
