//! Appends sealed blocks to a file.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::AhrError;
use super::reader::{Part, Reader};
use nerve_types::regular_file::{Links, open_regular};

/// A recording being written, under an exclusive lock. Dropping it closes the file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    len: u64,
    /// The file is longer than `len`: part of a block that did not fit is still there.
    torn: bool,
}

impl Writer {
    /// Creates and locks the file and syncs its folder. An existing file is accepted if it is empty. The mode becomes
    /// 0600, because recordings contain what was typed.
    ///
    /// # Errors
    /// [`AhrError::Busy`] if another recorder holds the lock, [`AhrError::Exists`] if the file is not empty,
    /// [`AhrError::NotAFile`] for a link, pipe or folder, otherwise [`AhrError::Io`].
    pub fn create(path: &Path) -> Result<Writer, AhrError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open_regular(path, &mut options, Links::Refuse).map_err(AhrError::open(path))?;
        lock(&file, path)?;
        // Checked under the lock, because another recorder could be about to write.
        if file.metadata().map_err(AhrError::io("look at", path))?.len() > 0 {
            return Err(AhrError::Exists { path: path.into() });
        }
        file.set_permissions(Permissions::from_mode(0o600)).map_err(AhrError::io("protect", path))?;
        sync_parent_folder(path)?;
        Ok(Writer { file, path: path.into(), len: 0, torn: false })
    }

    /// Opens an existing recording to append to it; also returns the output bytes before the next block. An unfinished
    /// block at the end is cut off.
    ///
    /// # Errors
    /// As [`Writer::create`], except that the file must exist.
    pub fn resume(path: &Path) -> Result<(Writer, u64), AhrError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = open_regular(path, &mut options, Links::Refuse).map_err(AhrError::open(path))?;
        lock(&file, path)?;
        let (mut end, mut output) = (0, 0);
        let mut reader = Reader::open(path)?;
        while let Some(part) = reader.next()? {
            match part {
                Part::Block(block) => (end, output) = (block.file().end, block.output().end.max(output)),
                // Blocks after the stretch stay valid.
                Part::Lost(lost) if !lost.tail => end = lost.file.end,
                Part::Lost(_) => {}
            }
        }
        let torn = file.metadata().map_err(AhrError::io("look at", path))?.len() > end;
        Ok((Writer { file, path: path.into(), len: end, torn }, output))
    }

    /// Appends one sealed block. Removes a partial block, for example after a full disk, so that later blocks can
    /// follow.
    ///
    /// # Errors
    /// Any I/O error; the block is not in the file then.
    pub fn append(&mut self, sealed: &[u8]) -> io::Result<()> {
        if self.torn {
            self.cut()?;
        }
        // Writes at a position instead of the end: if truncation failed, the next block overwrites the rest.
        if let Err(error) = self.file.write_all_at(sealed, self.len) {
            self.torn = true;
            // The first error is the one to report. Truncation is retried before the next block.
            let _ = self.cut();
            return Err(error);
        }
        self.len += sealed.len() as u64;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.len)?;
        self.torn = false;
        Ok(())
    }

    /// Waits until all appended blocks are on disk (fdatasync).
    ///
    /// # Errors
    /// Any I/O error.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Returns true if the file was deleted. What is appended is lost when the writer is dropped, unless the file is
    /// [restored](Writer::restore).
    pub fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    /// Creates a deleted file again, with everything appended so far, and continues in it. Has no effect on a file that
    /// exists.
    ///
    /// # Errors
    /// Another file has the path, or any I/O error; the writer continues in the deleted file.
    pub fn restore(&mut self) -> io::Result<()> {
        if !self.is_deleted() {
            return Ok(());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut copy = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        let mut written = &self.file;
        written.rewind()?;
        io::copy(&mut written.take(self.len), copy.as_file_mut())?;
        copy.as_file().sync_all()?;
        copy.as_file().try_lock()?;
        self.file = copy.persist_noclobber(&self.path)?;
        self.torn = false;
        sync_parent_folder(&self.path).map_err(io::Error::other)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn lock(file: &File, path: &Path) -> Result<(), AhrError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(AhrError::Busy { path: path.into() }),
        Err(TryLockError::Error(source)) => Err(AhrError::io("lock", path)(source)),
    }
}

/// Makes the directory entry of a new file durable: without it, a power failure can remove the whole file.
fn sync_parent_folder(path: &Path) -> Result<(), AhrError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems cannot sync folders, and a folder may be writable but not readable.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied) =>
        {
            Ok(())
        }
        outcome => outcome.map_err(AhrError::io("sync the folder", folder)),
    }
}
