//! The implementation for Linux: /proc, inotify, pidfds, the signal of a parent's death.

use std::ffi::OsString;
use std::fs::{self, File};
use std::future::pending;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::pty::{OpenptFlags, openpt};
use tokio::io::unix::AsyncFd;

use super::folder_poller::FolderPoller;
use super::{ProcessStatus, watch};

pub(super) const NAME: &str = "linux";

/// Hint for a failed [`check`].
pub const REQUIREMENT: &str = "mount it: mount -t proc proc /proc";

/// Size of the buffer for events in bytes. Their contents are not used: waiters check the files.
const EVENT_BUFFER: usize = 16 << 10;

/// Maximum length of a socket's path in bytes, without the terminating NUL (unix(7)).
pub const MAX_SOCKET_PATH: usize = 107;

/// Flags with which descriptors are received: a program that is started at the same moment does not inherit them.
pub const RECEIVE_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Flags with which a socket is written to: no signal if the peer is gone.
pub const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;

/// Checks that the system provides the data by which processes are recognised.
///
/// # Errors
/// /proc is missing or belongs to another process namespace.
pub fn check() -> io::Result<()> {
    match ProcessStatus::of(std::process::id()) {
        Some(_) => Ok(()),
        None => Err(io::Error::new(io::ErrorKind::Unsupported, "/proc does not show this process")),
    }
}

/// Reads /proc/PID/stat (proc_pid_stat(5)).
pub(super) fn status(pid: &str) -> Option<ProcessStatus> {
    Some(stat(pid)?.0)
}

/// Returns the status and the device of the controlling terminal, which is 0 without one.
fn stat(pid: &str) -> Option<(ProcessStatus, u64)> {
    // The owner of the files in it may be root instead (proc_pid(5)).
    let user = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let file = File::open(format!("/proc/{pid}/stat")).ok()?;
    // Longer than any line: 52 numbers and a name of at most 64 bytes.
    let mut line = Vec::with_capacity(2048);
    file.take(2048).read_to_end(&mut line).ok()?;
    let line = String::from_utf8_lossy(&line);
    // The name in field 2 may contain parentheses: the last one ends it.
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    // Fields 3, 4, 6, 7, 8 and 22.
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let terminal: i32 = fields.next()?.parse().ok()?;
    let foreground = fields.next()?.parse().ok()?;
    let started = fields.nth(13)?.parse().ok()?;
    let status = ProcessStatus { state, parent, session, foreground, started, user };
    Some((status, u64::from(terminal.cast_unsigned())))
}

/// Returns the ids of all processes.
pub fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the children of a process, of all its threads.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns the session leader of a terminal: the program started on it.
pub fn session_leader(terminal: &Path) -> Option<i32> {
    let device = fs::metadata(terminal).ok()?.rdev();
    let leads = |pid: &i32| {
        stat(&pid.to_string()).is_some_and(|(status, on)| {
            status.session == *pid && on == device && !matches!(status.state, 'Z' | 'X')
        })
    };
    processes().into_iter().filter(leads).min()
}

/// Returns the name of a process, cut to 15 bytes (proc_pid_comm(5)).
pub fn process_name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_string())
}

/// Returns the words of a process's command line (proc_pid_cmdline(5)).
pub fn command_line(pid: u32) -> Option<Vec<OsString>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| OsString::from_vec(word.to_vec())).collect())
}

/// Returns the working directory of a process, if known.
pub fn current_dir(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Returns the paths of the files that a process has open, as far as they are known.
pub fn open_files(pid: i32) -> Vec<PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).collect()
}

/// Returns the bytes that a process has written so far to any file, if known (proc_pid_io(5)).
pub fn written_bytes(pid: i32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok())
}

/// Returns true if a sleeping process waits in write(2), for example for a reader of its output; `None` if that is unknown, as it is
/// without the right to trace the process (proc_pid_syscall(5)).
pub fn is_blocked_in_write(pid: i32) -> Option<bool> {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let number: libc::c_long = call.split_whitespace().next()?.parse().ok()?;
    Some([libc::SYS_write, libc::SYS_writev].contains(&number))
}

