//! What an engine has done since it was made, in numbers: turns and output. Counting costs a lock that nobody holds for long, for each
//! turn, and an addition for each piece of output.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nerve_term::event::TsNs;

use crate::clock::Clock;
use crate::command::Response;
use crate::error::EngineError;

/// Upper bounds of the classes that turns are counted in by how long they took, in seconds. Longer ones are in none.
pub const SECONDS: [f64; 12] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0];
/// How a turn ended whose end nobody was told: its node was dropped in the middle of it.
const DROPPED: &str = "dropped";

/// Counts. Cheap to clone; all clones count together.
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
    /// All that began.
    pub started: u64,
    /// Those that have ended, by how: `completed`, `interrupted`, `dropped` or an error's type.
    pub ended: BTreeMap<&'static str, Times>,
}

/// How long turns took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// All together.
    pub total: Duration,
    /// How many took at most as long as each of [`SECONDS`], and longer than the bound before it.
    pub classes: [u64; SECONDS.len()],
}

impl Meter {
    /// Turns by kind of node.
    pub fn turns(&self) -> BTreeMap<&'static str, Turns> {
        self.lock().clone()
    }

    /// Bytes that programs have written, since this server drives them.
    pub fn output(&self) -> u64 {
        self.0.output.load(Ordering::Relaxed)
    }

    pub(crate) fn add_output(&self, bytes: u64) {
        self.0.output.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A turn begins now.
    pub(crate) fn begin(&self, kind: &'static str, clock: Clock) -> Metered {
        self.lock().entry(kind).or_default().started += 1;
        Metered { meter: self.clone(), kind, clock, since: clock.now(), over: false }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Turns>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that is under way.
#[derive(Debug)]
pub(crate) struct Metered {
    meter: Meter,
    kind: &'static str,
    clock: Clock,
    since: TsNs,
    over: bool,
}

impl Metered {
    /// It has ended, the first time this is called.
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
    async fn turns_are_counted_once_by_how_they_ended_and_how_long_they_took() {
        let (meter, clock) = (Meter::default(), Clock::start());
        let mut turn = meter.begin("pty", clock);
        assert_eq!(meter.turns()["pty"], Turns { started: 1, ended: BTreeMap::new() });
        tokio::time::advance(Duration::from_secs(2)).await;
        turn.end(&Err(EngineError::new(ErrorKind::Timeout, "late")));
        tokio::time::advance(Duration::from_secs(7200)).await;
        // The end is told once more; it is the same end.
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
