//! Snapshots of the files an agent works on, which make it possible to return to a point in a recording.
//!
//! A [`Provider`] takes and restores them. [`GitProvider`] makes a git commit that is on no branch; [`CopyProvider`]
//! copies any other directory, sharing blocks where the file system supports it. [`choose`] selects one.
//!
//! All functions here block: they copy files and run `git`.

mod comparison;
mod copy;
mod git;
mod key;
mod restore_dir;
mod retention;
mod store;
mod tree;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_types::TsNs;

pub use copy::{CopyProvider, DEFAULT_LIMIT};
pub use git::GitProvider;
pub use key::{KeyError, SnapshotKey};
pub use restore_dir::RestoreDir;
pub use retention::{DEFAULT_STORE_LIMIT, DiskUsage, ProtectedCopies, TrimSummary};
pub use store::FileStore;

use crate::snapshots::FilesRef;

/// Takes and restores snapshots of one directory.
pub trait Provider {
    /// Takes a snapshot of the files.
    ///
    /// # Errors
    /// [`FilesError`]. Neither a reference nor a partial copy remains then.
    fn take(&self, key: &SnapshotKey, request: &SnapshotRequest<'_>) -> Result<FileSnapshot, FilesError>;

    /// Restores files into `to`, which must be empty or missing. The source directory is not touched. Returns what
    /// could not be restored and why, as in [`FileSnapshot::left_out`].
    ///
    /// # Errors
    /// [`FilesError`]. `to` may contain part of the files then.
    fn restore(&self, key: &SnapshotKey, to: &Path) -> Result<Vec<String>, FilesError>;

    /// Restores files as a work tree: if they came from a git repository, the directory becomes a work tree of it on a
    /// new branch. The repository's current branch, index and files are not changed. Concurrent calls for the same
    /// branch or directory have one winner.
    ///
    /// # Errors
    /// [`FilesError::PathExists`] and [`FilesError::BranchExists`] if another process was faster; other
    /// [`FilesError`]s. A branch and a directory created by this call are removed again; a directory that existed
    /// before may contain part of the files.
    fn restore_work_tree(
        &self,
        key: &SnapshotKey,
        dir: &RestoreDir<'_>,
    ) -> Result<RestoreResult, FilesError> {
        Ok(RestoreResult { left_out: dir.fill(|| self.restore(key, dir.to))?, branch: None })
    }

    /// Removes the result of [`Provider::restore_work_tree`].
    ///
    /// # Errors
    /// [`FilesError`].
    fn undo_restore(&self, to: &Path, _branch: &str) -> Result<(), FilesError> {
        std::fs::remove_dir_all(to).map_err(FilesError::io("remove", to))
    }

    /// Describes what is in `to` that was neither restored there nor committed since; `None` if nothing is.
    ///
    /// # Errors
    /// [`FilesError`] if that cannot be determined.
    fn changes(
        &self,
        key: &SnapshotKey,
        to: &Path,
        branch: Option<&str>,
    ) -> Result<Option<String>, FilesError>;

    /// Removes the result of [`Provider::restore_work_tree`], changed or not. The branch is kept if it has commits on
    /// no other branch. Returns the number of those commits.
    ///
    /// # Errors
    /// [`FilesError`].
    fn discard(&self, to: &Path, _branch: Option<&str>) -> Result<u64, FilesError> {
        std::fs::remove_dir_all(to).map_err(FilesError::io("remove", to))?;
        Ok(0)
    }

    /// Returns true if a git branch of this name exists.
    ///
    /// # Errors
    /// [`FilesError`].
    fn has_branch(&self, _branch: &str) -> Result<bool, FilesError> {
        Ok(false)
    }

    /// Lists the snapshots, sorted by session and number.
    ///
    /// # Errors
    /// [`FilesError`].
    fn keys(&self) -> Result<Vec<SnapshotKey>, FilesError>;

    /// Returns the reference of a snapshot, for [`find_provider`].
    fn reference(&self, key: &SnapshotKey) -> FilesRef;
}

/// Metadata of a snapshot to take.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotRequest<'a> {
    /// Time at which the snapshot was confirmed.
    pub at: TsNs,
    /// The snapshot's label.
    pub label: Option<&'a str>,
    /// Cancels the snapshot when set; [`FilesError::Stopped`] is returned and nothing is kept.
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

/// A snapshot of files that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSnapshot {
    /// Reference to the files.
    pub files: FilesRef,
    /// Files that could not be kept, with the reason, one message each: at most [`MAX_LISTED`], then the number of further ones.
    pub left_out: Vec<String>,
}

