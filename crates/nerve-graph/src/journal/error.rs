//! Errors of journals.

use std::io;
use std::path::{Path, PathBuf};

use nerve_node::error::{EngineError, ErrorKind};

/// An error of a journal, with its file and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An I/O error.
    #[error("cannot {doing} the run's journal {}: {source}", path.display())]
    Io {
        /// The operation: create, open, lock, read, write.
        doing: &'static str,
        /// The journal.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A run of this id exists.
    #[error("run '{run}' already exists")]
    Exists {
        /// The run's id.
        run: String,
    },
    /// Another server is driving this run.
    #[error("another server is driving the run of {}: cancel it there, or stop that server", path.display())]
    Locked {
        /// The journal.
        path: PathBuf,
    },
    /// A newer nerve wrote the journal in an incompatible format.
    #[error("unsupported journal version {found} of {} (supported: 1.x): resume the run with a newer nerve", path.display())]
    Version {
        /// The journal.
        path: PathBuf,
        /// Version found in the file.
        found: String,
    },
    /// The server ended before the first record was complete.
    #[error("the run's journal {} ends before the run began: nothing was done; remove the file and run the graph again", path.display())]
    NeverBegun {
        /// The journal.
        path: PathBuf,
    },
    /// A line before the last one is no valid record.
    #[error(
        "{}:{line}: damaged journal line: {why}; remove the line (its step may then run again) or start a new run",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Parse error.
        why: String,
    },
    /// The run's definition, input or options cannot be stored.
    #[error("the run's journal {} cannot store the run's {what}: {why}", path.display())]
    Refused {
        /// The journal.
        path: PathBuf,
        /// The rejected part: definition, input or options.
        what: &'static str,
        /// Reason.
        why: String,
    },
    /// A write failed earlier; the journal ends there.
    #[error("{0}")]
    Fault(String),
}

impl JournalError {
    /// Returns a function for `map_err` that adds the operation and the file.
    pub(super) fn io<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> JournalError + use<'a> {
        move |source| JournalError::Io { doing, path: path.into(), source }
    }
}

impl From<JournalError> for EngineError {
    fn from(error: JournalError) -> EngineError {
        let kind = match &error {
            JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorKind::NotFound
            }
            JournalError::Exists { run } => {
                return EngineError::already_exists(error.to_string())
                    .hint(format!("use another id, or continue that run with `nerve graph resume {run}`"));
            }
            JournalError::Locked { .. } => ErrorKind::Busy,
            JournalError::Version { .. }
            | JournalError::NeverBegun { .. }
            | JournalError::Damaged { .. }
            | JournalError::Refused { .. } => ErrorKind::InvalidRequest,
            JournalError::Io { .. } | JournalError::Fault(_) => ErrorKind::Internal,
        };
        EngineError::new(kind, error.to_string())
    }
}
