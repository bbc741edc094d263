//! Snapshots of the files an agent works on (seed agent-record §8): what a place in a recording can be gone back to.
//!
//! A [`Provider`] takes and restores them. [`GitProvider`] makes a commit of a git work tree that no branch shows; [`CopyProvider`]
//! copies any other directory, without using space where the file system shares blocks between files. [`choose`] says which.
//!
//! Everything here blocks: files are copied, and `git` is run.

mod copy;
mod git;
mod key;
mod restore_dir;
mod store;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nerve_term::event::TsNs;

pub use copy::{CopyProvider, DEFAULT_LIMIT};
pub use git::GitProvider;
pub use key::{Key, KeyError};
pub use restore_dir::RestoreDir;
pub use store::FileStore;

use crate::snapshots::FilesRef;

/// A way to keep the files of one directory.
pub trait Provider {
    /// Keeps the files as they are now.
    ///
    /// # Errors
    /// [`FilesError`]. Nothing is kept then: no reference, no partial copy.
    fn take(&self, key: &Key, request: &SnapshotRequest<'_>) -> Result<FileSnapshot, FilesError>;

    /// Puts files that were kept into `to`, which must be an empty directory or not there yet. The directory they came from is not
    /// touched. Gives back what could not be restored and why, as in [`FileSnapshot::left_out`].
    ///
    /// # Errors
    /// [`FilesError`]. Part of the files may be in `to` then.
    fn restore(&self, key: &Key, to: &Path) -> Result<Vec<String>, FilesError>;

    /// The same, to be worked on: where the files came from a repository, the directory is a work tree of it on a new branch. The branch,
    /// the index and the files that were there stay as they are. Of several who make the same one at once, one has it.
    ///
    /// # Errors
    /// [`FilesError::PathExists`], [`FilesError::BranchExists`]: somebody else has made them; others: see there. Branch and directory are
    /// removed again if they were made here; part of the files may be in a directory that was there before.
    fn restore_work_tree(&self, key: &Key, dir: &RestoreDir<'_>) -> Result<Restored, FilesError> {
        Ok(Restored { left_out: dir.fill(|| self.restore(key, dir.to))?, branch: None })
    }

    /// Removes what [`Provider::restore_work_tree`] has made.
    ///
    /// # Errors
    /// [`FilesError`].
    fn undo_restore(&self, to: &Path, _branch: &str) -> Result<(), FilesError> {
        std::fs::remove_dir_all(to).map_err(FilesError::io("remove", to))
    }

    /// What is in `to` that was neither restored there nor committed since, in words; `None`: nothing.
    ///
    /// # Errors
    /// [`FilesError`]: that cannot be told.
    fn changes(&self, key: &Key, to: &Path, branch: Option<&str>) -> Result<Option<String>, FilesError>;

    /// Removes what [`Provider::restore_work_tree`] has made, whatever became of it. The branch stays if it has commits that are on no
    /// other: how many those are.
    ///
    /// # Errors
    /// [`FilesError`].
    fn discard(&self, to: &Path, _branch: Option<&str>) -> Result<u64, FilesError> {
        std::fs::remove_dir_all(to).map_err(FilesError::io("remove", to))?;
        Ok(0)
    }

    /// Is there a branch of this name already, where files can have one?
    ///
    /// # Errors
    /// [`FilesError`].
    fn has_branch(&self, _branch: &str) -> Result<bool, FilesError> {
        Ok(false)
    }

    /// What is kept, sorted by session and number.
    ///
    /// # Errors
    /// [`FilesError`].
    fn keys(&self) -> Result<Vec<Key>, FilesError>;

    /// How the files of `key` are asked for later, see [`provider_of`].
    fn reference(&self, key: &Key) -> FilesRef;
}

/// What is noted with the files.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotRequest<'a> {
    /// When the snapshot was confirmed.
    pub at: TsNs,
    /// The snapshot's label.
    pub label: Option<&'a str>,
    /// Set by whoever does not wait any longer: nothing is kept then, as with any error.
    pub stop: Option<&'a AtomicBool>,
}

impl SnapshotRequest<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn check(&self) -> Result<(), FilesError> {
        if self.is_stopped() { Err(FilesError::Stopped) } else { Ok(()) }
    }
}

/// Files that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSnapshot {
    /// How they are asked for later.
    pub files: FilesRef,
    /// What could not be kept and why, a sentence each; the first [`MAX_LISTED`], and then how many more.
    pub left_out: Vec<String>,
}

/// Files that were given back to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What could not be restored and why, as in [`FileSnapshot::left_out`].
    pub left_out: Vec<String>,
    /// The branch they are on; `None` where there is no git.
    pub branch: Option<String>,
}

/// So many things left out are told one by one.
pub const MAX_LISTED: usize = 50;

/// Git for what git would commit, else a copy of `dir` alone: outside of a work tree, in a directory the repository ignores (its
/// files would be missing from a commit), and where there is no `git`. `limit`: bytes, see [`DEFAULT_LIMIT`].
///
/// # Errors
/// `dir` is no directory, or it is in a work tree that git refuses to use.
pub fn choose(dir: &Path, store: &FileStore, limit: u64) -> Result<Box<dyn Provider>, FilesError> {
    // Git would say it less plainly.
    std::fs::read_dir(dir).map_err(FilesError::io("read the directory", dir))?;
    Ok(match GitProvider::find(dir, store, limit)? {
        Some(git) => Box::new(git),
        None => Box::new(CopyProvider::new(dir, store, limit)?),
    })
}

