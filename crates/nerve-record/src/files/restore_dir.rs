//! A directory that files are put into, and the branch they are on: made by one, however many try.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::FilesError;

/// Where files are put to be worked on.
#[derive(Debug, Clone, Copy)]
pub struct RestoreDir<'a> {
    /// The directory: empty, or not there yet.
    pub to: &'a Path,
    /// It must not be there yet.
    pub is_new: bool,
    /// The branch, where there is git; it must not be there yet.
    pub branch: &'a str,
}

/// A directory that is filled by nobody else as long as this is held.
#[derive(Debug)]
pub(super) struct Claim {
    /// It was not there before.
    pub(super) is_new: bool,
    /// Git takes an empty directory for free, and removes it with what two have begun in it at once.
    _lock: Option<File>,
}

impl RestoreDir<'_> {
    /// Makes the directory, or takes one that is there. Only one of those who try at once has it.
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
                let there = File::open(self.to).map_err(FilesError::io("open", self.to))?;
                match there.try_lock() {
                    Ok(()) => Ok(Claim { is_new: false, _lock: Some(there) }),
                    Err(TryLockError::WouldBlock) => Err(exists()),
                    Err(TryLockError::Error(error)) => Err(FilesError::io("lock", self.to)(error)),
                }
            }
        }
    }

    /// Takes the directory and fills it. A directory that was made goes with what fails.
    pub(super) fn fill<T>(&self, fill: impl FnOnce() -> Result<T, FilesError>) -> Result<T, FilesError> {
        let claim = self.claim()?;
        fill().inspect_err(|_| self.clean_up(&claim))
    }

    /// Removes the directory with all that is in it, if it was made.
    pub(super) fn clean_up(&self, claim: &Claim) {
        if claim.is_new {
            // What failed first is told.
            let _ = fs::remove_dir_all(self.to);
        }
    }
}
