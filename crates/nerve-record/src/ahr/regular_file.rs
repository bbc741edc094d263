//! Opens files that must be regular.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::AhrError;

/// Opens `path` if it is a regular file. O_NONBLOCK avoids blocking on a named pipe and has no effect on regular files.
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
