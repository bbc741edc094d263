//! A pane: a pseudo-terminal with a program, and a model of its screen.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nerve_types::os::set_controlling_terminal;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::Command;

/// Parameters of a new pane.
pub(super) struct PaneSpec {
    pub(super) id: u64,
    pub(super) argv: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) size: Size,
}

pub(super) struct Pane {
    pub(super) id: u64,
    terminal: Arc<Mutex<TerminalState>>,
    /// The server writes exact bytes itself, and pastes on a separate thread.
    writer: Arc<Mutex<File>>,
    pastes: Sender<Vec<u8>>,
    /// `None` if the program could not be started.
    pub(super) tty: Option<PathBuf>,
    pid: Option<Pid>,
    name: String,
}

impl Pane {
    /// Creates a pane. Calls `ended` when its program exits. A missing program is no error: the pane shows a message.
    pub(super) fn make(spec: PaneSpec, ended: impl FnOnce() + Send + 'static) -> std::io::Result<Pane> {
        let PaneSpec { id, mut argv, cwd, mut env, size } = spec;
        let home = env.get("HOME").cloned().unwrap_or_else(|| "/".into());
        if argv.is_empty() {
            argv.push(env.get("SHELL").cloned().unwrap_or_else(|| "/bin/sh".into()));
        }
        // Like the original, falls back silently from a missing folder.
        let cwd = cwd.filter(|cwd| Path::new(cwd).is_dir()).unwrap_or(home);
        env.insert("WEZTERM_PANE".into(), id.to_string());
        env.insert("TERM".into(), "xterm-256color".into());
        env.insert("COLORTERM".into(), "truecolor".into());
        let (master, slave, tty) = open(size)?;
        let (master, reader) = (File::from(master.try_clone()?), File::from(master));
        let terminal = Arc::new(Mutex::new(TerminalState::new(size)));
        let writer = Arc::new(Mutex::new(master));
        let (pastes, queue) = channel::<Vec<u8>>();
        let pasting = writer.clone();
        std::thread::spawn(move || {
            for bytes in queue {
                // Input of a closed terminal is dropped.
                let _ = lock(&pasting).write_all(&bytes);
            }
        });
        let name = argv[0].rsplit('/').next().unwrap_or_default().to_string();
        let started =
            find(&argv[0], &env, &cwd).and_then(|program| start(&program, &argv, &cwd, &env, slave).ok());
        let mut pane = Pane { id, terminal, writer, pastes, tty: None, pid: None, name };
        let Some(mut child) = started else {
            let message = format!(
                "\u{26a0}\u{fe0f}  Unable to spawn {}: No viable candidates found in PATH\r\n",
                argv.join(" ")
            );
            lock(&pane.terminal).process_data(TsNs(1), message.as_bytes());
            return Ok(pane);
        };
        pane.tty = Some(tty);
        pane.pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pane.read(reader);
        std::thread::spawn(move || {
            let _ = child.wait();
            ended();
        });
        Ok(pane)
    }

    fn read(&self, mut reader: File) {
        let (terminal, pastes) = (self.terminal.clone(), self.pastes.clone());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(size @ 1..) = reader.read(&mut buffer) {
                let replies = lock(&terminal).process_data(TsNs(1), &buffer[..size]).replies;
                if !replies.is_empty() && pastes.send(replies).is_err() {
                    return;
                }
            }
        });
    }

    pub(super) fn terminal(&self) -> MutexGuard<'_, TerminalState> {
        lock(&self.terminal)
    }

    /// Pastes text like the original: removes paste markers, and turns line ends into Enter without bracketed paste.
    /// Never blocks.
    pub(super) fn paste(&self, text: &str) {
        let bracketed = self.terminal().modes().bracketed_paste;
        let text = text.replace("\x1b[200~", "").replace("\x1b[201~", "");
        let bytes = if bracketed {
            format!("\x1b[200~{text}\x1b[201~")
        } else {
            text.replace("\r\n", "\r").replace('\n', "\r")
        };
        // A closed pane drops the input silently.
        let _ = self.pastes.send(bytes.into_bytes());
    }

    /// Writes exact bytes. Blocks the whole server while the terminal is full or a paste is unread.
    pub(super) fn write(&self, text: &str) {
        let _ = lock(&self.writer).write_all(text.as_bytes());
    }

    pub(super) fn hang_up(&self) {
        if let Some(pid) = self.pid {
            let _ = rustix::process::kill_process(pid, Signal::HUP);
        }
    }

    pub(super) fn resize(&self, size: Size) {
        self.terminal().resize(size);
        let _ = tcsetwinsize(&*lock(&self.writer), winsize(size));
    }

    pub(super) fn title(&self) -> String {
        let terminal = self.terminal();
        if terminal.title().is_empty() { self.name.clone() } else { terminal.title().to_string() }
    }

    /// Returns a percent-encoded `file://` URL without a host, or an empty string.
    pub(super) fn cwd(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let cwd =
            self.pid.and_then(|pid| std::fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())).ok());
        let Some(cwd) = cwd else { return String::new() };
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
        let encode =
            |byte: &u8| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
        format!("file://{}/", cwd.as_os_str().as_bytes().iter().map(encode).collect::<String>())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(size: Size) -> std::io::Result<(OwnedFd, OwnedFd, PathBuf)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
    tcsetwinsize(&slave, winsize(size))?;
    Ok((master, slave, PathBuf::from(name.to_string_lossy().into_owned())))
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// `setsid` makes the terminal the program's controlling terminal and then execs it.
fn start(
    program: &Path,
    argv: &[String],
    cwd: &str,
    env: &BTreeMap<String, String>,
    slave: OwnedFd,
) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command
        .args(&argv[1..])
        .current_dir(cwd)
        .env_clear()
        .envs(env)
        .stdin(Stdio::from(slave.try_clone()?))
        .stdout(Stdio::from(slave.try_clone()?))
        .stderr(Stdio::from(slave));
    // As with the original, the program leads the terminal's session when its pane is listed.
    set_controlling_terminal(&mut command);
    command.as_std_mut().spawn()
}

fn find(name: &str, env: &BTreeMap<String, String>, cwd: &str) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(Path::new(cwd).join(name)).filter(is_program);
    }
    let path = env.get("PATH")?;
    std::env::split_paths(path).map(|folder| Path::new(cwd).join(folder).join(name)).find(is_program)
}
