//! A pseudo-terminal in this process.
//!
//! Reads are coalesced, writes are queued, and the child is ended with its whole process group. See tty(4), pty(7) and
//! tty_ioctl(2).

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use nerve_types::os::{self, ProcessStatus, watch};
use nerve_types::{ExitStatus, Foreground, Size};
use rustix::process::{Pid, Signal};
use rustix::pty::{grantpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::process::Child;
use tokio::task::JoinHandle;

use super::spawn::{Program, SpawnError};

/// Maximum bytes returned by one [`Output::read`]. The kernel returns 4 KiB at a time; a fast child fills this.
pub const READ_LIMIT: usize = 128 * 1024;

/// Maximum bytes queued for a child that does not read.
pub const WRITE_LIMIT: usize = 64 * 1024 * 1024;

/// A started program and its terminal.
#[derive(Debug)]
pub struct Pty {
    /// Bytes from the child.
    pub output: Output,
    /// Bytes to the child.
    pub input: Input,
    /// Size, foreground, signals.
    pub control: Control,
    /// The child process.
    pub child: ChildProcess,
}

impl Pty {
    /// Opens a terminal and starts a program on it.
    ///
    /// # Errors
    /// [`SpawnError`]: the program or its directory is missing, or the system refused. Nothing is left behind.
    pub fn spawn(program: &Program, size: Size) -> Result<Pty, SpawnError> {
        Pty::spawn_with_stdin(program, size, None)
    }

    /// Spawns a program as [`Pty::spawn`] does, with `stdin`, if given, as standard input instead of the terminal.
    ///
    /// # Errors
    /// See [`Pty::spawn`].
    pub fn spawn_with_stdin(
        program: &Program,
        size: Size,
        stdin: Option<OwnedFd>,
    ) -> Result<Pty, SpawnError> {
        let (master, slave) = open(size).map_err(SpawnError::system("open a terminal"))?;
        let child = program.spawn(&slave, stdin)?;
        drop(slave);
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let master = watch(master).map_err(SpawnError::system("watch the terminal"))?;
        let master = Arc::new(master);
        Ok(Pty {
            output: Output { master: master.clone(), ahead: None },
            input: Input { master: master.clone(), queue: VecDeque::new() },
            control: Control { master, pid },
            child: ChildProcess(child),
        })
    }
}

fn open(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = os::open_terminal()?;
    rustix::io::ioctl_fionbio(&master, true)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
    tcsetwinsize(&slave, winsize(size))?;
    Ok((master, slave))
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Bytes from the child.
#[derive(Debug)]
pub struct Output {
    master: Arc<AsyncFd<OwnedFd>>,
    ahead: Option<JoinHandle<(Vec<u8>, io::Result<ReadState>)>>,
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// The terminal is open.
    Open,
    /// The terminal is closed on the child's side.
    End,
}

impl Output {
    /// Waits for output and appends up to [`READ_LIMIT`] bytes to `buffer`. Returns the number of bytes; 0 means that the
    /// terminal is closed. Cancel-safe.
    ///
    /// # Errors
    /// Reading failed. EIO, which the kernel returns when the child's side is closed, counts as the end.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if let Some(ahead) = &mut self.ahead {
            let (bytes, outcome) = ahead.await.map_err(io::Error::other)?;
            self.ahead = None;
            buffer.extend_from_slice(&bytes);
            if outcome? == ReadState::End || !bytes.is_empty() {
                return Ok(bytes.len());
            }
        }
        loop {
            let mut ready = self.master.readable().await?;
            let before = buffer.len();
            let state = drain(self.master.get_ref(), buffer)?;
            if state == ReadState::End || buffer.len() > before {
                return Ok(buffer.len() - before);
            }
            ready.clear_ready();
        }
    }

    /// Reads on another thread for the next [`Output::read`]. Worth its cost when the child writes fast and the last bytes are
    /// still being processed.
    pub fn read_ahead(&mut self) {
        let master = self.master.clone();
        self.ahead.get_or_insert_with(|| {
            tokio::task::spawn_blocking(move || {
                let mut bytes = Vec::with_capacity(READ_LIMIT);
                let outcome = drain(master.get_ref(), &mut bytes);
                (bytes, outcome)
            })
        });
    }
}

