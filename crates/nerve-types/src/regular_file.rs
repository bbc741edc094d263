//! Opens files that must be regular.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Treatment of a symbolic link at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Open its target.
    Follow,
    /// Fail, because a link could redirect writes to another file.
    Refuse,
}

/// Error of [`open_regular`].
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path is a folder, pipe, device or socket, or a refused link.
    #[error("not a regular file")]
    NotRegular,
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> io::Error {
        match error {
            OpenError::Io(error) => error,
            OpenError::NotRegular => io::Error::other(error),
        }
    }
}

/// Opens `path` if it is a regular file, without blocking on a named pipe.
///
/// # Errors
/// [`OpenError`].
pub fn open_regular(path: &Path, options: &mut OpenOptions, links: Links) -> Result<File, OpenError> {
    // O_NONBLOCK has no effect on regular files.
    let flags = match links {
        Links::Follow => OFlags::NONBLOCK,
        Links::Refuse => OFlags::NONBLOCK | OFlags::NOFOLLOW,
    };
    options.custom_flags(flags.bits().cast_signed());
    let file =
        options.open(path).map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => OpenError::NotRegular,
            _ => OpenError::Io(error),
        })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(OpenError::NotRegular) }
}
