//! Ownership of a server name: the lock that proves a live server, the socket, and the removal of stale ones.
//!
//! A live server holds an exclusive lock on `<runtime>/<name>.lock`. The kernel releases it however the
//! process ends. A socket whose lock is free is therefore stale, and so is the pid in a lock file that is
//! free.
//!
//! Files in the runtime directory may be deleted while the server runs, for example at a logout. The lock
//! file names the socket's inode, so a missing socket is noticed. The server's claim on its hosts, which is
//! in the state directory, names the process if the lock file is gone too.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerve_host::repair::request_process_repair;
use nerve_types::os::{ProcessHandle, is_own_process, start_time};

use crate::error::ServerError;
use crate::paths::{ServerPaths, private_directory};

/// Time that a starting server waits for its lock, which looking up the name holds for a moment.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between attempts to lock a file.
const LOCK_POLL: Duration = Duration::from_millis(10);
/// Time for which the owner of a locked name must answer on its socket to count as running. A process that was just
/// killed keeps listening for a moment.
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
        let Addresses { tcp, http, tls } = &self.addresses;
        let Inode(device, inode) = self.inode;
        let line = |what: &str, address: &SocketAddr| format!("{what} {address}\n");
        let mut text = format!("socket {device} {inode}\n");
        text.extend(tcp.iter().map(|address| line("tcp", address)));
        text.extend(http.iter().map(|address| line("http", address)));
        if *tls {
            text.push_str("tls\n");
        }
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

impl Addresses {
    /// Returns the addresses as `tcp://…` and `http://…`, or with TLS as `tls://…` and `https://…`.
    pub fn urls(&self) -> Vec<String> {
        let (tcp, http) = if self.tls { ("tls", "https") } else { ("tcp", "http") };
        let url = |scheme: &str, address: &SocketAddr| format!("{scheme}://{address}");
        let tcp = self.tcp.iter().map(|address| url(tcp, address));
        tcp.chain(self.http.iter().map(|address| url(http, address))).collect()
    }

    /// Returns the URL of HTTP for clients on this machine, without a path. If the server listens on all addresses, the
    /// URL is that of loopback.
    pub fn local_http_url(&self) -> Option<String> {
        let mut address = self.http?;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let scheme = if self.tls { "https" } else { "http" };
        Some(format!("{scheme}://{address}"))
    }
}

/// The live process that owns a server name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Start time. Detects a later process with the same id.
    start: u64,
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

/// Returns the socket of the server that wrote a claim.
pub(crate) fn claimed_socket(claim: &str) -> Option<&Path> {
    claim.lines().find_map(|line| line.strip_prefix("path ")).map(Path::new)
}

/// Returns true if a lock file names another socket than the one at `socket`.
fn lacks_socket(text: &str, socket: &Path) -> bool {
    let Some(words) = text.lines().find_map(|line| line.strip_prefix("socket ")) else { return false };
    let inode = words
        .split_once(' ')
        .and_then(|(device, inode)| Some(Inode(device.parse().ok()?, inode.parse().ok()?)));
    Inode::at(socket) != inode
}

/// Returns the text of a lock file that a process holds.
fn read_held(path: &Path) -> Result<Option<String>, ServerError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ServerError::Io { what: "open", path: path.into(), source }),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_text(&mut file).unwrap_or_default())),
        Err(TryLockError::Error(source)) => Err(ServerError::Io { what: "lock", path: path.into(), source }),
    }
}

/// Returns the network addresses of the server that owns a name, as written in its lock file.
///
/// # Errors
/// See [`holder`].
pub fn addresses(paths: &ServerPaths, name: &str) -> Result<Addresses, ServerError> {
    let mut addresses = Addresses::default();
    let text = read_held(&paths.lock(name)?)?.unwrap_or_default();
    for line in text.lines().skip(1) {
        match line.split_once(' ') {
            Some(("tcp", address)) => addresses.tcp = address.parse().ok(),
            Some(("http", address)) => addresses.http = address.parse().ok(),
            _ => addresses.tls |= line == "tls",
        }
    }
    Ok(addresses)
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
                return Err(ServerError::Io { what: "lock", path: path.into(), source });
            }
            Err(TryLockError::WouldBlock) if is_alive() || Instant::now() >= deadline => {
                return Err(make_error(&read_text(&mut file).unwrap_or_default()));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
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

/// Returns the error of a start while another process owns the name. `text`: its lock file.
pub(crate) fn already_running_error(
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

/// Replaces the content of a lock file with the owner and further lines.
pub(crate) fn write_identity(lock: &mut File, lines: &str) -> std::io::Result<()> {
    let pid = std::process::id();
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(format!("{pid} {}\n{lines}", start_time(pid).unwrap_or(0)).as_bytes())
}

fn parse_identity(text: &str) -> Option<Holder> {
    let (pid, start) = text.lines().next()?.split_once(' ')?;
    Some(Holder { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// Reads a lock file: the owner in the first line, then the socket and the addresses.
fn read_text(file: &mut File) -> std::io::Result<String> {
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
    fn local_url_replaces_unspecified_address() {
        let url = |http: &str, tls| Addresses { http: http.parse().ok(), tcp: None, tls }.local_http_url();
        assert_eq!(url("0.0.0.0:70", false).unwrap(), "http://127.0.0.1:70");
        assert_eq!(url("[::]:70", true).unwrap(), "https://[::1]:70");
        assert_eq!(url("10.0.0.1:70", true).unwrap(), "https://10.0.0.1:70");
        assert_eq!(url("", false), None);
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
    fn deleted_files_are_found_and_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let (mut claim, _listener) = NameLock::take(&paths, "a").unwrap();
        let _hosts = paths.claim_hosts("a").unwrap();
        let listens = Addresses { tcp: "[::1]:4000".parse().ok(), http: None, tls: false };
        claim.announce(&listens).unwrap();
        let held = holder(&paths, "a").unwrap();
        assert!(claim.repair().unwrap().is_none(), "nothing is missing");
        assert_eq!(missing_files(&paths, "a").unwrap(), Vec::<PathBuf>::new());

        fs::remove_file(&claim.socket).unwrap();
        assert_eq!(missing_files(&paths, "a").unwrap(), [claim.socket.clone()]);
        assert!(matches!(NameLock::take(&paths, "a"), Err(ServerError::Unreachable { pid: Some(_), .. })));
        let _stale = UnixListener::bind(&claim.socket).unwrap();
        assert_eq!(missing_files(&paths, "a").unwrap(), [claim.socket.clone()], "it is of another process");
        assert!(matches!(claim.repair(), Err(ServerError::ForeignListener { .. })));

        fs::remove_dir_all(&paths.runtime).unwrap();
        assert_eq!((holder(&paths, "a").unwrap(), paths.servers()), (held, vec!["a".to_string()]));
        assert_eq!(missing_files(&paths, "a").unwrap().len(), 2);
        assert!(matches!(paths.claim_hosts("a"), Err(ServerError::Unreachable { pid: Some(_), .. })));
        let listener = claim.repair().unwrap().expect("a new socket");
        UnixStream::connect(&claim.socket).unwrap();
        listener.accept().unwrap();
        assert_eq!(missing_files(&paths, "a").unwrap(), Vec::<PathBuf>::new());
        assert_eq!((holder(&paths, "a").unwrap(), addresses(&paths, "a").unwrap()), (held, listens));
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
        let right = Holder { pid: child.id(), start: start_time(child.id()).unwrap() };
        right.signal(rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap();
        assert!(right.signal(rustix::process::Signal::TERM).is_err());
    }
}
