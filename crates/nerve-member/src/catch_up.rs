//! Journals that a member has yet to read. A cluster keeps the journals of all runs, so a member that starts finds many.

use std::collections::BTreeSet;

use nerve_cluster::RunId;

/// Maximum number of journals that are read at the same time.
const MAX_READS: usize = 16;

/// The queue of the journals.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    waiting: BTreeSet<RunId>,
    reading: BTreeSet<RunId>,
}

impl CatchUp {
    /// Returns true if no journal is to be read or is being read.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.reading.is_empty()
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, run: RunId) {
        if !self.reading.contains(&run) {
            self.waiting.insert(run);
        }
    }

    /// Removes a run after its read, or before a read without the queue. Returns true if the queue had begun to read it.
    pub(crate) fn remove(&mut self, run: &RunId) -> bool {
        self.waiting.remove(run);
        self.reading.remove(run)
    }

    /// Returns the next run to read, if fewer than [`MAX_READS`] are being read. Those with the highest ids come first: they are the
    /// newest, which may not have ended.
    pub(crate) fn next(&mut self) -> Option<RunId> {
        if self.reading.len() >= MAX_READS {
            return None;
        }
        let run = self.waiting.pop_last()?;
        self.reading.insert(run.clone());
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_journals_are_read_at_a_time_and_the_newest_first() {
        let run = |number: usize| RunId::new(format!("r-{number:03}")).unwrap();
        let mut queue = CatchUp::default();
        (0..100).for_each(|number| queue.add(run(number)));
        let first: Vec<RunId> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(first, (84..100).rev().map(run).collect::<Vec<_>>());
        // One that is being read is not read twice.
        queue.add(run(99));
        assert!(queue.remove(&run(99)) && !queue.remove(&run(99)));
        assert_eq!((queue.next(), queue.next()), (Some(run(83)), None));
        assert!(!queue.remove(&run(82)), "it has not begun");
        queue.remove(&run(98));
        assert_eq!(queue.next(), Some(run(81)));
    }

    #[test]
    fn queue_is_empty_once_all_journals_were_read() {
        let run = RunId::new("r").unwrap();
        let mut queue = CatchUp::default();
        assert!(queue.is_empty());
        queue.add(run.clone());
        assert!(!queue.is_empty());
        assert!(queue.next().is_some() && !queue.is_empty(), "it is being read");
        queue.remove(&run);
        assert!(queue.is_empty());
    }
}
