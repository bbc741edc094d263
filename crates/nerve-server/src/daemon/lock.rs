//! Lock files: who holds one, and what it says.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nerve_types::os::start_time;

use crate::error::ServerError;

/// Time that a starting server waits for its lock, which looking up the name holds for a moment.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between attempts to lock a file.
const LOCK_POLL: Duration = Duration::from_millis(10);
/// Maximum size of a lock file in bytes.
const MAX_LOCK_BYTES: u64 = 512;

/// Creates and locks a file. If another process holds the lock, waits for it unless `is_alive` returns true: a
/// process that was just killed releases its locks one by one. `make_error` returns the error for the text of a
/// file that stays locked.
pub(crate) fn lock_file(
    path: &Path,
    mut is_alive: impl FnMut() -> bool,
    make_error: impl FnOnce(&str) -> ServerError,
) -> Result<File, ServerError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(ServerError::io("open", path))?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => {
                return Err(ServerError::Io { action: "lock", path: path.into(), source });
            }
            Err(TryLockError::WouldBlock) if is_alive() || Instant::now() >= deadline => {
                return Err(make_error(&read_text(&mut file).unwrap_or_default()));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
        }
    }
}

/// Returns the text of a lock file that a process holds.
pub(super) fn read_held(path: &Path) -> Result<Option<String>, ServerError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ServerError::Io { action: "open", path: path.into(), source }),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_text(&mut file).unwrap_or_default())),
        Err(TryLockError::Error(source)) => {
            Err(ServerError::Io { action: "lock", path: path.into(), source })
        }
    }
}

/// Replaces the content of a lock file with the owner and further lines.
pub(crate) fn write_identity(lock: &mut File, lines: &str) -> std::io::Result<()> {
    let pid = std::process::id();
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(format!("{pid} {}\n{lines}", start_time(pid).unwrap_or(0)).as_bytes())
}

/// Reads a lock file: the owner in the first line, then the socket and the addresses.
fn read_text(file: &mut File) -> std::io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.take(MAX_LOCK_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
