//! A directory to restore files into. Concurrent restores of the same directory have one winner.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::FilesError;

/// The target of a restore.
#[derive(Debug, Clone, Copy)]
pub struct RestoreDir<'a> {
    /// The directory: empty or missing.
    pub to: &'a Path,
    /// The directory must be missing.
    pub is_new: bool,
    /// The branch to create if there is a git repository; must not exist.
    pub branch: &'a str,
}

/// Exclusive use of the directory while held.
#[derive(Debug)]
pub(super) struct Claim {
    /// The directory was created by this call.
    pub(super) is_new: bool,
    /// Guards an existing directory: git accepts an empty one from two processes and on failure removes the files of
    /// both.
    _lock: Option<File>,
}

impl RestoreDir<'_> {
    /// Creates the directory or locks an existing one. Only one of several concurrent callers succeeds.
    pub(super) fn claim(&self) -> Result<Claim, FilesError> {
        let parent = self.to.parent().unwrap_or(self.to);
        fs::create_dir_all(parent).map_err(FilesError::io("make the directory", parent))?;
        let exists = || FilesError::PathExists { path: self.to.to_path_buf() };
        match fs::create_dir(self.to) {
            Ok(()) => Ok(Claim { is_new: true, _lock: None }),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(FilesError::io("make the directory", self.to)(error))
            }
            Err(_) if self.is_new => Err(exists()),
            Err(_) => {
                let directory = File::open(self.to).map_err(FilesError::io("open", self.to))?;
                match directory.try_lock() {
                    Ok(()) => Ok(Claim { is_new: false, _lock: Some(directory) }),
                    Err(TryLockError::WouldBlock) => Err(exists()),
                    Err(TryLockError::Error(error)) => Err(FilesError::io("lock", self.to)(error)),
                }
            }
        }
    }

    /// Claims the directory and fills it. A directory created here is removed on failure.
    pub(super) fn fill<T>(&self, fill: impl FnOnce() -> Result<T, FilesError>) -> Result<T, FilesError> {
        let claim = self.claim()?;
        fill().inspect_err(|_| self.clean_up(&claim))
    }

    /// Removes the directory and its contents if it was created here.
    pub(super) fn clean_up(&self, claim: &Claim) {
        if claim.is_new {
            // The first error is the one to report.
            let _ = fs::remove_dir_all(self.to);
        }
    }
}