/// The result of [`Provider::restore_work_tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreResult {
    /// Files that could not be restored, with the reason, as in [`FileSnapshot::left_out`].
    pub left_out: Vec<String>,
    /// The new branch; `None` without git.
    pub branch: Option<String>,
}

/// Maximum number of skipped files that are reported individually.
pub const MAX_LISTED: usize = 50;

/// Selects the provider for `dir`: git for what git would commit, otherwise a copy. A copy is made outside of a work
/// tree, in a directory the repository ignores, and if there is no `git`. `limit`: bytes, see [`DEFAULT_LIMIT`].
///
/// # Errors
/// `dir` is no directory, or git refuses to use its work tree.
pub fn choose(dir: &Path, store: &FileStore, limit: u64) -> Result<Box<dyn Provider>, FilesError> {
    // Checked here because git's message would be less clear.
    std::fs::read_dir(dir).map_err(FilesError::io("read the directory", dir))?;
    Ok(match GitProvider::find(dir, store, limit)? {
        Some(git) => Box::new(git),
        None => Box::new(CopyProvider::new(dir, store, limit)?),
    })
}

/// Lists all snapshots: those of the work tree that contains `dir`, and those in the store.
///
/// # Errors
/// See [`choose`].
pub fn list_snapshots(dir: &Path, store: &FileStore) -> Result<Vec<(SnapshotKey, FilesRef)>, FilesError> {
    let git = GitProvider::open(dir, store, DEFAULT_LIMIT)?;
    let mut snapshots = Vec::new();
    if let Some(git) = git {
        snapshots.extend(git.keys()?.into_iter().map(|key| (key.clone(), git.reference(&key))));
    }
    let copies = CopyProvider::for_store(store.root(), store);
    snapshots.extend(copies.keys()?.into_iter().map(|key| (key.clone(), copies.reference(&key))));
    snapshots.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(snapshots)
}

/// Returns the provider and key of `files`. `files` is untrusted: it comes from a file next to a recording.
///
/// # Errors
/// The provider is unknown, the reference is invalid, or the source is no longer a git work tree.
pub fn find_provider(
    files: &FilesRef,
    store: &FileStore,
) -> Result<(Box<dyn Provider>, SnapshotKey), FilesError> {
    let unknown =
        || FilesError::Reference { provider: files.provider.clone(), reference: files.reference.clone() };
    match files.provider.as_str() {
        git::NAME => {
            let key = git::parse_reference(&files.reference).ok_or_else(unknown)?;
            let gone = || FilesError::NoWorkTree { path: files.source.clone() };
            // Git cannot be started in a missing directory.
            if !files.source.is_dir() {
                return Err(gone());
            }
            let provider = GitProvider::open(&files.source, store, DEFAULT_LIMIT)?.ok_or_else(gone)?;
            Ok((Box::new(provider), key))
        }
        copy::COPY | copy::REFLINK => {
            let key = files.reference.parse().map_err(|_| unknown())?;
            Ok((Box::new(CopyProvider::for_store(&files.source, store)), key))
        }
        _ => Err(unknown()),
    }
}

/// Removes the files of a snapshot from the git repository that has them, if they still exist. Copies stay: they are removed by the
/// size of their store. `files` is untrusted, as in [`find_provider`].
///
/// # Errors
/// The reference is invalid, the source is no git work tree (any more, or at the moment), or git fails.
pub fn remove_from_git(files: &FilesRef, store: &FileStore) -> Result<(), FilesError> {
    if !files.is_in_git() {
        return Ok(());
    }
    let unknown =
        || FilesError::Reference { provider: files.provider.clone(), reference: files.reference.clone() };
    let key = git::parse_reference(&files.reference).ok_or_else(unknown)?;
    let gone = || FilesError::NoWorkTree { path: files.source.clone() };
    // Git cannot be started in a missing directory.
    if !files.source.is_dir() {
        return Err(gone());
    }
    GitProvider::open(&files.source, store, DEFAULT_LIMIT)?.ok_or_else(gone)?.remove(&key)
}

