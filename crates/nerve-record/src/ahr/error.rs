//! What can go wrong with a recording as a file. Damage inside it is no error: see [`super::Lost`].

use std::io;
use std::path::PathBuf;

/// A recording that cannot be opened, made or read at all.
#[derive(Debug, thiserror::Error)]
pub enum AhrError {
    /// Another recorder writes to the file.
    #[error("{} is being recorded to by another process; choose another file or stop that recording", path.display())]
    Busy {
        /// The recording.
        path: PathBuf,
    },
    /// The file has something in it already.
    #[error("{} exists and is not empty; a recording never overwrites a file", path.display())]
    Exists {
        /// The file in the way.
        path: PathBuf,
    },
    /// A folder, pipe, device or socket.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, to be read as "cannot … PATH".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Reading failed in the middle of a recording.
    #[error("cannot read the recording: {0}")]
    Read(#[from] io::Error),
}

impl AhrError {
    /// Maps an I/O error of `action` on `path`.
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> AhrError {
        let path = path.into();
        move |source| AhrError::Io { action, path, source }
    }
}
