//! Snapshots of any directory: copies in the store.
//!
//! A copy shares blocks with the original where the file system supports it (btrfs, XFS, bcachefs, overlays of them).
//! Otherwise it shares the unchanged files with the latest copy of the same directory, and the rest is limited in size.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nerve_types::os::sync_tree;

use super::comparison::has_same_bytes;
use super::tree::{CopyStats, survey};
use super::{FileSnapshot, FileStore, FilesError, Provider, SnapshotKey, SnapshotRequest, empty_directory};
use crate::snapshots::FilesRef;

/// Default limit of a copy: 1 GiB.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// Provider name if bytes were copied.
pub(super) const COPY: &str = "copy";
/// Provider name if all files share their blocks.
pub(super) const REFLINK: &str = "reflink";

/// Copies a directory's files, links and modes. Skips sockets, devices, named pipes and the store itself. Owners,
/// extended attributes and hard links are not preserved.
#[derive(Debug, Clone)]
pub struct CopyProvider {
    source: PathBuf,
    store: FileStore,
    limit: u64,
}

impl CopyProvider {
    /// Creates a provider for `source`. `limit`: maximum bytes to copy; files that share their blocks, or are shared with an earlier
    /// copy, do not count.
    ///
    /// # Errors
    /// `source` is no directory or belongs to the store.
    pub fn new(source: &Path, store: &FileStore, limit: u64) -> Result<CopyProvider, FilesError> {
        let real = source.canonicalize().map_err(FilesError::io("find", source))?;
        fs::read_dir(&real).map_err(FilesError::io("read the directory", source))?;
        if store.root().canonicalize().is_ok_and(|root| real.starts_with(root)) {
            return Err(FilesError::OwnStore { path: real });
        }
        Ok(CopyProvider { source: real, store: store.clone(), limit })
    }

    /// Creates a provider for existing copies; the source may no longer exist.
    pub(super) fn for_store(source: &Path, store: &FileStore) -> CopyProvider {
        CopyProvider { source: source.to_path_buf(), store: store.clone(), limit: u64::MAX }
    }

    fn reference_by(&self, provider: &str, key: &SnapshotKey) -> FilesRef {
        FilesRef { provider: provider.into(), source: self.source.clone(), reference: key.to_string() }
    }

    /// Returns the path of a copy.
    fn find_copy(&self, key: &SnapshotKey) -> Result<PathBuf, FilesError> {
        let place = self.store.copy_path(key);
        if place.is_dir() {
            return Ok(place);
        }
        Err(FilesError::NotFound { key: key.clone(), place: self.store.root().to_path_buf() })
    }

    /// Fails before anything is copied if the copy exceeds the limit or the free space.
    fn check_size(&self, bytes: u64, scratch: &Path) -> Result<(), FilesError> {
        if bytes > self.limit {
            return Err(FilesError::TooLarge { path: self.source.clone(), bytes, limit: self.limit });
        }
        let disk =
            rustix::fs::statvfs(scratch).map_err(|error| FilesError::io("look at", scratch)(error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if bytes > free {
            let (path, store) = (self.source.clone(), self.store.root().to_path_buf());
            return Err(FilesError::NoRoom { path, bytes, store, free });
        }
        Ok(())
    }
}

impl Provider for CopyProvider {
    fn take(&self, key: &SnapshotKey, request: &SnapshotRequest<'_>) -> Result<FileSnapshot, FilesError> {
        let session = self.store.lock_session(key.session(), &|| request.check())?;
        let place = self.store.copy_path(key);
        if place.symlink_metadata().is_ok() {
            return Err(FilesError::Exists { key: key.clone() });
        }
        // The store can be compared to other directories only once it exists.
        let root = self.store.root();
        let root = root.canonicalize().map_err(FilesError::io("find", root))?;
        let mut plan = survey(&self.source, &root, &|| request.check())?;
        let mut earlier = None;
        if !plan.can_be_cloned(&self.source, &session.scratch().join("probe")) {
            earlier = self.store.latest_copy(&self.source);
            if let Some(earlier) = &earlier {
                plan.mark_shared(&self.source, earlier, &|| request.check())?;
            }
            self.check_size(plan.bytes, session.scratch())?;
        }
        let partial = session.scratch().join("copy");
        fs::create_dir(&partial).map_err(FilesError::io("make the directory", &partial))?;
        let copied =
            plan.copy(&self.source, &partial, earlier.as_deref(), self.limit, &|| request.check())?;
        // A copy that a power failure can still damage never has its name.
        sync_tree(&partial).map_err(FilesError::io("write to the disk", &partial))?;
        // Modes are set after the move, so that a partial copy can always be removed.
        fs::rename(&partial, &place).map_err(FilesError::io("move to", &place))?;
        plan.set_modes(&place)?;
        self.store.sync_session(key.session())?;
        self.store.set_latest_copy(&self.source, key);
        let provider = if matches!(copied, CopyStats { cloned: 1.., copied: 0 }) { REFLINK } else { COPY };
        Ok(FileSnapshot { files: self.reference_by(provider, key), left_out: plan.left_out.into_messages() })
    }

    fn restore(&self, key: &SnapshotKey, to: &Path) -> Result<Vec<String>, FilesError> {
        let place = self.find_copy(key)?;
        // The limit of the store removes no copy of a locked session. It may have removed this one before.
        let _session = self.store.lock_session(key.session(), &|| Ok(()))?;
        self.find_copy(key)?;
        let to = empty_directory(to)?;
        let mut plan = survey(&place, &to, &|| Ok(()))?;
        plan.copy(&place, &to, None, u64::MAX, &|| Ok(()))?;
        plan.set_modes(&to)?;
        Ok(plan.left_out.into_messages())
    }

    fn changes(
        &self,
        key: &SnapshotKey,
        to: &Path,
        _branch: Option<&str>,
    ) -> Result<Option<String>, FilesError> {
        let place = self.find_copy(key)?;
        let changed = first_difference(&place, to).map_err(FilesError::io("compare", to))?;
        Ok(changed.map(|path| format!("{} was changed since it was restored", path.display())))
    }

    fn keys(&self) -> Result<Vec<SnapshotKey>, FilesError> {
        Ok(self.store.copies())
    }

    fn reference(&self, key: &SnapshotKey) -> FilesRef {
        self.reference_by(COPY, key)
    }
}

/// Returns the first path below `actual` that differs from `expected` or exists in only one of them.
fn first_difference(expected: &Path, actual: &Path) -> io::Result<Option<PathBuf>> {
    let names = |folder: &Path| -> io::Result<BTreeSet<OsString>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    };
    let (old, new) = (names(expected)?, names(actual)?);
    if let Some(name) = old.symmetric_difference(&new).next() {
        return Ok(Some(actual.join(name)));
    }
    for name in &old {
        let (one, other) = (expected.join(name), actual.join(name));
        let kind = one.symlink_metadata()?.file_type();
        let is_same = match other.symlink_metadata()?.file_type() {
            found if found != kind => false,
            _ if kind.is_symlink() => fs::read_link(&one)? == fs::read_link(&other)?,
            _ if kind.is_dir() => match first_difference(&one, &other)? {
                None => true,
                found => return Ok(found),
            },
            _ => has_same_bytes(&one, &other, &|| Ok(())).unwrap_or(false),
        };
        if !is_same {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
