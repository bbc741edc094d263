//! Counters of an engine: turns and output. Counting costs a short lock per turn and an addition per piece of output.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_term::event::TsNs;

use crate::clock::Clock;
use crate::command::Response;
use crate::error::EngineError;

/// Upper bounds of the histogram buckets of turn durations, in seconds. Longer turns are in no bucket.
pub const SECONDS: [f64; 12] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0];
/// Outcome of a turn whose node was dropped before its end.
const DROPPED: &str = "dropped";

/// The counters of an engine. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    output: AtomicU64,
    turns: Mutex<BTreeMap<&'static str, Turns>>,
}

/// Turns of one kind of node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turns {
    /// Turns started.
    pub started: u64,
    /// Turns ended, by outcome: `completed`, `interrupted`, `dropped` or an error kind.
    pub ended: BTreeMap<&'static str, Times>,
}

/// Durations of turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Number of turns.
    pub count: u64,
    /// Sum of the durations.
    pub total: Duration,
    /// Turns per bucket of [`SECONDS`]; each counts in one bucket only.
    pub classes: [u64; SECONDS.len()],
}

impl Meter {
    /// Returns the turns by kind of node.
    pub fn turns(&self) -> BTreeMap<&'static str, Turns> {
        self.lock().clone()
    }

    /// Returns the bytes that programs have written under this server.
    pub fn output(&self) -> u64 {
        self.0.output.load(Ordering::Relaxed)
    }

    pub(crate) fn add_output(&self, bytes: u64) {
        self.0.output.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Starts the timer of a turn.
    pub(crate) fn begin(&self, kind: &'static str, clock: Clock) -> Metered {
        self.lock().entry(kind).or_default().started += 1;
        Metered { meter: self.clone(), kind, clock, since: clock.now(), over: false }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Turns>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures a running turn.
#[derive(Debug)]
pub(crate) struct Metered {
    meter: Meter,
    kind: &'static str,
    clock: Clock,
    since: TsNs,
    over: bool,
}

impl Metered {
    /// Records the outcome. Later calls have no effect.
    pub(crate) fn end(&mut self, outcome: &Result<Response, EngineError>) {
        let how = match outcome {
            Ok(response) => match response.failure() {
                Some((_, kind)) => kind.as_str(),
                None if response.attributes.get("interrupted").is_some_and(|said| said == "true") => {
                    "interrupted"
                }
                None => "completed",
            },
            Err(error) => error.kind.as_str(),
        };
        self.end_as(how);
    }

    fn end_as(&mut self, how: &'static str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let took = self.clock.now().since(self.since);
        let class = SECONDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        let mut turns = self.meter.lock();
        let times = turns.entry(self.kind).or_default().ended.entry(how).or_default();
        times.count += 1;
        times.total = times.total.saturating_add(took);
        if let Some(class) = class {
            times.classes[class] += 1;
        }
    }
}

impl Drop for Metered {
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
        let (meter, clock) = (Meter::default(), Clock::start());
        let mut turn = meter.begin("pty", clock);
        assert_eq!(meter.turns()["pty"], Turns { started: 1, ended: BTreeMap::new() });
        tokio::time::advance(Duration::from_secs(2)).await;
        turn.end(&Err(EngineError::new(ErrorKind::Timeout, "late")));
        tokio::time::advance(Duration::from_secs(7200)).await;
        // A second end has no effect.
        turn.end(&Err(EngineError::new(ErrorKind::Interrupted, "at last")));
        drop(turn);
        drop(meter.begin("bash", clock));
        let turns = meter.turns();
        let ended: Vec<(&str, u64)> =
            turns["pty"].ended.iter().map(|(how, times)| (*how, times.count)).collect();
        assert_eq!(ended, [("timeout", 1)]);
        let times = &turns["pty"].ended["timeout"];
        assert_eq!((times.total.as_secs(), times.classes[3]), (2, 1));
        assert_eq!(turns["bash"].ended.keys().collect::<Vec<_>>(), [&DROPPED]);
    }
}
