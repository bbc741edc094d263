//! The journal of a run together with the earlier records of a resumed run.

use std::sync::Arc;

use super::journal::{Journal, JournalRecord, ReplayState, StepReplay};

/// The journal of a run, and the state that a resumed run had before. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RunJournal {
    journal: Journal,
    replay: Option<Arc<ReplayState>>,
}

impl RunJournal {
    /// Creates the journal of a run; `replay` is the earlier state of a resumed run.
    pub(crate) fn new(journal: Journal, replay: Option<ReplayState>) -> RunJournal {
        RunJournal { journal, replay: replay.map(Arc::new) }
    }

    /// Returns the earlier state of a step with this path and key.
    pub(crate) fn replay(&self, step: &str, key: u64) -> Option<&StepReplay> {
        self.replay.as_ref()?.step(step, key)
    }

    /// Appends a record.
    pub(crate) fn record(&self, record: &JournalRecord<'_>) {
        self.journal.record(record);
    }

    /// Waits until all records so far are on disk. If a write fails, the run continues without its journal.
    pub(crate) async fn flush(&self) {
        if let Err(error) = self.journal.flush().await {
            tracing::warn!(%error, "the run continues without its journal");
        }
    }

    /// Returns true if the journal takes no more records.
    pub(crate) fn is_sealed(&self) -> bool {
        self.journal.is_sealed()
    }
}
