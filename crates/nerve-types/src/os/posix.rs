//! The implementation for other systems: ps(1), lsof(8), polling, and what POSIX has. On Linux it is selected by
//! the feature `posix-os`.
//!
//! What these interfaces do not report, such as the signals that another process handles, is `None`.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, openpt};

use super::folder_poller::{self, FolderPoller};
use super::{ProcessStatus, rlimit};

pub(super) const NAME: &str = "posix";

/// Hint for a failed [`check`].
pub const REQUIREMENT: &str = "install ps";

/// Number of checks whether a process exists per run of ps, which also detects zombies and reused ids.
const STATUS_EVERY: u32 = 16;

/// Maximum length of a socket's path in bytes, without the terminating NUL. macOS has the shortest.
pub const MAX_SOCKET_PATH: usize = 103;

/// Flags with which descriptors are received.
pub const RECEIVE_FLAGS: RecvFlags = RecvFlags::empty();

/// Flags with which a socket is written to. The standard library ignores SIGPIPE.
pub const SEND_FLAGS: SendFlags = SendFlags::empty();

/// Checks that the system provides the data by which processes are recognised.
///
/// # Errors
/// `ps` is missing, or does not show this process.
pub fn check() -> io::Result<()> {
    match ProcessStatus::of(std::process::id()) {
        Some(_) => Ok(()),
        None => Err(io::Error::new(io::ErrorKind::Unsupported, "'ps' does not show this process")),
    }
}

/// Runs ps(1). All systems have these options. Returns its lines without the header.
fn ps(args: &[&str]) -> Option<String> {
    output_of(Command::new("ps").args(args).env("LC_ALL", "C").env("TZ", "UTC"))
}

/// Runs lsof(8), which belongs to macOS and may be missing elsewhere. Returns the absolute paths in its output for other programs.
fn lsof(pid: impl std::fmt::Display, args: &[&str]) -> Vec<PathBuf> {
    let text = output_of(Command::new("lsof").args(["-w", "-a", "-Fn", "-p", &pid.to_string()]).args(args));
    let names = text.as_deref().unwrap_or_default().lines().filter_map(|line| line.strip_prefix('n'));
    names.filter(|name| name.starts_with('/')).map(PathBuf::from).collect()
}

/// Returns the standard output of a command that succeeds.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a field of a process.
fn field(pid: impl std::fmt::Display, name: &str) -> Option<String> {
    let text = ps(&["-o", &format!("{name}="), "-p", &pid.to_string()])?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

pub(super) fn status(pid: &str) -> Option<ProcessStatus> {
    let session = session_of(pid.parse().ok()?)?;
    let fields = ["-o", "state=", "-o", "ppid=", "-o", "tpgid=", "-o", "uid=", "-o", "lstart="];
    let text = ps(&[&fields[..], &["-p", pid]].concat())?;
    parse_status(&text, session)
}

/// Returns the id of a process's session, which is 0 if it began outside of this container; `None` without the process.
#[expect(unsafe_code, reason = "the safe form does not allow for 0")]
fn session_of(pid: i32) -> Option<i32> {
    if pid <= 0 {
        return None;
    }
    // SAFETY: the call takes and returns numbers only.
    Some(unsafe { libc::getsid(pid) }).filter(|session| *session >= 0)
}

/// Parses a line of the state, the parent, the foreground group, the user and the start time as `Sat Nov 28 11:23:08 2026`.
fn parse_status(text: &str, session: i32) -> Option<ProcessStatus> {
    let mut words = text.split_whitespace();
    let state = match words.next()?.chars().next()? {
        // macOS: sleeps for longer than 20 seconds.
        'I' => 'S',
        state => state,
    };
    let (parent, foreground) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let user = words.next()?.parse().ok()?;
    let start = words.collect::<Vec<_>>().join(" ");
    let start = jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", start).ok()?;
    let started = start.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    Some(ProcessStatus { state, parent, session, foreground, started: u64::try_from(started).ok()?, user })
}

/// Returns the ids of all processes.
pub fn processes() -> Vec<i32> {
    let list = ps(&["-A", "-o", "pid="]).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Returns the children of a process.
pub fn children(pid: i32) -> Vec<i32> {
    let list = ps(&["-A", "-o", "pid=", "-o", "ppid="]).unwrap_or_default();
    let pair = |line: &str| {
        let (child, parent) = line.trim().split_once(' ')?;
        Some((child.parse::<i32>().ok()?, parent.trim().parse::<i32>().ok()?))
    };
    list.lines().filter_map(pair).filter(|(_, parent)| *parent == pid).map(|(child, _)| child).collect()
}

/// Returns the session leader of a terminal: the program started on it.
pub fn session_leader(terminal: &Path) -> Option<i32> {
    let name = terminal.strip_prefix("/dev").ok()?.to_str()?;
    let list = ps(&["-t", name, "-o", "pid="])?;
    let leads = |pid: &i32| session_of(*pid) == Some(*pid) && ProcessStatus::of_living(pid).is_some();
    list.split_whitespace().filter_map(|id| id.parse().ok()).filter(leads).min()
}

/// Returns the name of a process, cut to 15 bytes.
pub fn process_name(pid: i32) -> Option<String> {
    field(pid, "ucomm")
}

/// Returns the words of a process's command line. A word with blanks arrives in pieces.
pub fn command_line(pid: u32) -> Option<Vec<OsString>> {
    Some(field(pid, "args")?.split_whitespace().map(OsString::from).collect())
}

/// Returns the working directory of a process, if known.
pub fn current_dir(pid: u32) -> Option<PathBuf> {
    // A folder that cannot be read has its reason behind the path.
    lsof(pid, &["-d", "cwd"]).into_iter().find(|path| path.is_dir())
}

/// Returns the paths of the files that a process has open, as far as they are known.
pub fn open_files(pid: i32) -> Vec<PathBuf> {
    lsof(pid, &["-d", "0-999999"])
}

/// Returns the bytes that a process has written so far to any file, if known.
pub fn written_bytes(_pid: i32) -> Option<u64> {
    None
}

/// Returns true if a sleeping process waits in write(2); `None` if that is unknown.
pub fn is_blocked_in_write(_pid: i32) -> Option<bool> {
    None
}

/// Returns true if a process handles a signal; `None` if that is unknown.
pub fn handles_signal(_pid: u32, _signal: Signal) -> Option<bool> {
    None
}

/// Returns the user and the process at the other end of a socket.
///
/// # Errors
/// Always: POSIX has no such call.
pub fn peer_process(_socket: &UnixStream) -> io::Result<(u32, u32)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "the process that listens is unknown on this system"))
}

