//! Records that the broker refuses.

use std::collections::BTreeMap;
use std::time::Duration;

use nerve_cluster::{BootTime, RunId};
use nerve_nats::BrokerError;

/// The last refusal of each run. A refused record is sent again after a short time, so an old refusal is over.
#[derive(Debug, Default)]
pub(crate) struct WriteProblems {
    by_run: BTreeMap<RunId, (BootTime, String)>,
}

impl WriteProblems {
    /// Adds the refusal of a record.
    pub(crate) fn add(&mut self, now: BootTime, run: RunId, error: &BrokerError) {
        let problem = format!("cannot record the progress of run '{run}': {error}");
        self.by_run.insert(run, (now, problem));
    }

    /// Removes the refusal of a run, whose records are accepted again.
    pub(crate) fn remove(&mut self, run: &RunId) {
        self.by_run.remove(run);
    }

    /// Returns the problem of the first run that was refused within `age`. Drops earlier refusals.
    pub(crate) fn current(&mut self, now: BootTime, age: Duration) -> Option<&String> {
        self.by_run.retain(|_, (at, _)| now.since(*at).is_some_and(|elapsed| elapsed < age));
        self.by_run.values().next().map(|(_, problem)| problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_counts_until_it_is_old_or_its_run_is_accepted() {
        let age = Duration::from_secs(15);
        let run = |id: &str| RunId::new(id).unwrap();
        let mut problems = WriteProblems::default();
        problems.add(BootTime(0), run("a"), &BrokerError::Full("disk".into()));
        problems.add(BootTime(10_000), run("b"), &BrokerError::Full("disk".into()));
        let current = problems.current(BootTime(14_999), age).cloned().unwrap();
        assert!(current.contains("'a'") && current.contains("disk"), "{current}");
        problems.remove(&run("a"));
        assert!(problems.current(BootTime(24_999), age).is_some_and(|problem| problem.contains("'b'")));
        assert_eq!(problems.current(BootTime(25_000), age), None);
        assert!(problems.by_run.is_empty());
    }
}
