//! The sessions file on disk: locked during changes, replaced as a whole, and set aside if it is damaged.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nerve_types::files;

use super::document::Document;
use super::{LoadReport, SessionStoreError};

/// Maximum wait for the lock. Writers hold it for milliseconds, so one that takes longer is stuck.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_BYTES: u64 = 64 << 20;

/// The contents of a path.
pub(super) enum FileContents {
    Document(Document),
    Missing,
    /// The file is damaged; the reason.
    Damaged(String),
}

/// An exclusive lock for changes. It is a separate file, because the sessions file itself is replaced.
pub(super) struct Lock(#[expect(dead_code, reason = "it is held, not read")] files::Lock);

impl Lock {
    pub(super) fn take(path: &Path, timeout: Duration) -> Result<Lock, SessionStoreError> {
        let lock = sibling(path, ".lock");
        if let Some(folder) = path.parent() {
            files::private_folder(folder).map_err(io_error("locked", path))?;
        }
        files::Lock::take(&lock, timeout).map(Lock).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => SessionStoreError::Locked { path: path.into(), lock },
            _ => io_error("locked", path)(error),
        })
    }
}

/// Reads the file. Needs no lock, because the file is only replaced as a whole.
pub(super) fn read(path: &Path) -> Result<FileContents, SessionStoreError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileContents::Missing),
        file => file.map_err(io_error("read", path))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SessionStoreError::TooLong { path: path.into() });
    }
    Ok(Document::parse(&bytes).map_or_else(FileContents::Damaged, FileContents::Document))
}

/// Reads the file. Returns an empty document if it does not exist, and `None` if it was damaged and has been set aside.
pub(super) fn read_or_set_aside(
    path: &Path,
    _lock: &Lock,
    report: &mut LoadReport,
) -> Result<Option<Document>, SessionStoreError> {
    let why = match read(path)? {
        FileContents::Document(document) => return Ok(Some(document)),
        FileContents::Missing => return Ok(Some(Document::default())),
        FileContents::Damaged(why) => why,
    };
    let free = (1..=u32::MAX).map(|number| sibling(path, &format!(".damaged-{number}"))).find(|aside| {
        fs::symlink_metadata(aside).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    });
    let Some(aside) = free else {
        return Err(io_error("set aside", path)(io::ErrorKind::AlreadyExists.into()));
    };
    fs::rename(path, &aside).map_err(io_error("set aside", path))?;
    report.add_problem(&format!(
        "the sessions in {} were damaged ({why}) and are now in {}",
        path.display(),
        aside.display()
    ));
    report.set_aside = Some(aside);
    Ok(None)
}

/// Replaces the file atomically: readers see either the old or the new one.
pub(super) fn replace(path: &Path, _lock: &Lock, document: &Document) -> Result<(), SessionStoreError> {
    let write = || -> io::Result<()> {
        let bytes = document.to_bytes()?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the content exceeds 64 MiB"));
        }
        // Replace the target of a symbolic link. The temporary file must be in the same folder for an atomic rename.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let folder =
            target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".sessions-").tempfile_in(folder)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(&target).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(io_error("written", path))
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(suffix);
    path.with_file_name(name)
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionStoreError {
    move |source| SessionStoreError::Io { doing, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::Lock;
    use crate::session::store::SessionStoreError;
    use std::time::Duration;

    #[test]
    fn held_lock_times_out_and_released_lock_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/sessions.json");
        let held = Lock::take(&path, Duration::ZERO).unwrap();
        let Err(error) = Lock::take(&path, Duration::from_millis(20)) else { panic!("two have the lock") };
        assert!(matches!(error, SessionStoreError::Locked { .. }));
        assert!(error.to_string().contains("new/sessions.json.lock"), "{error}");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::take(&path, Duration::from_secs(10)).map(drop));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }
}
