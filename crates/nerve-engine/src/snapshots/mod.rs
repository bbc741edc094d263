//! Snapshots of recorded sessions: a mark in the recording, and the files of that moment.
//!
//! All functions block and need no server: the engine and the command line share them.

mod catalog;
mod enclosing_session;
mod recorder;
mod take;
mod target;

use std::path::Path;

use nerve_api::reply::SnapshotFiles;
use nerve_record::files::FilesError;
use nerve_record::snapshots::{self, FilesRef, SnapshotLine};

pub use self::catalog::{SnapshotQuery, list_snapshots, restore_snapshot};
pub use self::enclosing_session::EnclosingSession;
pub use self::recorder::Confirmation;
pub use self::take::{SnapshotOptions, SnapshotOutcome, take_snapshot};
pub use self::target::SnapshotTarget;
use nerve_node::error::{EngineError, ErrorKind};

/// Converts an error of the file store.
pub(crate) fn files_error(error: FilesError) -> EngineError {
    let (kind, hint) = match &error {
        FilesError::Key(_) => return EngineError::invalid_request(error.to_string()),
        FilesError::NotFound { .. } => (ErrorKind::NotFound, "list the snapshots: `LIST_SNAPSHOTS`"),
        FilesError::Exists { .. } => (ErrorKind::AlreadyExists, "omit `id` to use the next free number"),
        FilesError::TooLarge { .. } => {
            (ErrorKind::Process, "raise `limit`, add unneeded files to .gitignore, or use `no_files`")
        }
        FilesError::TooMany { .. } => {
            (ErrorKind::Process, "choose a directory with `dir`, or use `no_files`")
        }
        FilesError::NoRoom { .. } => {
            (ErrorKind::Process, "free disk space, move NERVE_HOME to another disk, or use `no_files`")
        }
        FilesError::NotEmpty { .. } | FilesError::PathExists { .. } => {
            (ErrorKind::InvalidRequest, "choose an empty or new directory with `to`")
        }
        FilesError::NoWorkTree { .. } => {
            (ErrorKind::NotFound, "if it was moved, give its new location with `dir`")
        }
        _ => return EngineError::process(error.to_string()),
    };
    EngineError::new(kind, error.to_string()).hint(hint)
}

/// Reads the list of snapshots next to a recording.
///
/// # Errors
/// Process: the list cannot be read.
pub(crate) fn read_lines(recording: &Path) -> Result<Vec<SnapshotLine>, EngineError> {
    snapshots::read(recording).map_err(|error| {
        EngineError::process(format!("cannot read {}: {error}", snapshots::list_path(recording).display()))
    })
}

/// Converts a reference to files.
pub(crate) fn files_reply(files: &FilesRef) -> SnapshotFiles {
    SnapshotFiles {
        provider: files.provider.parse().unwrap_or_default(),
        source: Some(files.source.display().to_string()),
        reference: files.reference.clone(),
    }
}
