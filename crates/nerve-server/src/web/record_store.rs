//! Records with a secret: each has a private file, named by the SHA-256 of the secret, which is stored nowhere.
//!
//! Server and commands use the same files. A record that another process removes is gone at once.

use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nerve_types::files;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::access::secret;
use crate::error::ServerError;
use crate::paths::private_directory;

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 4096;
/// Digits of the digest that name a record for people.
const ID_DIGITS: usize = 12;

/// The records of one kind.
#[derive(Debug, Clone)]
pub(super) struct RecordStore<T> {
    folder: PathBuf,
    extension: &'static str,
    record: PhantomData<fn() -> T>,
}

/// Returns the digest of a secret.
pub(super) fn digest(secret: &str) -> String {
    secret::sha256_hex(secret.as_bytes())
}

/// Returns the id of a record for people: the beginning of its digest.
pub(super) fn id(digest: &str) -> String {
    digest.chars().take(ID_DIGITS).collect()
}

impl<T: Serialize + DeserializeOwned> RecordStore<T> {
    /// Uses the files with this extension in a folder, which need not exist.
    pub(super) fn new(folder: PathBuf, extension: &'static str) -> RecordStore<T> {
        RecordStore { folder, extension, record: PhantomData }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores a record with a new secret of `BYTES` random bytes. Returns the secret.
    ///
    /// # Errors
    /// Returns an error if the system gives no random bytes or the file cannot be written.
    pub(super) fn create<const BYTES: usize>(
        &self,
        action: &'static str,
        record: &T,
    ) -> Result<String, ServerError> {
        private_directory(&self.folder)?;
        let failed = |source| ServerError::Io { action, path: self.folder.clone(), source };
        let secret = secret::random_hex::<BYTES>().map_err(failed)?;
        self.write(&digest(&secret), record).map_err(failed)?;
        Ok(secret)
    }

    /// Writes the record with this digest.
    pub(super) fn write(&self, digest: &str, record: &T) -> io::Result<()> {
        files::replace(&self.path(digest), &serde_json::to_vec(record).unwrap_or_default())
    }

    /// Returns the record with this digest; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the file exists but cannot be read.
    pub(super) fn read(&self, digest: &str) -> io::Result<Option<T>> {
        match files::read_json(&self.path(digest), MAX_BYTES) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the record with this digest, if there is one.
    pub(super) fn remove(&self, digest: &str) -> io::Result<()> {
        match fs::remove_file(self.path(digest)) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Returns the digests of all records.
    pub(super) fn digests(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let paths = entries.filter(|path| path.extension().is_some_and(|ext| ext == self.extension));
        paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_string())).collect()
    }

    /// Returns the time at which a record was written or touched.
    pub(super) fn last_write(&self, digest: &str) -> io::Result<SystemTime> {
        fs::metadata(self.path(digest))?.modified()
    }

    /// Sets the modification time to now. Never creates a file, so a record that was removed stays so.
    pub(super) fn touch(&self, digest: &str) -> io::Result<()> {
        File::options().write(true).open(self.path(digest))?.set_modified(SystemTime::now())
    }

    pub(super) fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.{}", self.extension))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn record_is_found_by_its_digest_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = || RecordStore::<u32>::new(folder.path().join("records"), "json");
        let secret = store().create::<16>("create a record in", &7).unwrap();
        let digest = digest(&secret);
        assert_eq!(store().digests(), [digest.as_str()]);
        assert_eq!(store().read(&digest).unwrap(), Some(7));
        let mode = fs::metadata(store().path(&digest)).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, secret.len(), id(&digest).len()), (0o600, 32, ID_DIGITS));
        let other = RecordStore::<u32>::new(store().folder().to_path_buf(), "push");
        assert_eq!((other.read(&digest).unwrap(), other.digests().len()), (None, 0));
        for _ in 0..2 {
            store().remove(&digest).unwrap();
        }
        assert_eq!(store().read(&digest).unwrap(), None);
        assert!(store().touch(&digest).is_err() && store().digests().is_empty());
    }

    #[test]
    fn unreadable_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = RecordStore::<u32>::new(folder.path().to_path_buf(), "json");
        fs::create_dir(store.path("a")).unwrap();
        assert!(store.read("a").is_err());
    }
}
