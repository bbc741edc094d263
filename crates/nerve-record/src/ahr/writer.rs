//! Appends sealed blocks to a file.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::AhrError;
use super::reader::{Part, Reader};

/// A recording being written, held with an exclusive lock: a second recorder is refused. Closing is dropping.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    len: u64,
    /// The file is longer than `len`: a part of a block that did not fit is still behind it.
    torn: bool,
}

impl Writer {
    /// Makes the file, locks it, and makes sure that its folder knows it. A file that is there already is taken if it is
    /// empty. Either way it has mode 0600 from then on: what is typed is in it too.
    ///
    /// # Errors
    /// [`AhrError::Busy`] when another recorder has it, [`AhrError::Exists`] when it is not empty,
    /// [`AhrError::NotAFile`] for a link, pipe or folder, [`AhrError::Io`] for the rest.
    pub fn create(path: &Path) -> Result<Writer, AhrError> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = open_regular(path, &mut options, OFlags::NOFOLLOW)?;
        lock(&file, path)?;
        // Asked under the lock: before it, another recorder could have been about to write.
        if file.metadata().map_err(AhrError::io("look at", path))?.len() > 0 {
            return Err(AhrError::Exists { path: path.into() });
        }
        file.set_permissions(Permissions::from_mode(0o600)).map_err(AhrError::io("protect", path))?;
        sync_folder_of(path)?;
        Ok(Writer { file, path: path.into(), len: 0, torn: false })
    }

    /// Opens a recording that somebody else has begun, to go on at its end. With it: the output bytes before what comes next. What
    /// is left of an unfinished block is cut off.
    ///
    /// # Errors
    /// As [`Writer::create`], but that the file is there already is no error, and that it is not is one.
    pub fn resume(path: &Path) -> Result<(Writer, u64), AhrError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = open_regular(path, &mut options, OFlags::NOFOLLOW)?;
        lock(&file, path)?;
        let (mut end, mut output) = (0, 0);
        let mut reader = Reader::open(path)?;
        while let Some(part) = reader.next()? {
            match part {
                Part::Block(block) => (end, output) = (block.file().end, block.output().end.max(output)),
                // What follows it, if anything does, is as good as before.
                Part::Lost(lost) if !lost.tail => end = lost.file.end,
                Part::Lost(_) => {}
            }
        }
        let torn = file.metadata().map_err(AhrError::io("look at", path))?.len() > end;
        Ok((Writer { file, path: path.into(), len: end, torn }, output))
    }

    /// Appends one sealed block. What a full disk leaves of it is cut off again, so that the file stays whole and a later
    /// block can follow.
    ///
    /// # Errors
    /// What the operating system says; the block is not in the file then.
    pub fn append(&mut self, sealed: &[u8]) -> io::Result<()> {
        if self.torn {
            self.cut()?;
        }
        // At a position, not at the end: where cutting failed, the next block overwrites what is left.
        if let Err(error) = self.file.write_all_at(sealed, self.len) {
            self.torn = true;
            // The first error is the one to tell; cutting is tried again before the next block.
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

    /// Returns when what was appended is on the disk (fdatasync).
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The recording.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes appended.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was appended yet.
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

/// Opens `path` if it is a regular file. A named pipe must not hold the caller up for ever, hence O_NONBLOCK, which means
/// nothing to a regular file.
pub(super) fn open_regular(path: &Path, options: &mut OpenOptions, flags: OFlags) -> Result<File, AhrError> {
    options.custom_flags((flags | OFlags::NONBLOCK).bits().cast_signed());
    let not_a_file = || AhrError::NotAFile { path: path.into() };
    let file =
        options.open(path).map_err(|source| match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => not_a_file(),
            _ => AhrError::io("open", path)(source),
        })?;
    let regular = file.metadata().map_err(AhrError::io("look at", path))?.is_file();
    if regular { Ok(file) } else { Err(not_a_file()) }
}

/// Makes the entry of a new file durable: without it, a power failure can take the whole file however often it was synced.
fn sync_folder_of(path: &Path) -> Result<(), AhrError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems cannot sync folders, and a folder may be open to writing but not to reading.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied) =>
        {
            Ok(())
        }
        outcome => outcome.map_err(AhrError::io("sync the folder", folder)),
    }
}
