//! The directory of the snapshots' files: `<root>/<session>/<id>/` for copies, and what is in the making.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{FilesError, Key};

/// `<state>/snapshots`. Made when first needed; everything in it is for its user alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStore {
    root: PathBuf,
}

/// A session of the store, ours alone until this is dropped.
///
/// `lock` is also where the last number given out is written. What is in the making is in `scratch`, so that what a killed process
/// has left is known as such by the next one, which holds the lock.
#[derive(Debug)]
pub(super) struct SessionLock {
    dir: PathBuf,
    scratch: PathBuf,
    lock: File,
}

impl FileStore {
    /// A store in this directory.
    pub fn new(root: impl Into<PathBuf>) -> FileStore {
        FileStore { root: root.into() }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A number for a new snapshot of a session: one more than any given out before and any in `used`. Two callers at once get two
    /// numbers.
    ///
    /// # Errors
    /// A bad session name, or the store cannot be written.
    pub fn next_id(&self, session: &str, used: impl IntoIterator<Item = u64>) -> Result<u64, FilesError> {
        Key::new(session, 0)?;
        let mut session = self.lock_session(session)?;
        let path = session.dir.join("lock");
        let last = session.last_id().map_err(FilesError::io("read", &path))?;
        let id = used.into_iter().fold(last, u64::max).saturating_add(1);
        session.set_last_id(id).map_err(FilesError::io("write", &path))?;
        Ok(id)
    }

    /// Takes back a number that came from [`FileStore::next_id`] and that nothing has become of. Of two that were given out only the last
    /// can be.
    ///
    /// # Errors
    /// A bad session name, or the store cannot be written.
    pub fn release_id(&self, session: &str, id: u64) -> Result<(), FilesError> {
        Key::new(session, 0)?;
        let mut session = self.lock_session(session)?;
        let path = session.dir.join("lock");
        if session.last_id().map_err(FilesError::io("read", &path))? == id {
            session.set_last_id(id.saturating_sub(1)).map_err(FilesError::io("write", &path))?;
        }
        Ok(())
    }

    /// Removes what is still in the making in sessions that nobody works on: of processes that were killed, or that did not wait for a
    /// disk any longer. What cannot be removed now stays for the next time.
    pub fn sweep(&self) {
        for session in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let dir = session.path();
            let scratch = dir.join("scratch");
            if !scratch.is_dir() {
                continue;
            }
            let lock = OpenOptions::new().read(true).write(true).open(dir.join("lock"));
            // SessionLock until it is removed: nobody begins in it meanwhile.
            if let Ok(lock) = lock
                && lock.try_lock().is_ok()
            {
                let _ = fs::remove_dir_all(&scratch);
            }
        }
    }

    /// Where the copy of a snapshot is.
    pub(super) fn copy_of(&self, key: &Key) -> PathBuf {
        self.root.join(key.session()).join(key.id().to_string())
    }

    /// Waits until nobody else works on this session's files.
    pub(super) fn lock_session(&self, session: &str) -> Result<SessionLock, FilesError> {
        let dir = self.root.join(session);
        private(&dir)?;
        let path = dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(FilesError::io("open", &path))?;
        lock.lock().map_err(FilesError::io("lock", &path))?;
        let scratch = dir.join("scratch");
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FilesError::io("remove", &scratch)(error));
            }
            _ => {}
        }
        private(&scratch)?;
        Ok(SessionLock { dir, scratch, lock })
    }

    /// All copies there are, sorted.
    pub(super) fn copies(&self) -> Vec<Key> {
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let sessions = names(&self.root).into_iter();
        let keys = sessions.flat_map(|session| {
            let ids = names(&self.root.join(&session));
            ids.into_iter().filter_map(move |id| format!("{session}/{id}").parse::<Key>().ok())
        });
        let mut keys: Vec<Key> = keys.collect();
        keys.sort();
        keys
    }
}

impl SessionLock {
    /// A directory for what is in the making, empty at first.
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
        // Whoever is next removes it too.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn private(dir: &Path) -> Result<(), FilesError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(FilesError::io("make the directory", dir))
}