/// All files that are kept: of the work tree `dir` is in, and in the store.
///
/// # Errors
/// As [`choose`].
pub fn list_snapshots(dir: &Path, store: &FileStore) -> Result<Vec<(Key, FilesRef)>, FilesError> {
    let git = GitProvider::at(dir, store, DEFAULT_LIMIT)?;
    let mut found = Vec::new();
    if let Some(git) = git {
        found.extend(git.keys()?.into_iter().map(|key| (key.clone(), git.reference(&key))));
    }
    let copies = CopyProvider::of_store(store.root(), store);
    found.extend(copies.keys()?.into_iter().map(|key| (key.clone(), copies.reference(&key))));
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// The provider that keeps `files`, and under which key. Nothing in `files` is trusted: it comes from a file beside a recording.
///
/// # Errors
/// An unknown provider, a reference that is none of its references, or a source that is no git work tree any more.
pub fn provider_of(files: &FilesRef, store: &FileStore) -> Result<(Box<dyn Provider>, Key), FilesError> {
    let unknown =
        || FilesError::Reference { provider: files.provider.clone(), reference: files.reference.clone() };
    match files.provider.as_str() {
        git::NAME => {
            let key = git::key_of(&files.reference).ok_or_else(unknown)?;
            let gone = || FilesError::NoWorkTree { path: files.source.clone() };
            // Git cannot even be started in it.
            if !files.source.is_dir() {
                return Err(gone());
            }
            let provider = GitProvider::at(&files.source, store, DEFAULT_LIMIT)?.ok_or_else(gone)?;
            Ok((Box::new(provider), key))
        }
        copy::COPY | copy::REFLINK => {
            let key = files.reference.parse().map_err(|_| unknown())?;
            Ok((Box::new(CopyProvider::of_store(&files.source, store)), key))
        }
        _ => Err(unknown()),
    }
}

/// Files that could not be kept or given back.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A session's name that cannot be part of a path or reference.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is a snapshot of this key.
    #[error("there are files of snapshot {key} already")]
    Exists {
        /// Which.
        key: Key,
    },
    /// There is none.
    #[error("no files of snapshot {key} in {}", place.display())]
    NotFound {
        /// Which.
        key: Key,
        /// The work tree or the store.
        place: PathBuf,
    },
    /// More than the limit. Nothing was copied, or what was copied is removed again.
    #[error("{} has {bytes} bytes to copy, more than the limit of {limit}", path.display())]
    TooLarge {
        /// What was to be kept.
        path: PathBuf,
        /// Bytes; at least so many.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// More files than a copy may have.
    #[error("{} has more than {limit} files", path.display())]
    TooMany {
        /// What was to be kept.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The disk of the store has no room for the copy.
    #[error("{} has {bytes} bytes to copy, and the disk of {} has room for {free}", path.display(), store.display())]
    NoRoom {
        /// What was to be kept.
        path: PathBuf,
        /// Bytes.
        bytes: u64,
        /// Where it was to be kept.
        store: PathBuf,
        /// Bytes.
        free: u64,
    },
    /// Files are given back into an empty directory only.
    #[error("{} is not empty", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody else has made it meanwhile.
    #[error("{} is there already", path.display())]
    PathExists {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody else has made it meanwhile.
    #[error("there is a branch '{branch}' already")]
    BranchExists {
        /// Its name.
        branch: String,
    },
    /// It is in the store of the snapshots themselves.
    #[error("{} belongs to the snapshots' own store", path.display())]
    OwnStore {
        /// The directory.
        path: PathBuf,
    },
    /// The files were kept in a repository that is not there any more.
    #[error("{} is no git work tree", path.display())]
    NoWorkTree {
        /// Where it was.
        path: PathBuf,
    },
    /// A reference no provider of this version has made.
    #[error("files kept by {provider:?} as {reference:?} cannot be found: unknown kind of reference")]
    Reference {
        /// The provider.
        provider: String,
        /// The reference.
        reference: String,
    },
    /// Git refused.
    #[error("git cannot {action}: {message}")]
    Git {
        /// What it was to do.
        action: &'static str,
        /// What it listed.
        message: String,
    },
    /// Nobody waited any longer.
    #[error("keeping the files was given up")]
    Stopped,
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl FilesError {
    /// For `map_err`.
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
        let path = path.to_path_buf();
        move |source| FilesError::Io { action, path, source }
    }
}

/// Makes `to`, or sees that it is an empty directory; gives back its real path.
fn empty_directory(to: &Path) -> Result<PathBuf, FilesError> {
    std::fs::create_dir_all(to).map_err(FilesError::io("make the directory", to))?;
    let mut entries = std::fs::read_dir(to).map_err(FilesError::io("read the directory", to))?;
    if entries.next().is_some() {
        return Err(FilesError::NotEmpty { path: to.to_path_buf() });
    }
    to.canonicalize().map_err(FilesError::io("find", to))
}

/// What was left out, as it is told: not more than [`MAX_LISTED`] one by one.
#[derive(Debug, Default)]
struct SkippedFiles {
    listed: Vec<String>,
    more: usize,
}

impl SkippedFiles {
    fn push(&mut self, what: impl FnOnce() -> String) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(what());
        } else {
            self.more += 1;
        }
    }

    fn into_messages(mut self) -> Vec<String> {
        if self.more > 0 {
            self.listed.push(format!("{} more", self.more));
        }
        self.listed
    }
}
