//! Lists and copies a directory tree.

use std::fs::{self, File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nerve_types::os::clone_file;

use super::comparison::{Continue, has_same_bytes};
use super::{FilesError, SkippedFiles};
use nerve_types::regular_file::{Links, open_regular};

/// Maximum files, links and directories of a copy.
pub(super) const MAX_ENTRIES: usize = 1_000_000;

/// Bytes copied between two checks for cancellation.
const CHUNK: u64 = 16 << 20;

/// Mode bits that are preserved. Setuid and setgid are not, because the copy may have a different owner.
const MODE_MASK: u32 = 0o777;

/// The entries to copy, directories before their contents.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Mode of the root.
    mode: u32,
    entries: Vec<Entry>,
    /// Total bytes of all files.
    pub(super) bytes: u64,
    pub(super) left_out: SkippedFiles,
}

#[derive(Debug)]
struct Entry {
    /// Relative to the root of the tree.
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Directory {
        mode: u32,
    },
    File {
        bytes: u64,
    },
    /// A file that is unchanged since an earlier copy and shared with it.
    Shared,
    Link,
}

/// Statistics of a copy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CopyStats {
    /// Files that share their blocks with the original.
    pub(super) cloned: u64,
    /// Files that do not.
    pub(super) copied: u64,
}

/// Lists everything under `root`, without following links and without `except`.
pub(super) fn survey(root: &Path, except: &Path, should_continue: Continue<'_>) -> Result<Plan, FilesError> {
    let meta = root.metadata().map_err(FilesError::io("read the directory", root))?;
    let mut plan = Plan { mode: meta.mode() & MODE_MASK, ..Plan::default() };
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        should_continue()?;
        let full = root.join(&dir);
        let entries = match fs::read_dir(&full) {
            Ok(entries) => entries,
            Err(error) if dir.as_os_str().is_empty() => {
                return Err(FilesError::io("read the directory", root)(error));
            }
            Err(error) => {
                plan.left_out.push(|| format!("{dir:?}: {error}"));
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(FilesError::io("read the directory", &full))?;
            let path = dir.join(entry.file_name());
            // The entry was removed in the meantime.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && root.join(&path) == except {
                continue;
            }
            if meta.is_dir() {
                pending.push(path.clone());
            }
            plan.add(path, &meta);
            if plan.entries.len() > MAX_ENTRIES {
                return Err(FilesError::TooMany { path: root.into(), limit: MAX_ENTRIES });
            }
        }
    }
    Ok(plan)
}

impl Plan {
    fn add(&mut self, path: PathBuf, meta: &Metadata) {
        let kind = if meta.is_dir() {
            Kind::Directory { mode: meta.mode() & MODE_MASK }
        } else if meta.is_file() {
            self.bytes = self.bytes.saturating_add(meta.len());
            Kind::File { bytes: meta.len() }
        } else if meta.is_symlink() {
            Kind::Link
        } else {
            return self.left_out.push(|| format!("{path:?}: {}", special(meta.file_type())));
        };
        self.entries.push(Entry { path, kind });
    }

    /// Marks the files that are unchanged since an earlier copy. The new copy shares them, which needs no space.
    pub(super) fn mark_shared(
        &mut self,
        from: &Path,
        earlier: &Path,
        should_continue: Continue<'_>,
    ) -> Result<(), FilesError> {
        for entry in &mut self.entries {
            let Kind::File { bytes } = entry.kind else { continue };
            if is_unchanged(&from.join(&entry.path), &earlier.join(&entry.path), should_continue)? {
                entry.kind = Kind::Shared;
                self.bytes -= bytes;
            }
        }
        Ok(())
    }

    /// Tests whether the largest file can share its blocks with a file at `probe`, which is removed again.
    pub(super) fn can_be_cloned(&self, root: &Path, probe: &Path) -> bool {
        let size = |entry: &&Entry| match entry.kind {
            Kind::File { bytes } => bytes,
            _ => 0,
        };
        let Some(largest) = self.entries.iter().max_by_key(size).filter(|entry| size(entry) > 0) else {
            return false;
        };
        let clone = || -> io::Result<()> {
            let from = open_file(&root.join(&largest.path))?;
            clone_file(&create_file(probe)?, &from)
        };
        let is_cloned = clone().is_ok();
        // Nothing to remove if it could not be created.
        let _ = fs::remove_file(probe);
        is_cloned
    }

