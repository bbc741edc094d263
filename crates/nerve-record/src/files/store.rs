//! The directory of file snapshots: `<root>/<session>/<id>/` for copies, and a scratch directory per session.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nerve_types::files::{is_abandoned, is_temporary, private_folder, replace_unsynced};

use super::comparison::Continue;
use super::{FilesError, SnapshotKey};

/// Directory with the key of the latest copy of each source. No session can have this name.
const LATEST: &str = ".latest";
/// Maximum wait for another process that uses a session. Copying the largest directories takes minutes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Interval between attempts to lock a session.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The store at `<state>/snapshots`. Created on first use, private to its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStore {
    root: PathBuf,
}

/// An exclusive lock on a session of the store.
///
/// The lock file also holds the last id that was assigned. Partial copies are in `scratch`; whatever a killed process
/// left there is removed by the next holder of the lock.
#[derive(Debug)]
pub(super) struct SessionLock {
    dir: PathBuf,
    scratch: PathBuf,
    lock: File,
}

impl FileStore {
    /// Creates a store for this directory.
    pub fn new(root: impl Into<PathBuf>) -> FileStore {
        FileStore { root: root.into() }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Assigns an id to a new snapshot: greater than all assigned before and all in `used`. Concurrent callers get
    /// different ids.
    ///
    /// # Errors
    /// The session name is invalid, or the store cannot be written.
    pub fn next_id(&self, session: &str, used: impl IntoIterator<Item = u64>) -> Result<u64, FilesError> {
        SnapshotKey::new(session, 0)?;
        let mut session = self.lock_session(session, &|| Ok(()))?;
        let path = session.dir.join("lock");
        let last = session.last_id().map_err(FilesError::io("read", &path))?;
        let id = used.into_iter().fold(last, u64::max).saturating_add(1);
        session.set_last_id(id).map_err(FilesError::io("write", &path))?;
        Ok(id)
    }

    /// Releases an unused id from [`FileStore::next_id`]. Has an effect only for the id assigned last.
    ///
    /// # Errors
    /// The session name is invalid, or the store cannot be written.
    pub fn release_id(&self, session: &str, id: u64) -> Result<(), FilesError> {
        SnapshotKey::new(session, 0)?;
        let mut session = self.lock_session(session, &|| Ok(()))?;
        let path = session.dir.join("lock");
        if session.last_id().map_err(FilesError::io("read", &path))? == id {
            session.set_last_id(id.saturating_sub(1)).map_err(FilesError::io("write", &path))?;
        }
        Ok(())
    }

    /// Removes partial copies left by killed or cancelled processes in sessions that are not in use. Also
    /// removes entries of the latest-copy index whose copy or source directory no longer exists. Failures are
    /// left to the next sweep.
    pub fn sweep(&self) {
        for path in fs::read_dir(self.root.join(LATEST)).into_iter().flatten().flatten().map(|it| it.path()) {
            let is_used = |(copy, source): (PathBuf, PathBuf)| copy.is_dir() && source.is_dir();
            // Another process may be writing an entry.
            let is_stale = match is_temporary(&path) {
                true => is_abandoned(&path),
                false => !self.read_latest(&path).is_some_and(is_used),
            };
            if is_stale {
                let _ = fs::remove_file(&path);
            }
        }
        for session in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let dir = session.path();
            let scratch = dir.join("scratch");
            if !scratch.is_dir() {
                continue;
            }
            let lock = OpenOptions::new().read(true).write(true).open(dir.join("lock"));
            // The lock is held until the removal is done.
            if let Ok(lock) = lock
                && lock.try_lock().is_ok()
            {
                let _ = fs::remove_dir_all(&scratch);
            }
        }
    }

    /// Returns the path of a snapshot's copy.
    pub(super) fn copy_path(&self, key: &SnapshotKey) -> PathBuf {
        self.root.join(key.session()).join(key.id().to_string())
    }

    /// Waits until the names of a session's copies are on the disk.
    pub(super) fn sync_session(&self, session: &str) -> Result<(), FilesError> {
        let dir = self.root.join(session);
        let sync = |dir: &Path| File::open(dir)?.sync_all();
        [dir.as_path(), &self.root]
            .into_iter()
            .try_for_each(sync)
            .map_err(FilesError::io("write to the disk", &dir))
    }

    /// Returns the latest copy of a directory, if it still exists.
    pub(super) fn latest_copy(&self, source: &Path) -> Option<PathBuf> {
        let (copy, of) = self.read_latest(&self.latest_path(source))?;
        (of == source && copy.is_dir()).then_some(copy)
    }