/// Returns true if a process handles a signal; `None` if that is unknown (`SigCgt` of proc_pid_status(5)).
pub fn handles_signal(pid: u32, signal: Signal) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & 1 << (signal.as_raw() - 1) != 0)
}

/// Returns the user and the process at the other end of a socket (unix(7), `SO_PEERCRED`).
///
/// # Errors
/// The system call failed.
pub fn peer_process(socket: &UnixStream) -> io::Result<(u32, u32)> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    Ok((peer.uid.as_raw(), peer.pid.as_raw_nonzero().get().cast_unsigned()))
}

/// Limits the time that sent data may stay unacknowledged (tcp(7), `TCP_USER_TIMEOUT`).
pub(super) fn set_tcp_user_timeout(socket: BorrowedFd<'_>, milliseconds: u32) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_user_timeout(socket, milliseconds)?)
}

/// Returns the memory that this process has in use, in bytes, if known.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the release of the kernel.
pub fn kernel_release() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_string())
}

/// Returns the time since the machine started, including the time in which it was suspended (`CLOCK_BOOTTIME`, clock_gettime(2)).
pub fn boot_time() -> Duration {
    super::read_clock(libc::CLOCK_BOOTTIME)
}

/// Returns a path to this program, which may be the file that replaced it in an update. `path` is what the system reports.
pub fn own_program(path: PathBuf) -> PathBuf {
    /// Suffix of the path of a program whose file was replaced or removed (proc_pid_exe(5)).
    const DELETED_SUFFIX: &str = " (deleted)";
    if path.exists() {
        return path;
    }
    let replaced = path.to_str().and_then(|path| path.strip_suffix(DELETED_SUFFIX)).map(Path::new);
    match replaced.filter(|path| path.exists()) {
        Some(path) => path.to_path_buf(),
        None => PathBuf::from(format!("/proc/{}/exe", std::process::id())),
    }
}

/// Makes `to` share the blocks of `from` (ioctl_ficlone(2)).
///
/// # Errors
/// The file system cannot do that; the files have to be copied.
pub fn clone_file(to: &File, from: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

/// Waits until a folder and everything below it is on the disk. Writes out its whole file system (syncfs(2)): one call for many files is
/// faster than one for each.
///
/// # Errors
/// The folder cannot be opened, or something cannot be written.
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

/// Makes the calling thread a batch job (`SCHED_BATCH`, sched(7)): when it is woken, it does not preempt the thread that runs.
///
/// # Errors
/// The system call failed.
#[expect(unsafe_code, reason = "sched_setscheduler has no safe form")]
pub fn set_batch_scheduling() -> io::Result<()> {
    // SAFETY: zeros are a valid value of this struct of numbers: priority 0, the only one of batch jobs.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid during the call. Thread 0 is the calling one.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a pseudo-terminal's master, which programs do not inherit.
///
/// # Errors
/// The system call failed.
pub fn open_terminal() -> io::Result<OwnedFd> {
    Ok(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?)
}

/// Marks all descriptors but the standard ones to be closed by exec. Called between fork and exec.
#[expect(unsafe_code, reason = "close_range has no safe form")]
pub(super) fn close_on_exec(_bound: i32) -> io::Result<()> {
    let flag = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, flag) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends a child with its parent.
#[derive(Debug)]
pub(super) struct ParentWatch {
    parent: Pid,
}

impl ParentWatch {
    /// Must be called in the parent.
    pub(super) fn new() -> io::Result<ParentWatch> {
        Ok(ParentWatch { parent: rustix::process::getpid() })
    }

    /// Kills the calling process when the thread that started it ends. Called between fork and exec.
    pub(super) fn start(&self) -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the signal was set.
        match rustix::process::getppid() == Some(self.parent) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

/// Refers to a process. Its id is not reused for another process while this exists.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens a process, which need not be our child. A caller that knows the start time checks it after this.
    ///
    /// # Errors
    /// The process is gone, or the system refuses.
    pub fn open(pid: u32) -> io::Result<ProcessHandle> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(ProcessHandle(rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK)?))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process is gone, or belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.0, signal)?)
    }

    /// Prepares to wait for its end. Must be called on a runtime.
    ///
    /// # Errors
    /// The runtime cannot register the descriptor.
    pub fn into_exit(self) -> io::Result<ProcessExit> {
        Ok(ProcessExit(watch(self.0)?))
    }
}

