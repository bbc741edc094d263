//! Removes the oldest copies of a store that exceeds its size limit.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use super::{FileStore, SnapshotKey};

/// Default limit of a store: 10 GiB.
pub const DEFAULT_STORE_LIMIT: u64 = 10 << 30;
/// Maximum depth of a copy that is walked. Paths of the system are shorter.
const MAX_DEPTH: usize = 2048;

/// Copies that stay, however large the store is.
#[derive(Debug, Clone, Default)]
pub struct ProtectedCopies {
    /// Single copies: those that branches were made from.
    pub keys: HashSet<SnapshotKey>,
    /// All copies of these sessions, which are running.
    pub sessions: HashSet<String>,
}

/// Files and their size. A file that several copies share counts once; blocks that files share count for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Number of files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The result of [`FileStore::trim`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrimSummary {
    /// Copies that were removed, oldest first, with what this freed.
    pub removed: Vec<(SnapshotKey, DiskUsage)>,
    /// The sum of what was freed.
    pub freed: DiskUsage,
    /// What the store has now.
    pub kept: DiskUsage,
    /// Copies that could not be removed, with the reason.
    pub failed: Vec<(SnapshotKey, String)>,
}

/// Identifies a file: its device and its inode.
type FileId = (u64, u64);

/// A regular file of a copy.
#[derive(Debug, Clone, Copy)]
struct FileStat {
    id: FileId,
    len: u64,
}

/// The files of a store, and how many copies have each.
#[derive(Default)]
struct FileLinks {
    links: HashMap<FileId, u32>,
    total: DiskUsage,
}

impl FileStore {
    /// Removes the oldest copies until the store has at most `limit` bytes, except protected copies and those of sessions that another
    /// process uses. With `dry_run`, only reports what would be removed. Blocks: reads the metadata of all copied files.
    pub fn trim(&self, limit: u64, protected: &ProtectedCopies, dry_run: bool) -> TrimSummary {
        let mut files = FileLinks::default();
        let mut copies = Vec::new();
        for key in self.copies() {
            let path = self.copy_path(&key);
            visit_files(&path, MAX_DEPTH, &mut |file| files.add(file));
            let taken =
                fs::metadata(&path).and_then(|copy| copy.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            copies.push((taken, key));
        }
        copies.sort();
        let mut summary = TrimSummary::default();
        for (_, key) in copies {
            if files.total.bytes <= limit {
                break;
            }
            if protected.keys.contains(&key) || protected.sessions.contains(key.session()) {
                continue;
            }
            let mut own = Vec::new();
            visit_files(&self.copy_path(&key), MAX_DEPTH, &mut |file| own.push(file));
            let removed = if dry_run { Ok(true) } else { self.remove_copy(&key) };
            match removed {
                Ok(true) => {
                    let before = files.total;
                    own.into_iter().for_each(|file| files.remove(file));
                    let freed = before.saturating_sub(files.total);
                    summary.freed = summary.freed.saturating_add(freed);
                    summary.removed.push((key, freed));
                }
                Ok(false) => {}
                Err(error) => summary.failed.push((key, error.to_string())),
            }
        }
        summary.kept = files.total;
        if !dry_run && !summary.removed.is_empty() {
            self.sweep();
        }
        summary
    }

    /// Removes a copy. Returns false if another process uses its session.
    fn remove_copy(&self, key: &SnapshotKey) -> io::Result<bool> {
        let Some(session) = self.try_lock_session(key.session())? else { return Ok(false) };
        let (path, removed) = (self.copy_path(key), session.scratch().join("removed"));
        // Before the move: the next process that locks the session must be able to remove what is left.
        unlock_folders(&path, MAX_DEPTH)?;
        fs::rename(&path, &removed)?;
        fs::remove_dir_all(&removed)?;
        Ok(true)
    }
}

impl FileLinks {
    fn add(&mut self, file: FileStat) {
        let links = self.links.entry(file.id).or_default();
        *links += 1;
        if *links == 1 {
            self.total = self.total.saturating_add(DiskUsage { files: 1, bytes: file.len });
        }
    }

    fn remove(&mut self, file: FileStat) {
        if let Some(links) = self.links.get_mut(&file.id) {
            *links = links.saturating_sub(1);
            if *links == 0 {
                self.links.remove(&file.id);
                self.total = self.total.saturating_sub(DiskUsage { files: 1, bytes: file.len });
            }
        }
    }
}

impl DiskUsage {
    fn saturating_add(self, other: DiskUsage) -> DiskUsage {
        DiskUsage {
            files: self.files.saturating_add(other.files),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn saturating_sub(self, other: DiskUsage) -> DiskUsage {
        DiskUsage {
            files: self.files.saturating_sub(other.files),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Calls `visit` with each regular file. Does not follow symbolic links.
fn visit_files(folder: &Path, depth: usize, visit: &mut dyn FnMut(FileStat)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() && depth > 0 => visit_files(&entry.path(), depth - 1, visit),
            Ok(metadata) if metadata.is_file() => {
                visit(FileStat { id: (metadata.dev(), metadata.ino()), len: metadata.len() });
            }
            _ => {}
        }
    }
}

/// Makes a folder and those below it writable for their owner, so that they can be removed.
fn unlock_folders(folder: &Path, depth: usize) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && depth > 0 {
            unlock_folders(&entry.path(), depth - 1)?;
        }
    }
    Ok(())
}
