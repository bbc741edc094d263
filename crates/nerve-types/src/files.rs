//! Private files that are replaced atomically, and a lock between processes.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

/// Prefix of the files that [`replace_with`] fills.
const TEMPORARY_PREFIX: &str = ".new-";
/// Time since the last write after which such a file is abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);
/// Interval between attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(2);

/// Creates a directory and its parents with mode 0700.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file atomically. Its mode is 0600. After a power failure it has the old or the new content.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, |file| {
        file.write_all(bytes)?;
        file.sync_data()
    })
}

/// Replaces a file as [`replace`], but without waiting for the disk: after a power failure it may be empty.
pub fn replace_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, |file| file.write_all(bytes))
}

/// Returns true for the name of a file that [`replace_with`] fills.
pub fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()))
}

/// Returns true if the process that filled such a file has ended: nothing was written for an hour.
pub fn is_abandoned(path: &Path) -> bool {
    let age = || fs::metadata(path).ok()?.modified().ok()?.elapsed().ok();
    is_temporary(path) && age().is_some_and(|age| age > ABANDONED_AFTER)
}

/// Replaces a file atomically by one that `write` fills. Its mode is 0600.
pub fn replace_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(folder)?;
    write(file.as_file_mut())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads a regular file, or the one that a link names.
///
/// # Errors
/// Any I/O error; InvalidData if it is not a regular file, or longer than `max` bytes.
pub fn read_limited(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    // Opening a pipe could block forever.
    if !fs::metadata(path)?.is_file() {
        return Err(invalid("it is not a file".to_string()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(invalid(format!("it is longer than {max} bytes")));
    }
    Ok(bytes)
}

/// Reads a regular file as text.
///
/// # Errors
/// See [`read_limited`]; InvalidData if the file is not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let text = String::from_utf8(read_limited(path, max)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a regular file as JSON.
///
/// # Errors
/// See [`read_limited`]; InvalidData or UnexpectedEof if the file has another content.
pub fn read_json<T: DeserializeOwned>(path: &Path, max: u64) -> io::Result<T> {
    Ok(serde_json::from_slice(&read_limited(path, max)?)?)
}

/// An exclusive lock, also between processes.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Waits for the lock file at `path`, for at most `timeout`; then fails with `WouldBlock`. Blocking.
    pub fn take(path: &Path, timeout: Duration) -> io::Result<Lock> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let deadline = Instant::now() + timeout;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another process has held {} for {timeout:?}", path.display());
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Explicit, because a child that is being started may hold a copy of the descriptor.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lock_is_exclusive_until_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::take(&path, Duration::ZERO).unwrap();
        let late = Lock::take(&path, Duration::from_millis(10)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::WouldBlock);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::take(&path, Duration::from_secs(10)).map(drop));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn replaces_file_atomically_with_private_mode() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        private_folder(&inner).unwrap();
        assert_eq!(inner.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let path = inner.join("f");
        replace(&path, b"one").unwrap();
        replace_unsynced(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
    }

    #[test]
    fn long_and_invalid_json_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        replace(&path, b"[1, 2]").unwrap();
        assert_eq!(read_json::<Vec<u8>>(&path, 6).unwrap(), [1, 2]);
        assert_eq!(read_json::<Vec<u8>>(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_json::<bool>(&path, 6).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_json::<bool>(&path.join("x"), 6).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(read_text(folder.path(), 6).unwrap_err().kind(), io::ErrorKind::InvalidData);
        replace(&path, b"\xff").unwrap();
        assert_eq!(read_limited(&path, 1).unwrap(), [0xff]);
        assert_eq!(read_text(&path, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
