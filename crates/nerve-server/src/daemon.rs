//! Ownership of a server name: the lock that proves a live server, the socket, and the removal of stale ones.
//!
//! A live server holds an exclusive lock on `<runtime>/<name>.lock`. The kernel releases it however the
//! process ends. A socket whose lock is free is therefore stale, and so is the pid in a lock file that is
//! free.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_host::registry::start_ticks;

use crate::error::ServerError;
use crate::paths::{LOCK_POLL, LOCK_TIMEOUT, ServerPaths, private_directory};

/// Time that a locked name must answer on its socket to count as running. A process that was just killed
/// keeps listening for a moment.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(150);
/// Maximum size of a lock file in bytes.
const MAX_LOCK_BYTES: u64 = 512;

/// A server name owned by this process. Dropping it removes the socket and frees the name.
#[derive(Debug)]
pub struct NameLock {
    /// The server's name.
    pub name: String,
    /// Path of the Unix socket.
    pub socket: PathBuf,
    lock: File,
}

/// Network addresses that a server listens on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the line protocol.
    pub tcp: Option<SocketAddr>,
    /// Address of HTTP.
    pub http: Option<SocketAddr>,
    /// True if both use TLS.
    pub tls: bool,
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
        write_identity(&mut lock).map_err(ServerError::io("write", &paths.lock(name)?))?;
        let listener = UnixListener::bind(&socket).map_err(ServerError::io("listen on", &socket))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))
            .map_err(ServerError::io("set the mode of", &socket))?;
        listener.set_nonblocking(true).map_err(ServerError::io("set up", &socket))?;
        Ok((NameLock { name: name.to_string(), socket, lock }, listener))
    }

    /// Writes the addresses into the lock file, where [`addresses`] finds them.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn announce(&mut self, addresses: &Addresses) -> Result<(), ServerError> {
        let Addresses { tcp, http, tls } = addresses;
        let line = |what: &str, address: &SocketAddr| format!("{what} {address}\n");
        let mut text: String = tcp.iter().map(|address| line("tcp", address)).collect();
        text.extend(http.iter().map(|address| line("http", address)));
        if *tls {
            text.push_str("tls\n");
        }
        self.lock
            .write_all(text.as_bytes())
            .map_err(ServerError::io("write", &self.socket.with_extension("lock")))
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // The lock is still held, so the socket is still ours. The lock file stays: removing it would race
        // with a server that has just opened it.
        let _ = fs::remove_file(&self.socket);
    }
}

impl Addresses {
    /// Returns the addresses as `tcp://…` and `http://…`, or with TLS as `tls://…` and `https://…`.
    pub fn urls(&self) -> Vec<String> {
        let (tcp, http) = if self.tls { ("tls", "https") } else { ("tcp", "http") };
        let url = |scheme: &str, address: &SocketAddr| format!("{scheme}://{address}");
        let tcp = self.tcp.iter().map(|address| url(tcp, address));
        tcp.chain(self.http.iter().map(|address| url(http, address))).collect()
    }
}

/// The live process that owns a server name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (proc(5), stat field 22). Detects a later process with the same
    /// id.
    start: u64,
}

impl Holder {
    /// Returns true if the process with this id is still the one that wrote the lock file, and belongs to
    /// this user.
    pub fn is_same_process(&self) -> bool {
        let uid = rustix::process::getuid().as_raw();
        let owned = fs::metadata(format!("/proc/{}", self.pid)).is_ok_and(|meta| meta.uid() == uid);
        owned && start_ticks(self.pid) == Some(self.start)
    }

    /// Sends a signal to the process if it is still the same one.
    ///
    /// # Errors
    /// Returns `NotFound` if the process is gone or the id was reused, or the error of the system call.
    pub fn signal(&self, signal: rustix::process::Signal) -> std::io::Result<()> {
        let gone = || std::io::Error::new(std::io::ErrorKind::NotFound, "the process is gone");
        // The pidfd is opened before the check, so that the check is about the process that gets the signal.
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(gone)?;
        let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        if !self.is_same_process() {
            return Err(gone());
        }
        Ok(rustix::process::pidfd_send_signal(handle, signal)?)
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
    let path = paths.lock(name)?;
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(NameStatus::Free),
        Err(source) => return Err(ServerError::Io { what: "open", path, source }),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(NameStatus::Free),
        Err(TryLockError::WouldBlock) => Ok(NameStatus::Held(read_identity(&mut file))),
        Err(TryLockError::Error(source)) => Err(ServerError::Io { what: "lock", path, source }),
    }
}

/// Returns the network addresses of the server that owns a name, as written in its lock file.
///
/// # Errors
/// See [`holder`].
pub fn addresses(paths: &ServerPaths, name: &str) -> Result<Addresses, ServerError> {
    let mut addresses = Addresses::default();
    if holder(paths, name)? == NameStatus::Free {
        return Ok(addresses);
    }
    let path = paths.lock(name)?;
    let text =
        File::open(&path).and_then(|mut file| text_of(&mut file)).map_err(ServerError::io("read", &path))?;
    for line in text.lines().skip(1) {
        match line.split_once(' ') {
            Some(("tcp", address)) => addresses.tcp = address.parse().ok(),
            Some(("http", address)) => addresses.http = address.parse().ok(),
            _ => addresses.tls |= line == "tls",
        }
    }
    Ok(addresses)
}

