//! What can be wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{EngineError, ErrorKind};

/// An error of a journal: what happened, to which file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system says no.
    #[error("the run's journal {} cannot be {doing}: {source}", path.display())]
    Io {
        /// Made, opened, locked, read, written.
        doing: &'static str,
        /// The journal.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a run of that id.
    #[error("run '{run}' is there already")]
    Exists {
        /// Its id.
        run: String,
    },
    /// A server drives this run.
    #[error("the run of {} is being driven by another server: cancel it there, or stop that server", path.display())]
    Locked {
        /// The journal.
        path: PathBuf,
    },
    /// A newer nerve wrote it, in a way this one cannot read.
    #[error("the run's journal {} has version {found}, this nerve reads 1.x: resume it with a newer nerve", path.display())]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The server ended before the run began.
    #[error("the run's journal {} ends before the run began: nothing was done; remove the file and run the graph again", path.display())]
    NeverBegun {
        /// The journal.
        path: PathBuf,
    },
    /// A line in its middle is not a fact.
    #[error(
        "{}:{line}: this line of the run's journal is damaged: {why}; remove the line (its step may then run again) or run the graph anew",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, 1-based.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The graph or its input cannot be kept.
    #[error("the run's journal {} cannot keep the run's {what}: {why}", path.display())]
    Refused {
        /// The journal.
        path: PathBuf,
        /// Definition, input or options.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Writing failed; the journal ends before that.
    #[error("{0}")]
    Fault(String),
}

impl JournalError {
    /// For `map_err`: what was being done to which file.
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
                return EngineError::new(ErrorKind::AlreadyExists, error.to_string()).hint(format!(
                    "take another id; `nerve server graph resume {run}` goes on with that one"
                ));
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
