//! Counters of an engine: turns and output. Counting costs a short lock per turn and an addition per piece of output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nerve_host::clock::Clock;
use nerve_types::TsNs;
use parking_lot::Mutex;

use crate::error::EngineError;
use crate::response::Response;

/// Upper bounds of the histogram buckets of turn durations, in seconds. Longer turns are in no bucket.
pub const DURATION_BUCKETS: [f64; 12] =
    [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0];
/// Outcome of a turn whose node was dropped before its end.
const DROPPED: &str = "dropped";

/// The counters of an engine. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    output: AtomicU64,
    turns: Mutex<BTreeMap<&'static str, TurnCounts>>,
}

/// Turns of one kind of node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnCounts {
    /// Turns started.
    pub started: u64,
    /// Turns ended, by outcome: `completed`, `interrupted`, `dropped` or an error kind.
    pub ended: BTreeMap<&'static str, TurnDurations>,
}

/// Durations of turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnDurations {
    /// Number of turns.
    pub count: u64,
    /// Sum of the durations.
    pub total: Duration,
    /// Turns per bucket of [`DURATION_BUCKETS`]; each counts in one bucket only.
    pub buckets: [u64; DURATION_BUCKETS.len()],
}

impl Metrics {
    /// Returns the turns by kind of node.
    pub fn turns(&self) -> BTreeMap<&'static str, TurnCounts> {
        self.0.turns.lock().clone()
    }

    /// Returns the bytes that programs have written under this server.
    pub fn output(&self) -> u64 {
        self.0.output.load(Ordering::Relaxed)
    }

    pub(crate) fn add_output(&self, bytes: u64) {
        self.0.output.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Starts the timer of a turn.
    pub(crate) fn begin(&self, kind: &'static str, clock: Clock) -> TurnTimer {
        self.0.turns.lock().entry(kind).or_default().started += 1;
        TurnTimer { metrics: self.clone(), kind, clock, since: clock.now(), is_ended: false }
    }
}

/// Measures a running turn.
#[derive(Debug)]
pub struct TurnTimer {
    metrics: Metrics,
    kind: &'static str,
    clock: Clock,
    since: TsNs,
    is_ended: bool,
}

impl TurnTimer {
    /// Records the outcome. Later calls have no effect.
    pub fn end(&mut self, outcome: &Result<Response, EngineError>) {
        let outcome = match outcome {
            Ok(response) => match response.failure() {
                Some(failure) => failure.kind.as_str(),
                None => "completed",
            },
            Err(error) => error.kind.as_str(),
        };
        self.end_as(outcome);
    }

    fn end_as(&mut self, outcome: &'static str) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        let duration = self.clock.now().since(self.since);
        let bucket = DURATION_BUCKETS.iter().position(|bound| duration.as_secs_f64() <= *bound);
        let mut turns = self.metrics.0.turns.lock();
        let durations = turns.entry(self.kind).or_default().ended.entry(outcome).or_default();
        durations.count += 1;
        durations.total = durations.total.saturating_add(duration);
        if let Some(bucket) = bucket {
            durations.buckets[bucket] += 1;
        }
    }
}

impl Drop for TurnTimer {
    fn drop(&mut self) {
        self.end_as(DROPPED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test(start_paused = true)]
    async fn turns_are_counted_once_by_outcome_and_duration() {
        let (metrics, clock) = (Metrics::default(), Clock::start());
        let mut turn = metrics.begin("pty", clock);
        assert_eq!(metrics.turns()["pty"], TurnCounts { started: 1, ended: BTreeMap::new() });
        tokio::time::advance(Duration::from_secs(2)).await;
        turn.end(&Err(EngineError::timeout("late")));
        tokio::time::advance(Duration::from_secs(7200)).await;
        // A second end has no effect.
        turn.end(&Err(EngineError::new(ErrorKind::Interrupted, "at last")));
        drop(turn);
        drop(metrics.begin("bash", clock));
        let turns = metrics.turns();
        let ended: Vec<(&str, u64)> =
            turns["pty"].ended.iter().map(|(outcome, durations)| (*outcome, durations.count)).collect();
        assert_eq!(ended, [("timeout", 1)]);
        let durations = &turns["pty"].ended["timeout"];
        assert_eq!((durations.total.as_secs(), durations.buckets[3]), (2, 1));
        assert_eq!(turns["bash"].ended.keys().collect::<Vec<_>>(), [&DROPPED]);
    }
}