fn lock_name(path: &Path, socket: &Path, name: &str) -> Result<File, ServerError> {
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
    let mut answered: Option<Instant> = None;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => {
                return Err(ServerError::Io { what: "lock", path: path.into(), source });
            }
            Err(TryLockError::WouldBlock) => {
                let answers = UnixStream::connect(socket).is_ok();
                let alive = answers && answered.get_or_insert_with(Instant::now).elapsed() >= SHUTDOWN_GRACE;
                if alive || Instant::now() >= deadline {
                    let pid = read_identity(&mut file).map(|holder| holder.pid);
                    return Err(ServerError::AlreadyRunning { name: name.to_string(), pid });
                }
                std::thread::sleep(LOCK_POLL);
            }
        }
    }
}

fn remove_stale(socket: &Path) -> Result<(), ServerError> {
    let meta = match fs::symlink_metadata(socket) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(ServerError::Io { what: "look at", path: socket.into(), source }),
    };
    if !meta.file_type().is_socket() {
        return Err(ServerError::NotASocket { path: socket.into() });
    }
    if UnixStream::connect(socket).is_ok() {
        return Err(ServerError::ForeignListener { path: socket.into() });
    }
    fs::remove_file(socket).map_err(ServerError::io("remove the stale", socket))
}

fn write_identity(lock: &mut File) -> std::io::Result<()> {
    let pid = std::process::id();
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{pid} {}", start_ticks(pid).unwrap_or(0))
}

fn read_identity(file: &mut File) -> Option<Holder> {
    let text = text_of(file).ok()?;
    let (pid, start) = text.lines().next()?.split_once(' ')?;
    Some(Holder { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// Reads the lock file: the owner in the first line, then the addresses.
fn text_of(file: &mut File) -> std::io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.take(MAX_LOCK_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(dir: &Path) -> ServerPaths {
        let home = dir.join("n");
        ServerPaths::resolve(|name| (name == "NERVE_HOME").then(|| home.clone().into()), 0, dir)
    }

    #[test]
    fn name_is_owned_until_lock_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        assert_eq!(holder(&paths, "a").unwrap(), NameStatus::Free);
        let (mut claim, _listener) = NameLock::take(&paths, "a").unwrap();
        assert_eq!(fs::metadata(&claim.socket).unwrap().mode() & 0o777, 0o600);
        let NameStatus::Held(Some(who)) = holder(&paths, "a").unwrap() else { panic!("not held") };
        assert_eq!(who.pid, std::process::id());
        assert!(who.is_same_process());
        let again = NameLock::take(&paths, "a").unwrap_err();
        assert!(matches!(again, ServerError::AlreadyRunning { pid: Some(pid), .. } if pid == who.pid));
        assert_eq!(addresses(&paths, "a").unwrap(), Addresses::default());
        let listens = Addresses { tcp: "[::1]:4000".parse().ok(), http: None, tls: true };
        claim.announce(&listens).unwrap();
        assert_eq!(addresses(&paths, "a").unwrap(), listens);
        assert_eq!(holder(&paths, "a").unwrap(), NameStatus::Held(Some(who)));
        let socket = claim.socket.clone();
        drop(claim);
        assert_eq!(addresses(&paths, "a").unwrap(), Addresses::default());
        assert!(!socket.exists());
        assert_eq!(holder(&paths, "a").unwrap(), NameStatus::Free);
        drop(NameLock::take(&paths, "a").unwrap());
    }

    #[test]
    fn stale_socket_is_replaced_but_a_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        private_directory(&paths.runtime).unwrap();
        drop(UnixListener::bind(paths.socket("a").unwrap()).unwrap());
        assert!(paths.socket("a").unwrap().exists());
        drop(NameLock::take(&paths, "a").unwrap());
        let path = paths.socket("b").unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(matches!(NameLock::take(&paths, "b"), Err(ServerError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn listener_without_lock_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        private_directory(&paths.runtime).unwrap();
        let _other = UnixListener::bind(paths.socket("a").unwrap()).unwrap();
        assert!(matches!(NameLock::take(&paths, "a"), Err(ServerError::ForeignListener { .. })));
    }

    #[test]
    fn reused_pid_is_never_signalled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let stranger = Holder { pid: child.id(), start: 1 };
        assert!(!stranger.is_same_process());
        assert!(stranger.signal(rustix::process::Signal::KILL).is_err());
        assert!(child.try_wait().unwrap().is_none());
        let right = Holder { pid: child.id(), start: start_ticks(child.id()).unwrap() };
        right.signal(rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap();
        assert!(right.signal(rustix::process::Signal::TERM).is_err());
    }
}