    /// Copies to the empty directory `to`. `earlier`: as for [`Plan::mark_shared`]. `limit`: maximum bytes to copy; clones and
    /// shared files do not count. Unreadable files are skipped. The caller sets the modes of directories afterwards ([`Plan::set_modes`]).
    pub(super) fn copy(
        &mut self,
        from: &Path,
        to: &Path,
        earlier: Option<&Path>,
        limit: u64,
        should_continue: Continue<'_>,
    ) -> Result<CopyStats, FilesError> {
        let mut copied = CopyStats::default();
        let mut room = limit;
        for entry in &self.entries {
            should_continue()?;
            let (source, target) = (from.join(&entry.path), to.join(&entry.path));
            match entry.kind {
                Kind::Directory { .. } => {
                    fs::create_dir(&target).map_err(FilesError::io("make the directory", &target))?;
                }
                Kind::Link => match fs::read_link(&source) {
                    Ok(path) => symlink(path, &target).map_err(FilesError::io("make the link", &target))?,
                    Err(error) => self.left_out.push(|| format!("{:?}: {error}", entry.path)),
                },
                // A file with too many names is copied.
                Kind::Shared
                    if earlier.is_some_and(|dir| fs::hard_link(dir.join(&entry.path), &target).is_ok()) => {}
                Kind::File { .. } | Kind::Shared => {
                    let file = match open_file(&source) {
                        Ok(file) => file,
                        Err(error) => {
                            self.left_out.push(|| format!("{:?}: {error}", entry.path));
                            continue;
                        }
                    };
                    match copy_file(&file, &target, room, should_continue)? {
                        None => copied.cloned += 1,
                        Some(bytes) if bytes <= room => {
                            room -= bytes;
                            copied.copied += 1;
                        }
                        Some(bytes) => {
                            let bytes = limit.saturating_add(bytes - room);
                            return Err(FilesError::TooLarge { path: from.into(), bytes, limit });
                        }
                    }
                }
            }
        }
        Ok(copied)
    }

    /// Sets the modes of the copied directories and of the root. Must come last, because some are not writable.
    pub(super) fn set_modes(&self, to: &Path) -> Result<(), FilesError> {
        for entry in self.entries.iter().rev() {
            if let Kind::Directory { mode } = entry.kind {
                set_mode(&to.join(&entry.path), mode)?;
            }
        }
        set_mode(to, self.mode)
    }
}

/// Sets the mode of a directory.
fn set_mode(path: &Path, mode: u32) -> Result<(), FilesError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(FilesError::io("set the mode of", path))
}

/// Gives a directory the mode of its source, if that still exists.
pub(super) fn copy_mode(source: &Path, to: &Path) -> Result<(), FilesError> {
    source.metadata().map_or(Ok(()), |meta| set_mode(to, meta.mode() & MODE_MASK))
}

/// Returns true if a file is the same as its earlier copy. Compares the bytes: a file of equal size and time
/// can differ, and each link to the copy changes its times.
fn is_unchanged(file: &Path, copy: &Path, should_continue: Continue<'_>) -> Result<bool, FilesError> {
    let (Ok(now), Ok(then)) = (file.symlink_metadata(), copy.symlink_metadata()) else { return Ok(false) };
    let key = |meta: &Metadata| {
        (meta.is_file(), meta.len(), meta.mode() & MODE_MASK, meta.mtime(), meta.mtime_nsec())
    };
    let is_candidate = now.is_file() && key(&now) == key(&then);
    Ok(is_candidate && has_same_bytes(file, copy, should_continue)?)
}

/// Copies a file. Returns the number of bytes, `room + 1` if there are too many, or `None` if the file shares its
/// blocks.
fn copy_file(
    from: &File,
    to: &Path,
    room: u64,
    should_continue: Continue<'_>,
) -> Result<Option<u64>, FilesError> {
    let failed = |error: io::Error| FilesError::io("copy to", to)(error);
    let meta = from.metadata().map_err(failed)?;
    let target = create_file(to).map_err(failed)?;
    let copied = match clone_file(&target, from) {
        Ok(()) => None,
        Err(_) => Some(copy_bytes(from, &target, room.saturating_add(1), should_continue, failed)?),
    };
    let finish = || {
        target.set_permissions(Permissions::from_mode(meta.mode() & MODE_MASK))?;
        target.set_modified(meta.modified()?)
    };
    finish().map_err(failed)?;
    Ok(copied)
}

/// Copies up to `limit` bytes.
fn copy_bytes(
    from: &File,
    mut to: &File,
    limit: u64,
    should_continue: Continue<'_>,
    failed: impl Fn(io::Error) -> FilesError,
) -> Result<u64, FilesError> {
    let mut copied = 0;
    loop {
        should_continue()?;
        // The kernel copies without passing the bytes through user space where it can.
        let piece = io::copy(&mut from.take(CHUNK.min(limit - copied)), &mut to).map_err(&failed)?;
        copied += piece;
        if piece == 0 || copied == limit {
            return Ok(copied);
        }
    }
}

/// Opens a file that was regular when listed.
fn open_file(path: &Path) -> io::Result<File> {
    Ok(open_regular(path, File::options().read(true), Links::Refuse)?)
}

fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn special(kind: FileType) -> &'static str {
    if kind.is_socket() {
        "a socket"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_block_device() || kind.is_char_device() {
        "a device"
    } else {
        "of an unknown kind"
    }
}
