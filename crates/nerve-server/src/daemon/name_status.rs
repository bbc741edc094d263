//! The state of a server name, and the process that holds it.

use std::fs::File;
use std::path::{Path, PathBuf};

use nerve_host::repair::request_process_repair;
use nerve_types::os::{ProcessHandle, is_own_process};

use super::Inode;
use super::lock::{lock_file, read_held, write_identity};
use crate::error::ServerError;
use crate::paths::{ServerPaths, private_directory};

/// The live process that owns a server name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Start time. Detects a later process with the same id.
    pub(super) start: u64,
}

impl Holder {
    /// Returns true if the process with this id is still the one that wrote the lock file, and belongs to
    /// this user.
    pub fn is_same_process(&self) -> bool {
        is_own_process(self.pid, self.start)
    }

    /// Sends a signal to the process if it is still the same one.
    ///
    /// # Errors
    /// Returns `NotFound` if the process is gone or the id was reused, or the error of the system call.
    pub fn signal(&self, signal: rustix::process::Signal) -> std::io::Result<()> {
        let not_found = || std::io::Error::new(std::io::ErrorKind::NotFound, "the process is gone");
        // Opened before the check, so that the check is about the process that gets the signal.
        let process = ProcessHandle::open(self.pid)?;
        if !self.is_same_process() {
            return Err(not_found());
        }
        process.signal(signal)
    }

    /// Makes the server create its missing files again. Returns at once; the server logs failures.
    ///
    /// # Errors
    /// See [`request_process_repair`].
    pub fn request_repair(&self) -> std::io::Result<()> {
        request_process_repair(self.pid, || self.is_same_process())
    }
}

/// State of a server name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStatus {
    /// No process owns the name.
    Free,
    /// A live process owns the name; `None` if its identity could not be read.
    Held(Option<Holder>),
}

/// Returns the state of a server name.
///
/// # Errors
/// Returns an error if the name is invalid or the lock file cannot be opened.
pub fn holder(paths: &ServerPaths, name: &str) -> Result<NameStatus, ServerError> {
    let lock_text = match read_held(&paths.lock(name)?)? {
        Some(text) => Some(text),
        None => read_claim(paths, name)?,
    };
    Ok(lock_text.map_or(NameStatus::Free, |text| NameStatus::Held(parse_identity(&text))))
}

/// Returns the files of a running server that were deleted or replaced: without them, no client finds it.
///
/// # Errors
/// See [`holder`].
pub fn missing_files(paths: &ServerPaths, name: &str) -> Result<Vec<PathBuf>, ServerError> {
    let (lock, socket) = (paths.lock(name)?, paths.socket(name)?);
    if let Some(text) = read_held(&lock)? {
        return Ok(if lacks_socket(&text, &socket) { vec![socket] } else { Vec::new() });
    }
    Ok(if read_claim(paths, name)?.is_some() { vec![lock, socket] } else { Vec::new() })
}

/// Returns the claim on the server's hosts if it is held by a process with the same runtime directory.
fn read_claim(paths: &ServerPaths, name: &str) -> Result<Option<String>, ServerError> {
    let socket = paths.socket(name)?;
    Ok(read_held(&paths.hosts_claim(name)?)?
        .filter(|text| claimed_socket(text).is_some_and(|path| path == socket)))
}

impl ServerPaths {
    /// Claims a server's hosts for this process, until the returned file is dropped. Without the claim, a server of
    /// the same name with another runtime directory would drive the hosts too.
    ///
    /// # Errors
    /// Returns an error if another process holds the claim or the file cannot be created.
    pub fn claim_hosts(&self, server: &str) -> Result<File, ServerError> {
        let (path, socket) = (self.hosts_claim(server)?, self.socket(server)?);
        private_directory(&self.data.hosts)?;
        // The caller holds the name, so the owner's lock file was deleted.
        let make_error = |text: &str| {
            let is_unreachable = claimed_socket(text) == Some(&*socket);
            already_running_error(server, &socket, text, is_unreachable)
        };
        let mut file = lock_file(&path, || false, make_error)?;
        let line = format!("path {}\n", socket.display());
        write_identity(&mut file, &line).map_err(ServerError::io("write", &path))?;
        Ok(file)
    }
}

/// Returns the socket of the server that wrote a claim.
fn claimed_socket(claim: &str) -> Option<&Path> {
    claim.lines().find_map(|line| line.strip_prefix("path ")).map(Path::new)
}

/// Returns true if a lock file names another socket than the one at `socket`.
pub(super) fn lacks_socket(text: &str, socket: &Path) -> bool {
    let Some(words) = text.lines().find_map(|line| line.strip_prefix("socket ")) else { return false };
    let inode = words
        .split_once(' ')
        .and_then(|(device, inode)| Some(Inode(device.parse().ok()?, inode.parse().ok()?)));
    Inode::at(socket) != inode
}

/// Returns the error of a start while another process owns the name. `text`: its lock file.
pub(super) fn already_running_error(
    name: &str,
    socket: &Path,
    text: &str,
    is_unreachable: bool,
) -> ServerError {
    let (name, pid) = (name.to_string(), parse_identity(text).map(|holder| holder.pid));
    match is_unreachable {
        true => ServerError::Unreachable { name, pid, socket: socket.into() },
        false => ServerError::AlreadyRunning { name, pid },
    }
}

fn parse_identity(text: &str) -> Option<Holder> {
    let (pid, start) = text.lines().next()?.split_once(' ')?;
    Some(Holder { pid: pid.parse().ok()?, start: start.parse().ok()? })
}
