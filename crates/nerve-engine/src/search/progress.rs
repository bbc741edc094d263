//! Progress of searches that take long.

use nerve_types::activity::TsMs;
use rusqlite::Row;

use super::sql::from_sql;

/// Texts that are read between two reports.
const REPORT_INTERVAL: usize = 1024;

/// The amount of work that a search has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchProgress {
    /// Brings the index up to date.
    Indexing {
        /// Files that were checked.
        done: usize,
        /// All files.
        count: usize,
    },
    /// Reads texts, newest first, because the pattern has no part that an index finds.
    Reading {
        /// Texts that were read.
        texts: usize,
        /// Time of the last one.
        back_to: TsMs,
    },
}

/// A callback that receives the progress.
pub type Progress<'a> = &'a mut dyn FnMut(SearchProgress);

/// Counts the texts that a search reads, and reports them from time to time.
pub(super) struct TextCounter<'a> {
    progress: Progress<'a>,
    texts: usize,
}

impl<'a> TextCounter<'a> {
    pub(super) fn new(progress: Progress<'a>) -> TextCounter<'a> {
        TextCounter { progress, texts: 0 }
    }

    /// Counts a text. `at`: the column with its time.
    pub(super) fn add(&mut self, row: &Row<'_>, at: usize) -> rusqlite::Result<()> {
        self.texts += 1;
        if self.texts.is_multiple_of(REPORT_INTERVAL) {
            let back_to = TsMs(from_sql(row.get(at)?));
            (self.progress)(SearchProgress::Reading { texts: self.texts, back_to });
        }
        Ok(())
    }
}