/// Returns false for files whose copy was removed from the store, for example because of its size limit.
pub fn is_kept(files: &FilesRef, store: &FileStore) -> bool {
    let is_copy = matches!(files.provider.as_str(), copy::COPY | copy::REFLINK);
    !is_copy || files.reference.parse().is_ok_and(|key| store.copy_path(&key).is_dir())
}

/// An error in taking or restoring snapshots.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// An invalid session name.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The snapshot already exists.
    #[error("files of snapshot {key} already exist")]
    Exists {
        /// Key of the snapshot.
        key: SnapshotKey,
    },
    /// The snapshot does not exist.
    #[error("no files of snapshot {key} in {}", place.display())]
    NotFound {
        /// Key of the snapshot.
        key: SnapshotKey,
        /// The work tree or the store.
        place: PathBuf,
    },
    /// The limit is exceeded. Nothing was copied, or the partial copy was removed.
    #[error("{} has {bytes} bytes to copy, more than the limit of {limit}", path.display())]
    TooLarge {
        /// The source.
        path: PathBuf,
        /// Bytes; a lower bound.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The source has too many files.
    #[error("{} has more than {limit} files", path.display())]
    TooMany {
        /// The source.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The store's disk has too little free space.
    #[error("{} has {bytes} bytes to copy, and the disk of {} has room for {free}", path.display(), store.display())]
    NoRoom {
        /// The source.
        path: PathBuf,
        /// Bytes needed.
        bytes: u64,
        /// The target.
        store: PathBuf,
        /// Bytes available.
        free: u64,
    },
    /// The target directory is not empty.
    #[error("{} is not empty", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Another process created the directory first.
    #[error("{} already exists", path.display())]
    PathExists {
        /// The directory.
        path: PathBuf,
    },
    /// Another process created the branch first.
    #[error("branch '{branch}' already exists")]
    BranchExists {
        /// Name of the branch.
        branch: String,
    },
    /// The source is part of the snapshot store.
    #[error("{} is part of the snapshot store", path.display())]
    OwnStore {
        /// The directory.
        path: PathBuf,
    },
    /// The repository of the snapshot no longer exists.
    #[error("{} is not a git work tree", path.display())]
    NoWorkTree {
        /// Former path of the directory.
        path: PathBuf,
    },
    /// The reference is unknown to this version.
    #[error("unknown snapshot reference {reference:?} of provider {provider:?}")]
    Reference {
        /// The provider.
        provider: String,
        /// The reference.
        reference: String,
    },
    /// Git failed.
    #[error("git cannot {action}: {message}")]
    Git {
        /// The attempted action.
        action: &'static str,
        /// Git's message.
        message: String,
    },
    /// Another process uses the session.
    #[error("another process has held {} for {timeout:?}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The time that was waited.
        timeout: Duration,
    },
    /// The request was cancelled.
    #[error("snapshot cancelled")]
    Stopped,
    /// An I/O error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl FilesError {
    /// Returns a closure for `map_err`.
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
        let path = path.to_path_buf();
        move |source| FilesError::Io { action, path, source }
    }
}

/// Creates `to`, or checks that it is empty; returns its real path. A new directory is private until it has the mode of its
/// source.
fn empty_directory(to: &Path) -> Result<PathBuf, FilesError> {
    let created = to.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
        match DirBuilder::new().mode(0o700).create(to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created,
        }
    });
    created.map_err(FilesError::io("make the directory", to))?;
    let mut entries = std::fs::read_dir(to).map_err(FilesError::io("read the directory", to))?;
    if entries.next().is_some() {
        return Err(FilesError::NotEmpty { path: to.to_path_buf() });
    }
    to.canonicalize().map_err(FilesError::io("find", to))
}

/// Collects messages about skipped files, at most [`MAX_LISTED`].
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