impl Output {
    /// Appends what the child has already written, without waiting, up to `limit` bytes. Returns true if the terminal is
    /// closed.
    ///
    /// # Errors
    /// Reading failed.
    pub async fn drain(&mut self, buffer: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
        let end = buffer.len() + limit;
        if let Some(ahead) = &mut self.ahead {
            let (bytes, outcome) = ahead.await.map_err(io::Error::other)?;
            self.ahead = None;
            buffer.extend_from_slice(&bytes);
            if outcome? == ReadState::End {
                return Ok(true);
            }
        }
        while buffer.len() < end {
            let before = buffer.len();
            if drain(self.master.get_ref(), buffer)? == ReadState::End {
                return Ok(true);
            }
            if buffer.len() - before < READ_LIMIT {
                break;
            }
        }
        Ok(false)
    }
}

/// Reads without waiting, up to [`READ_LIMIT`] bytes.
fn drain(master: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<ReadState> {
    let full = buffer.len() + READ_LIMIT;
    while buffer.len() < full {
        buffer.reserve((full - buffer.len()).min(16 * 1024));
        match rustix::io::read(master, rustix::buffer::spare_capacity(buffer)) {
            // Bytes read before the end are returned first; the next call reports the end.
            Ok(0) | Err(rustix::io::Errno::IO) => return Ok(ReadState::End),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ReadState::Open)
}

/// Bytes to the child.
#[derive(Debug)]
pub struct Input {
    master: Arc<AsyncFd<OwnedFd>>,
    queue: VecDeque<u8>,
}

impl Input {
    /// Writes what the terminal takes at once, and queues the rest. Returns false and takes nothing if more than [`WRITE_LIMIT`]
    /// would be queued.
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.queue.len() + bytes.len() > WRITE_LIMIT {
            return false;
        }
        let is_next = self.queue.is_empty();
        // [`Input::flush`] reports errors.
        let written = if is_next { rustix::io::write(&*self.master, bytes).unwrap_or(0) } else { 0 };
        self.queue.extend(&bytes[written..]);
        true
    }

    /// Clears the queue.
    pub fn discard(&mut self) {
        self.queue.clear();
    }

    /// Returns the number of queued bytes.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Waits until the child takes input, then writes as much as it takes.
    ///
    /// # Errors
    /// Writing failed; the queue is cleared then.
    pub async fn flush(&mut self) -> io::Result<()> {
        let mut ready = self.master.writable().await?;
        while !self.queue.is_empty() {
            let (front, _) = self.queue.as_slices();
            match rustix::io::write(&*self.master, front) {
                Ok(written) => drop(self.queue.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => {
                    ready.clear_ready();
                    // A terminal after a hangup can stay writable and take nothing.
                    tokio::task::yield_now().await;
                    return Ok(());
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    self.queue.clear();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

/// Size, foreground and signals of the terminal.
#[derive(Debug)]
pub struct Control {
    master: Arc<AsyncFd<OwnedFd>>,
    pid: Option<Pid>,
}

impl Control {
    /// Controls a terminal that another process reads.
    ///
    /// # Errors
    /// The runtime cannot register the descriptor.
    pub(super) fn from_descriptor(master: OwnedFd, pid: i32) -> io::Result<Control> {
        Ok(Control { master: Arc::new(watch(master)?), pid: Pid::from_raw(pid) })
    }

    /// Duplicates the terminal's descriptor.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&*self.master, 3)?)
    }

    /// Returns the child's process id.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Sets the size of the terminal; the kernel sends SIGWINCH.
    ///
    /// # Errors
    /// The ioctl failed.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        tcsetwinsize(&*self.master, winsize(size)).map_err(io::Error::from)
    }

    /// Returns true if the terminal reads lines without echo, as at a password prompt. A full-screen program disables the echo
    /// too, but reads single keys.
    pub fn hides_input(&self) -> bool {
        hides_typing(&*self.master)
    }

    /// Returns who has the foreground. A foreground process named in `shells` counts as the child itself, such as a shell in a
    /// shell. `detailed` also distinguishes whether it sleeps, which costs more; otherwise a child in the foreground counts as
    /// idle.
    pub fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground {
        match (self.pid, tcgetpgrp(&*self.master)) {
            (Some(child), Ok(pid)) => foreground_of(child, pid, detailed, shells),
            _ => Foreground::Unknown,
        }
    }

    /// Signals the child's process group and the foreground process group.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        // The child may have ended already.
        let _ = rustix::process::kill_process_group(pid, signal);
        if let Ok(group) = tcgetpgrp(&*self.master)
            && group != pid
        {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// See [`Control::hides_input`].
pub fn hides_typing(terminal: impl std::os::fd::AsFd) -> bool {
    use rustix::termios::LocalModes;
    rustix::termios::tcgetattr(terminal).is_ok_and(|modes| {
        modes.local_modes.contains(LocalModes::ICANON) && !modes.local_modes.contains(LocalModes::ECHO)
    })
}

/// See [`Control::foreground`]: `child` was started on the terminal, `pid` leads its foreground group.
pub fn foreground_of(child: Pid, pid: Pid, detailed: bool, shells: &[String]) -> Foreground {
    let id = pid.as_raw_nonzero().get();
    if pid != child && !os::process_name(id).is_some_and(|name| shells.contains(&name)) {
        return Foreground::Other;
    }
    if !detailed {
        return Foreground::Idle;
    }
    match ProcessStatus::of(id).map(|status| status.state) {
        // A shell that runs its start files sleeps too, waiting for children in its own group. So does one whose output is not
        // read yet.
        Some('S') if has_child_in_group(pid) || os::is_blocked_in_write(id) == Some(true) => {
            Foreground::Awake
        }
        Some('S') => Foreground::Idle,
        Some(_) => Foreground::Awake,
        None => Foreground::Unknown,
    }
}

/// Returns true if a process has a child in its own process group. Job control puts jobs into groups of their own.
fn has_child_in_group(pid: Pid) -> bool {
    let children = os::children(pid.as_raw_nonzero().get()).into_iter().filter_map(Pid::from_raw);
    children.into_iter().any(|child| rustix::process::getpgid(Some(child)) == Ok(pid))
}

/// The child process.
#[derive(Debug)]
pub struct ChildProcess(Child);

impl ChildProcess {
    /// Waits for its end. May be called again afterwards.
    pub async fn wait(&mut self) -> ExitStatus {
        match self.0.wait().await {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, Some(signal)) => ExitStatus::Signal(signal),
                (None, None) => ExitStatus::Unknown,
            },
            Err(_) => ExitStatus::Unknown,
        }
    }
}

/// Signals sent to a child that has to end, each with the time to wait before the next.
pub const ESCALATION: [(Signal, Duration); 3] = [
    (Signal::HUP, Duration::from_millis(300)),
    (Signal::TERM, Duration::from_millis(300)),
    (Signal::KILL, Duration::from_millis(2000)),
];

#[cfg(test)]
mod tests {
    use nerve_testkit::wait_until;

    use super::*;

    /// Time limit of each wait.
    const LIMIT: Duration = Duration::from_secs(60);
    /// Number of consecutive observations after which a shell counts as blocked.
    const OBSERVATIONS: usize = 50;

    fn shell(script: &str) -> Pty {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        let program = Program { argv, cwd: None, env: Default::default(), env_remove: Vec::new() };
        Pty::spawn(&program, Size::new(80, 24)).unwrap()
    }

    /// Waits until a shell sleeps, and returns what it counts as.
    fn wait_until_asleep(pty: &Pty) -> Foreground {
        let pid = pty.control.pid().unwrap();
        let mut seen = 0;
        let is_asleep = || {
            let is_asleep = ProcessStatus::of(pid).is_some_and(|status| status.state == 'S');
            seen = if is_asleep { seen + 1 } else { 0 };
            seen == OBSERVATIONS
        };
        assert!(wait_until(LIMIT, is_asleep));
        pty.control.foreground(true, &[])
    }

    #[tokio::test]
    async fn shell_that_waits_for_its_reader_is_awake() {
        assert_eq!(wait_until_asleep(&shell("read line")), Foreground::Idle);
        let unread = wait_until_asleep(&shell("while :; do echo some output; done"));
        // Other systems do not tell.
        assert_eq!(unread == Foreground::Awake, os::IMPLEMENTATION == "linux");
    }
}
