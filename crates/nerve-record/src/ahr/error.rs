//! Errors in opening, creating or reading a recording. Damage inside it is no error: see [`super::DamagedRange`].

use std::io;
use std::path::{Path, PathBuf};

use nerve_types::regular_file::OpenError;

/// An error in opening, creating or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum AhrError {
    /// Another recorder holds the lock.
    #[error("{} is being written by another recorder; choose another file or stop that recording", path.display())]
    Busy {
        /// The recording.
        path: PathBuf,
    },
    /// The file is not empty.
    #[error("{} exists and is not empty; a recording never overwrites a file", path.display())]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// The path is a folder, pipe, device or socket.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action, as in "cannot … PATH".
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The contents demand more work than recordings of this size do: a damaged file or an attack.
    #[error(
        "the recording is not read beyond file byte {at}: its contents demand too much work for its size"
    )]
    Work {
        /// File offset of the block at which reading stopped.
        at: u64,
    },
    /// A read error inside the recording.
    #[error("cannot read the recording: {0}")]
    Read(#[from] io::Error),
}

impl AhrError {
    /// Maps an error of opening `path`.
    pub(super) fn open(path: &Path) -> impl FnOnce(OpenError) -> AhrError {
        let path = path.to_path_buf();
        move |error| match error {
            OpenError::NotRegular => AhrError::NotAFile { path },
            OpenError::Io(source) => AhrError::Io { action: "open", path, source },
        }
    }

    /// Maps an I/O error of `action` on `path`.
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> AhrError {
        let path = path.into();
        move |source| AhrError::Io { action, path, source }
    }
}