/// Has no effect: keepalive probes alone detect a peer that vanished.
pub(super) fn set_tcp_user_timeout(_socket: BorrowedFd<'_>, _milliseconds: u32) -> io::Result<()> {
    Ok(())
}

/// Returns the memory that this process has in use, in bytes, if known.
pub fn resident_bytes() -> Option<u64> {
    Some(field(std::process::id(), "rss")?.parse::<u64>().ok()? * 1024)
}

/// Returns the time since an unknown moment before the process started. On macOS, it includes the time in which the machine was
/// suspended; other systems may not count that.
pub fn boot_time() -> Duration {
    super::read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the release of the kernel.
pub fn kernel_release() -> Option<String> {
    Some(output_of(Command::new("uname").arg("-r"))?.trim().to_string())
}

/// Returns a path to this program. `path` is what the system reports.
pub fn own_program(path: PathBuf) -> PathBuf {
    path
}

/// Makes `to` share the blocks of `from`.
///
/// # Errors
/// Always: the files have to be copied.
pub fn clone_file(_to: &File, _from: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Waits until a folder and everything below it is on the disk (fsync(2)).
///
/// # Errors
/// A file cannot be opened or written.
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Makes the calling thread a batch job.
///
/// # Errors
/// Always: POSIX has no such policy.
pub fn set_batch_scheduling() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a pseudo-terminal's master, which programs do not inherit, except those that another thread starts meanwhile.
///
/// # Errors
/// The system call failed.
pub fn open_terminal() -> io::Result<OwnedFd> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    fcntl_setfd(&terminal, FdFlags::CLOEXEC)?;
    Ok(terminal)
}

/// Marks the descriptors from 3 to below `bound` to be closed by exec. Called between fork and exec.
#[expect(unsafe_code, reason = "descriptors that the standard library does not own")]
pub(super) fn close_on_exec(bound: i32) -> io::Result<()> {
    for descriptor in 3..bound {
        // SAFETY: the call takes numbers only. It fails for those that are not open.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Ends a child with its parent.
#[derive(Debug)]
pub(super) struct ParentWatch {
    /// Read end of a pipe that only the parent can write to: its end of file is the parent's end.
    alive: OwnedFd,
    bound: i32,
}

impl ParentWatch {
    /// Must be called in the parent.
    pub(super) fn new() -> io::Result<ParentWatch> {
        static PIPE: Mutex<Option<(OwnedFd, OwnedFd)>> = Mutex::new(None);
        let mut pipe = PIPE.lock();
        let (alive, _) = match &mut *pipe {
            Some(pipe) => pipe,
            none => {
                let (read, write) = io::pipe()?;
                none.insert((read.into(), write.into()))
            }
        };
        Ok(ParentWatch { alive: alive.try_clone()?, bound: rlimit::bound() })
    }

    /// Starts a process that kills the calling one when the parent ends. Called between fork and exec.
    #[expect(unsafe_code, reason = "there is no safe form of fork")]
    pub(super) fn start(&self) -> io::Result<()> {
        let us = rustix::process::getpid();
        // SAFETY: this process has one thread, as it is between fork and exec itself. The new one calls only
        // async-signal-safe functions and returns to none of its callers.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => self.guard(us),
            _ => Ok(()),
        }
    }

    /// Waits for the end of the parent, or of the child that is guarded.
    #[expect(unsafe_code, reason = "descriptors that the standard library does not own")]
    fn guard(&self, child: Pid) -> ! {
        use std::os::fd::AsRawFd;
        let alive = self.alive.as_raw_fd();
        // Signals to the child's group are not for us.
        let _ = rustix::process::setpgid(None, None);
        // The copy of the pipe's other end is among them.
        for descriptor in (0..self.bound).filter(|descriptor| *descriptor != alive) {
            // SAFETY: no code that owns them runs in this process any more.
            unsafe { libc::close(descriptor) };
        }
        let mut poll = libc::pollfd { fd: alive, events: libc::POLLIN, revents: 0 };
        while rustix::process::getppid() == Some(child) {
            // SAFETY: the pointer is to one valid structure.
            if unsafe { libc::poll(&raw mut poll, 1, 500) } > 0 {
                // It is still our parent, so the id is not reused.
                let _ = rustix::process::kill_process(child, Signal::KILL);
                break;
            }
        }
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) }
    }
}

