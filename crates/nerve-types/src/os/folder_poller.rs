//! Detects changes in folders by polling their files.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Shortest and longest interval. It doubles as long as there are no changes.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Polls folders for changes.
#[derive(Debug, Default)]
pub(super) struct FolderPoller {
    /// Hashes of the contents of the folders; `None` for a missing one.
    folders: Mutex<BTreeMap<PathBuf, Option<u64>>>,
    /// Notified when the first folder is added.
    folder_added: Notify,
}

impl FolderPoller {
    /// Adds a folder, which need not exist. Adding it again costs nothing.
    ///
    /// # Errors
    /// The path is not a folder, or cannot be read.
    pub(super) fn add(&self, folder: &Path) -> io::Result<()> {
        let mut folders = self.folders.lock();
        if !folders.contains_key(folder) {
            folders.insert(folder.to_path_buf(), content(folder)?);
            self.folder_added.notify_one();
        }
        Ok(())
    }

    /// Waits for a change since the last call; forever without folders. Cancel-safe.
    ///
    /// # Errors
    /// A folder can no longer be read.
    pub(super) async fn changed(&self) -> io::Result<()> {
        while self.folders.lock().is_empty() {
            self.folder_added.notified().await;
        }
        let mut interval = INTERVALS.0;
        while !self.update()? {
            sleep(&mut interval).await;
        }
        Ok(())
    }

    /// Returns true if a folder has changed since the last call.
    fn update(&self) -> io::Result<bool> {
        let mut has_changed = false;
        for (folder, previous) in &mut *self.folders.lock() {
            let now = content(folder)?;
            has_changed |= now != *previous;
            *previous = now;
        }
        Ok(has_changed)
    }
}

/// Waits for an interval, and doubles it.
pub(super) async fn sleep(interval: &mut Duration) {
    tokio::time::sleep(*interval).await;
    *interval = (*interval * 2).clamp(INTERVALS.0, INTERVALS.1);
}

/// Returns a hash of the names, sizes and times of a folder's files; `None` if the folder does not exist.
fn content(folder: &Path) -> io::Result<Option<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            Some((entry.file_name(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
        })
        .collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    Ok(Some(hasher.finish()))
}