    /// Reads which copy is the latest one of which directory.
    fn read_latest(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let text = fs::read(path).ok()?;
        let (key, source) = text.split_at_checked(text.iter().position(|byte| *byte == b'\n')?)?;
        let copy = self.copy_path(&std::str::from_utf8(key).ok()?.parse().ok()?);
        Some((copy, OsStr::from_bytes(source.get(1..)?).into()))
    }

    /// Remembers the latest copy of a directory. A failure costs only space: the next copy shares nothing.
    pub(super) fn set_latest_copy(&self, source: &Path, key: &SnapshotKey) {
        let (path, text) = (self.latest_path(source), format!("{key}\n").into_bytes());
        let text = [&text, source.as_os_str().as_bytes()].concat();
        let _ = create_private_dir(&self.root.join(LATEST)).map(|()| replace_unsynced(&path, &text));
    }

    fn latest_path(&self, source: &Path) -> PathBuf {
        // The hash may differ in another version, which costs one whole copy.
        let mut hasher = DefaultHasher::new();
        source.hash(&mut hasher);
        self.root.join(LATEST).join(format!("{:016x}", hasher.finish()))
    }

    /// Waits for the session's lock, for at most [`LOCK_TIMEOUT`], and empties its scratch directory.
    pub(super) fn lock_session(
        &self,
        session: &str,
        should_continue: Continue<'_>,
    ) -> Result<SessionLock, FilesError> {
        self.lock_session_within(session, LOCK_TIMEOUT, should_continue)
    }

    fn lock_session_within(
        &self,
        session: &str,
        timeout: Duration,
        should_continue: Continue<'_>,
    ) -> Result<SessionLock, FilesError> {
        let dir = self.root.join(session);
        create_private_dir(&dir)?;
        let path = dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(FilesError::io("open", &path))?;
        let deadline = Instant::now() + timeout;
        loop {
            should_continue()?;
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_INTERVAL),
                Err(TryLockError::WouldBlock) => return Err(FilesError::Locked { path, timeout }),
                Err(TryLockError::Error(error)) => return Err(FilesError::io("lock", &path)(error)),
            }
        }
        let scratch = dir.join("scratch");
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FilesError::io("remove", &scratch)(error));
            }
            _ => {}
        }
        create_private_dir(&scratch)?;
        Ok(SessionLock { dir, scratch, lock })
    }

    /// As [`FileStore::lock_session`], but returns `None` instead of waiting for another process.
    pub(super) fn try_lock_session(&self, session: &str) -> io::Result<Option<SessionLock>> {
        let dir = self.root.join(session);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(dir.join("lock"))?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        let scratch = dir.join("scratch");
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&scratch)?;
        Ok(Some(SessionLock { dir, scratch, lock }))
    }

    /// Lists all copies, sorted.
    pub(super) fn copies(&self) -> Vec<SnapshotKey> {
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let sessions = names(&self.root).into_iter();
        let keys = sessions.flat_map(|session| {
            let ids = names(&self.root.join(&session));
            ids.into_iter().filter_map(move |id| format!("{session}/{id}").parse::<SnapshotKey>().ok())
        });
        let mut keys: Vec<SnapshotKey> = keys.collect();
        keys.sort();
        keys
    }
}

impl SessionLock {
    /// Returns a directory for partial copies, initially empty.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn last_id(&mut self) -> io::Result<u64> {
        let mut text = String::new();
        self.lock.rewind()?;
        (&self.lock).take(32).read_to_string(&mut text)?;
        Ok(text.trim().parse().unwrap_or(0))
    }

    fn set_last_id(&mut self, id: u64) -> io::Result<()> {
        self.lock.rewind()?;
        self.lock.set_len(0)?;
        writeln!(self.lock, "{id}")
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // On failure, the next holder removes it.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn create_private_dir(dir: &Path) -> Result<(), FilesError> {
    private_folder(dir).map_err(FilesError::io("make the directory", dir))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn wait_for_a_locked_session_ends() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        let held = store.lock_session("one", &|| Ok(())).unwrap();
        let late = store.lock_session_within("one", Duration::from_millis(20), &|| Ok(())).unwrap_err();
        assert!(matches!(late, FilesError::Locked { .. }), "{late}");
        let attempts = Cell::new(0);
        let cancel_later = || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 3 { Ok(()) } else { Err(FilesError::Stopped) }
        };
        let cancelled = store.lock_session("one", &cancel_later).unwrap_err();
        assert!(matches!(cancelled, FilesError::Stopped), "{cancelled}");
        assert!(store.lock_session("other", &|| Ok(())).is_ok());
        assert!(held.scratch().is_dir(), "a waiting process removes nothing");
        drop(held);
        assert!(store.lock_session_within("one", Duration::ZERO, &|| Ok(())).is_ok());
    }
}
