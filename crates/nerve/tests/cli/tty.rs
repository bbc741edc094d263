//! A pseudo-terminal with `nerve` running in it, driven like a user's terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_testkit::harness::open_pty;
use nerve_testkit::{wait_for, wait_until};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;
use rustix::process::Signal;
use rustix::termios::{Termios, tcgetattr};

use crate::harness::Home;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A child process on a pseudo-terminal, with a model of its screen.
pub(crate) struct Tty {
    pub(crate) child: Child,
    pub(crate) keyboard: File,
    /// Kept open to inspect the terminal settings.
    pub(crate) slave: File,
    initial_modes: Termios,
    pub(crate) terminal: Arc<Mutex<TerminalState>>,
    /// All bytes the program wrote.
    pub(crate) output: Arc<Mutex<Vec<u8>>>,
}

impl Tty {
    pub(crate) fn new(home: &Home, size: Size, args: &[&str]) -> Tty {
        Tty::spawn(home.command(args), size)
    }

    /// Spawns a prepared command with the terminal as stdin, stdout and controlling terminal.
    pub(crate) fn spawn(command: Command, size: Size) -> Tty {
        Tty::spawn_with(in_own_session(&command), size, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(end()).stdout(end()).stderr(Stdio::null());
        })
    }

    /// Spawns a command in a terminal that does not answer kitty keyboard protocol queries.
    pub(crate) fn without_kitty(home: &Home, size: Size, args: &[&str]) -> Tty {
        Tty::with_replies(home, size, args, strip_kitty_replies)
    }

    /// Spawns a command in a terminal that answers no queries.
    pub(crate) fn without_replies(home: &Home, size: Size, args: &[&str]) -> Tty {
        Tty::with_replies(home, size, args, |_| Vec::new())
    }

    fn with_replies(home: &Home, size: Size, args: &[&str], answer: fn(Vec<u8>) -> Vec<u8>) -> Tty {
        Tty::spawn_filtered(in_own_session(&home.command(args)), size, answer, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(end()).stdout(end()).stderr(Stdio::null());
        })
    }

    /// Spawns a command with stderr on the terminal too.
    pub(crate) fn with_stderr(command: Command, size: Size) -> Tty {
        Tty::spawn_with(in_own_session(&command), size, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(end()).stdout(end()).stderr(end());
        })
    }

    /// Spawns a command that only writes to the terminal; stdin is `/dev/null`.
    pub(crate) fn output_only(command: Command, size: Size) -> Tty {
        Tty::spawn_with(command, size, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(Stdio::null()).stdout(end()).stderr(end());
        })
    }

    fn spawn_with(command: Command, size: Size, connect: impl FnOnce(&mut Command, &File)) -> Tty {
        Tty::spawn_filtered(command, size, |answers| answers, connect)
    }

    /// Spawns a command; `answer` filters the terminal's replies to queries.
    fn spawn_filtered(
        mut command: Command,
        size: Size,
        answer: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
        connect: impl FnOnce(&mut Command, &File),
    ) -> Tty {
        let (master, slave) = open_pty(size).unwrap();
        connect(&mut command, &slave);
        command.env_remove("NO_COLOR");
        let initial_modes = tcgetattr(&slave).unwrap();
        let terminal = Arc::new(Mutex::new(TerminalState::new(size)));
        let mut screen = master.try_clone().unwrap();
        let model = Arc::clone(&terminal);
        let output = Arc::new(Mutex::default());
        let received: Arc<Mutex<Vec<u8>>> = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                // Output and screen change together for other threads.
                let mut received = received.lock().unwrap();
                received.extend_from_slice(&bytes[..len]);
                let answers = model.lock().unwrap().process_data(TsNs(0), &bytes[..len]).replies;
                drop(received);
                // Replies to queries as a real terminal does.
                if screen.write_all(&answer(answers)).is_err() {
                    break;
                }
            }
        });
        Tty { child: command.spawn().unwrap(), keyboard: master, slave, initial_modes, terminal, output }
    }

    pub(crate) fn text(&self) -> String {
        self.terminal.lock().unwrap().screen().text()
    }

    #[track_caller]
    pub(crate) fn expect(&self, words: &str) {
        self.expect_any(&[words]);
    }

    /// Waits until the screen shows one of the texts.
    #[track_caller]
    pub(crate) fn expect_any(&self, texts: &[&str]) {
        let is_shown = || texts.iter().any(|text| self.text().contains(text));
        assert!(wait_until(LIMIT, is_shown), "no {texts:?} in\n{}", self.text());
    }

    pub(crate) fn send(&self, keys: &str) {
        rustix::io::write(&self.keyboard, keys.as_bytes()).unwrap();
    }

    /// Waits for the exit and checks that the terminal settings were restored.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> Option<i32> {
        let status = wait_for(LIMIT, || self.child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it does not end:\n{}", self.text()));
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (self.initial_modes.local_modes, self.initial_modes.input_modes, self.initial_modes.output_modes)
        );
        self.drain();
        let fresh = TerminalState::new(Size::default());
        let terminal = self.terminal.lock().unwrap();
        assert_eq!((terminal.modes(), terminal.title()), (fresh.modes(), ""));
        assert!(terminal.screen().cursor.visible && terminal.frame_deadline().is_none());
        status.code()
    }

    /// Waits until the terminal has received all output so far: the last output may be in transit when a program has ended.
    #[track_caller]
    fn drain(&self) {
        // A control string that no terminal supports.
        const MARKER: &[u8] = b"\x1b]7777;drained\x1b\\";
        rustix::io::write(&self.slave, MARKER).unwrap();
        let arrives = || {
            let mut output = self.output.lock().unwrap();
            let at = output.windows(MARKER.len()).position(|bytes| bytes == MARKER);
            at.is_some_and(|at| output.drain(at..at + MARKER.len()).len() > 0)
        };
        assert!(wait_until(LIMIT, arrives), "{}", self.text());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        nerve_testkit::harness::signal(self.child.id(), signal);
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes the replies about the kitty keyboard protocol.
fn strip_kitty_replies(answers: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(answers).unwrap();
    let answers = text.split_inclusive(|end: char| end.is_ascii_alphabetic());
    let is_kitty = |answer: &&str| answer.starts_with("\x1b[?") && answer.ends_with('u');
    answers.filter(|answer| !is_kitty(answer)).collect::<String>().into()
}

/// Wraps a command in `setsid`, so that `/dev/tty` is the test's terminal and the command its foreground job.
pub(crate) fn in_own_session(command: &Command) -> Command {
    let mut with_terminal = Command::new("setsid");
    with_terminal.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env_clear();
    with_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    with_terminal.current_dir(command.get_current_dir().unwrap());
    with_terminal
}