/// The end of a process, to be waited for.
#[derive(Debug)]
pub struct ProcessExit(AsyncFd<OwnedFd>);

impl ProcessExit {
    /// Waits until the process has ended. May be called again. Cancel-safe.
    ///
    /// # Errors
    /// The end will not be reported.
    pub async fn wait(&self) -> io::Result<()> {
        // Readable once the process has ended.
        self.0.readable().await.map(|mut ready| ready.retain_ready())
    }
}

/// Watches folders for changes with inotify, or by polling if the system allows no more watchers (inotify(7)).
#[derive(Debug)]
pub struct FolderWatcher {
    inotify: Option<AsyncFd<OwnedFd>>,
    poller: FolderPoller,
}

impl FolderWatcher {
    /// Creates a watcher without folders. Must be called on a runtime.
    ///
    /// # Errors
    /// The runtime cannot register the descriptor.
    pub fn new() -> io::Result<FolderWatcher> {
        let inotify = match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
            Ok(descriptor) => Some(watch(descriptor)?),
            Err(error) => {
                tracing::debug!(%error, "no inotify instance is left: folders are looked at on a timer");
                None
            }
        };
        Ok(FolderWatcher { inotify, poller: FolderPoller::default() })
    }

    /// Watches the files of a folder. If it does not exist, watches for its creation; then call this again. Watching a folder again
    /// costs nothing.
    ///
    /// # Errors
    /// The path is not a folder, or cannot be read.
    pub fn watch_folder(&self, folder: &Path) -> io::Result<()> {
        match &self.inotify {
            Some(inotify) => match notify(inotify, folder) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => self.poller.add(folder),
                done => done,
            },
            None => self.poller.add(folder),
        }
    }

    /// Waits for a change since the last call. Cancel-safe.
    ///
    /// # Errors
    /// The I/O error.
    pub async fn changed(&self) -> io::Result<()> {
        let notified = async {
            match &self.inotify {
                Some(inotify) => read_events(inotify).await,
                None => pending().await,
            }
        };
        tokio::select! {
            done = notified => done,
            done = self.poller.changed() => done,
        }
    }
}

/// Adds watches for a folder, or for the creation of a missing one.
fn notify(inotify: &AsyncFd<OwnedFd>, folder: &Path) -> io::Result<()> {
    // Added to existing watches, because the parent of one folder may be watched as another.
    let folders = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
    let files = folders | WatchFlags::MODIFY;
    let add = |folder: &Path, flags| match inotify::add_watch(inotify.get_ref(), folder, flags) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(io::Error::from(error)),
    };
    'again: loop {
        if add(folder, files)? {
            return Ok(());
        }
        let mut missing = folder;
        while let Some(parent) = missing.parent() {
            if add(parent, folders)? {
                // Created before its parent was watched, so there will be no event.
                if missing.exists() {
                    continue 'again;
                }
                return Ok(());
            }
            missing = parent;
        }
        return Err(io::ErrorKind::NotFound.into());
    }
}

/// Waits for events and reads them all.
async fn read_events(inotify: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut ready = inotify.readable().await?;
        let result = ready.try_io(|inotify| {
            let mut events = [0; EVENT_BUFFER];
            let mut any = false;
            loop {
                match rustix::io::read(inotify.get_ref(), &mut events) {
                    Ok(_) => any = true,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) if any => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        });
        match result {
            Ok(outcome) => return outcome,
            Err(_would_block) => {}
        }
    }
}
