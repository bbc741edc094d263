//! Ownership of a server name: the lock that proves a live server, the socket, and the removal of stale ones.
//!
//! A live server holds an exclusive lock on `<runtime>/<name>.lock`. The kernel releases it however the
//! process ends. A socket whose lock is free is therefore stale, and so is the pid in a lock file that is
//! free.
//!
//! Files in the runtime directory may be deleted while the server runs, for example at a logout. The lock
//! file names the socket's inode, so a missing socket is noticed. The server's claim on its hosts, which is
//! in the state directory, names the process if the lock file is gone too.

mod listen_addresses;
mod lock;
mod name_status;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use self::listen_addresses::{Addresses, addresses};
use self::lock::{lock_file, write_identity};
pub use self::name_status::{Holder, NameStatus, holder, missing_files};
use self::name_status::{already_running_error, lacks_socket};
use crate::error::ServerError;
use crate::paths::{ServerPaths, private_directory};

/// Time for which the owner of a locked name must answer on its socket to count as running. A process that was just
/// killed keeps listening for a moment.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(150);

/// A server name owned by this process. Dropping it removes the socket and frees the name.
#[derive(Debug)]
pub struct NameLock {
    /// The server's name.
    pub name: String,
    /// Path of the Unix socket.
    pub socket: PathBuf,
    lock: File,
    /// The socket that this process has created.
    inode: Inode,
    addresses: Addresses,
}

/// Device and inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inode(u64, u64);

impl Inode {
    /// Returns the inode of the file at `path`, or `None` if there is none.
    fn at(path: &Path) -> Option<Inode> {
        fs::symlink_metadata(path).ok().map(|meta| Inode(meta.dev(), meta.ino()))
    }
}

impl NameLock {
    /// Takes a name: creates the runtime directory, takes the lock, removes a stale socket and listens. The
    /// returned listener is non-blocking.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or taken, the path is too long, or another file is in the
    /// socket's place.
    pub fn take(paths: &ServerPaths, name: &str) -> Result<(NameLock, UnixListener), ServerError> {
        let socket = paths.socket(name)?;
        private_directory(&paths.runtime)?;
        let mut lock = lock_name(&paths.lock(name)?, &socket, name)?;
        remove_stale(&socket)?;
        write_identity(&mut lock, "").map_err(ServerError::io("write", &paths.lock(name)?))?;
        let (listener, inode) = listen(&socket)?;
        let addresses = Addresses::default();
        let mut claim = NameLock { name: name.to_string(), socket, lock, inode, addresses };
        claim.write()?;
        Ok((claim, listener))
    }

    /// Writes the addresses into the lock file, where [`addresses`] finds them.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn announce(&mut self, addresses: &Addresses) -> Result<(), ServerError> {
        self.addresses = *addresses;
        self.write()
    }

    /// Creates the lock file and the socket again if they were deleted or replaced. Returns the listener of a
    /// new socket. May block for half a second.
    ///
    /// # Errors
    /// Returns an error if another process has taken the name or the socket's place meanwhile, or a file cannot
    /// be created.
    pub fn repair(&mut self) -> Result<Option<UnixListener>, ServerError> {
        let path = self.lock_path();
        private_directory(path.parent().unwrap_or(&path))?;
        let lock_inode = self.lock.metadata().map(|meta| Inode(meta.dev(), meta.ino())).ok();
        if lock_inode != Inode::at(&path) {
            self.lock = lock_name(&path, &self.socket, &self.name)?;
            self.write()?;
        }
        if Inode::at(&self.socket) == Some(self.inode) {
            return Ok(None);
        }
        remove_stale(&self.socket)?;
        let (listener, inode) = listen(&self.socket)?;
        self.inode = inode;
        self.write()?;
        Ok(Some(listener))
    }

    /// Writes the lock file: the owner, the socket and the addresses.
    fn write(&mut self) -> Result<(), ServerError> {
        let Addresses { tcp, http, tls, machines } = &self.addresses;
        let Inode(device, inode) = self.inode;
        let line = |what: &str, address: &SocketAddr| format!("{what} {address}\n");
        let mut text = format!("socket {device} {inode}\n");
        text.extend(tcp.iter().map(|address| line("tcp", address)));
        text.extend(http.iter().map(|address| line("http", address)));
        let options = [(tls, "tls\n"), (machines, "machines\n")];
        text.extend(options.into_iter().filter(|(is_set, _)| **is_set).map(|(_, line)| line));
        write_identity(&mut self.lock, &text).map_err(ServerError::io("write", &self.lock_path()))
    }

    fn lock_path(&self) -> PathBuf {
        self.socket.with_extension("lock")
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // A socket that replaced ours belongs to another process. The lock file stays: removing it would race
        // with a server that has just opened it.
        if Inode::at(&self.socket) == Some(self.inode) {
            let _ = fs::remove_file(&self.socket);
        }
    }
}

/// Creates a socket for this user. The listener is non-blocking.
fn listen(socket: &Path) -> Result<(UnixListener, Inode), ServerError> {
    let listener = UnixListener::bind(socket).map_err(ServerError::io("listen on", socket))?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))
        .map_err(ServerError::io("set the mode of", socket))?;
    listener.set_nonblocking(true).map_err(ServerError::io("set up", socket))?;
    let not_found = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let inode = Inode::at(socket).ok_or_else(not_found).map_err(ServerError::io("look at", socket))?;
    Ok((listener, inode))
}

/// Locks the file of a name. A name whose owner answers is taken.
fn lock_name(path: &Path, socket: &Path, name: &str) -> Result<File, ServerError> {
    let mut first_answer: Option<Instant> = None;
    let is_alive = || {
        let answers = UnixStream::connect(socket).is_ok();
        answers && first_answer.get_or_insert_with(Instant::now).elapsed() >= SHUTDOWN_GRACE
    };
    let make_error = |text: &str| already_running_error(name, socket, text, lacks_socket(text, socket));
    lock_file(path, is_alive, make_error)
}

fn remove_stale(socket: &Path) -> Result<(), ServerError> {
    let meta = match fs::symlink_metadata(socket) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(ServerError::Io { action: "look at", path: socket.into(), source }),
    };
    if !meta.file_type().is_socket() {
        return Err(ServerError::NotASocket { path: socket.into() });
    }
    if UnixStream::connect(socket).is_ok() {
        return Err(ServerError::ForeignListener { path: socket.into() });
    }
    fs::remove_file(socket).map_err(ServerError::io("remove the stale", socket))
}