/// Refers to a process by its id and start time.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: Pid,
    started: u64,
}

impl ProcessHandle {
    /// Opens a process, which need not be our child. A caller that knows the start time checks it after this.
    ///
    /// # Errors
    /// The process is gone.
    pub fn open(pid: u32) -> io::Result<ProcessHandle> {
        let started = super::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(ProcessHandle { pid, started })
    }

    /// Sends a signal. A process that ends at this moment may be mistaken for a new one with its id.
    ///
    /// # Errors
    /// The process is gone, or belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.is_alive() {
            true => Ok(rustix::process::kill_process(self.pid, signal)?),
            false => Err(Errno::SRCH.into()),
        }
    }

    fn is_alive(&self) -> bool {
        super::start_time(self.pid.as_raw_nonzero()) == Some(self.started)
    }

    /// Prepares to wait for its end.
    ///
    /// # Errors
    /// Never on this system.
    pub fn into_exit(self) -> io::Result<ProcessExit> {
        Ok(ProcessExit(self))
    }
}

/// The end of a process, to be waited for.
#[derive(Debug)]
pub struct ProcessExit(ProcessHandle);

impl ProcessExit {
    /// Waits until the process has ended. May be called again. Cancel-safe.
    ///
    /// # Errors
    /// Never on this system.
    pub async fn wait(&self) -> io::Result<()> {
        let mut interval = Duration::ZERO;
        for round in 1_u32.. {
            let is_gone = rustix::process::test_kill_process(self.0.pid) == Err(Errno::SRCH);
            // Also ended: a zombie, or a process whose id was reused.
            if is_gone || round.is_multiple_of(STATUS_EVERY) && !self.0.is_alive() {
                break;
            }
            folder_poller::sleep(&mut interval).await;
        }
        Ok(())
    }
}

/// Watches folders for changes by polling their files.
#[derive(Debug)]
pub struct FolderWatcher {
    poller: FolderPoller,
}

impl FolderWatcher {
    /// Creates a watcher without folders.
    ///
    /// # Errors
    /// Never on this system.
    pub fn new() -> io::Result<FolderWatcher> {
        Ok(FolderWatcher { poller: FolderPoller::default() })
    }

    /// Watches the files of a folder, also one that does not exist yet. Watching it again costs nothing.
    ///
    /// # Errors
    /// The path is not a folder.
    pub fn watch_folder(&self, folder: &Path) -> io::Result<()> {
        self.poller.add(folder)
    }

    /// Waits for a change since the last call. Cancel-safe.
    ///
    /// # Errors
    /// A folder can no longer be read.
    pub async fn changed(&self) -> io::Result<()> {
        self.poller.changed().await
    }
}
