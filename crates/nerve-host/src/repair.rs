//! Makes running hosts and servers create deleted or damaged files again.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nerve_types::os;
use rustix::process::Signal;

use crate::registry::{DamagedEntry, Entry};
use crate::{CONTROL, SNAPSHOT};

/// The signal that makes a host or server repair its files. Ends processes that do not handle it.
const REPAIR: Signal = Signal::USR1;

/// Returns the files of a running host that are missing: sockets and the recording.
pub fn missing_files(entry: &Entry) -> Vec<PathBuf> {
    let snapshots = entry.snapshots_at.is_none().then(|| entry.runtime.join(SNAPSHOT));
    let files = [Some(entry.runtime.join(CONTROL)), snapshots, entry.recording.clone()];
    files.into_iter().flatten().filter(|path| fs::symlink_metadata(path).is_err()).collect()
}

/// Makes a host create its missing files again. Returns at once; the host reports failures as faults.
///
/// # Errors
/// The host is gone, or cannot repair its files.
pub fn request_repair(entry: &Entry) -> io::Result<()> {
    request_process_repair(entry.pid, || entry.is_alive())
}

/// Makes the host of a damaged entry write it again. The host is found through its control socket. `runtime`: directory of
/// the hosts' runtime directories.
///
/// # Errors
/// No host listens there, or it cannot repair its files.
pub fn request_entry_repair(damaged: &DamagedEntry, runtime: &Path) -> io::Result<()> {
    let id = damaged.path.file_stem().unwrap_or_default();
    let socket = runtime.join(id).join(CONTROL);
    let unreachable = |error| io::Error::other(format!("no host listens on {}: {error}", socket.display()));
    // While it is connected, the process that listens is the host.
    let connection = UnixStream::connect(&socket).map_err(unreachable)?;
    let (user, host) = os::peer_process(&connection)?;
    if user != rustix::process::getuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    request_process_repair(host, || true)
}

/// Makes a process repair its files if `is_same` confirms that it is the right one. Returns at once.
///
/// # Errors
/// The process is gone, is another one, or cannot repair its files.
pub fn request_process_repair(pid: u32, is_same: impl FnOnce() -> bool) -> io::Result<()> {
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "the process is gone");
    // Opened before the check, so that the checked process is the one that gets the signal.
    let process = os::ProcessHandle::open(pid)?;
    if !is_same() {
        return Err(not_found());
    }
    let unsupported = match os::handles_signal(pid, REPAIR) {
        Some(true) => return process.signal(REPAIR),
        Some(false) => format!("process {pid} is of an older version or in the foreground of a terminal"),
        None => format!("cannot tell whether process {pid} can repair its files"),
    };
    Err(io::Error::new(io::ErrorKind::Unsupported, unsupported))
}
