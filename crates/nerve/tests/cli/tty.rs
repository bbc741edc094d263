//! A terminal with `nerve` at work in it, and somebody in front of it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::TerminalState;
use nerve_testkit::{wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::harness::Home;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A terminal with `nerve` at work in it.
pub(crate) struct Seat {
    pub(crate) child: Child,
    pub(crate) keyboard: File,
    /// Kept open, to look at its settings.
    pub(crate) slave: File,
    before: Termios,
    pub(crate) shown: Arc<Mutex<TerminalState>>,
    /// All bytes that came.
    pub(crate) written: Arc<Mutex<Vec<u8>>>,
}

impl Seat {
    pub(crate) fn new(home: &Home, size: Size, args: &[&str]) -> Seat {
        Seat::of(home.command(args), size)
    }

    /// A command that was made ready, with the terminal as its input and output, and as the terminal of its session.
    pub(crate) fn of(command: Command, size: Size) -> Seat {
        Seat::with(of_its_session(&command), size, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(end()).stdout(end()).stderr(Stdio::null());
        })
    }

    /// In a terminal that does not know the kitty keyboard protocol: it says nothing when it is asked for that.
    pub(crate) fn plain(home: &Home, size: Size, args: &[&str]) -> Seat {
        Seat::answering(of_its_session(&home.command(args)), size, without_kitty, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(end()).stdout(end()).stderr(Stdio::null());
        })
    }

    /// The same with the terminal for what it says on the side too.
    pub(crate) fn with_stderr(command: Command, size: Size) -> Seat {
        Seat::with(of_its_session(&command), size, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(end()).stdout(end()).stderr(end());
        })
    }

    /// A command that nobody can answer: the terminal only shows what it says.
    pub(crate) fn watched(command: Command, size: Size) -> Seat {
        Seat::with(command, size, |command, slave| {
            let end = || slave.try_clone().unwrap();
            command.stdin(Stdio::null()).stdout(end()).stderr(end());
        })
    }

    fn with(command: Command, size: Size, connect: impl FnOnce(&mut Command, &File)) -> Seat {
        Seat::answering(command, size, |answers| answers, connect)
    }

    /// With this of what a terminal answers.
    fn answering(
        mut command: Command,
        size: Size,
        answer: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
        connect: impl FnOnce(&mut Command, &File),
    ) -> Seat {
        let (master, slave) = pair(size);
        connect(&mut command, &slave);
        command.env_remove("NO_COLOR");
        let before = tcgetattr(&slave).unwrap();
        let shown = Arc::new(Mutex::new(TerminalState::new(size)));
        let mut screen = master.try_clone().unwrap();
        let fed = Arc::clone(&shown);
        let written = Arc::new(Mutex::default());
        let came: Arc<Mutex<Vec<u8>>> = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                came.lock().unwrap().extend_from_slice(&bytes[..len]);
                let answers = fed.lock().unwrap().process_data(TsNs(0), &bytes[..len]).replies;
                // What it is asked it answers, as terminals do.
                if screen.write_all(&answer(answers)).is_err() {
                    break;
                }
            }
        });
        Seat { child: command.spawn().unwrap(), keyboard: master, slave, before, shown, written }
    }

    pub(crate) fn text(&self) -> String {
        self.shown.lock().unwrap().screen().text()
    }

    #[track_caller]
    pub(crate) fn sees(&self, words: &str) {
        assert!(wait_until(LIMIT, || self.text().contains(words)), "no {words:?} in\n{}", self.text());
    }

    pub(crate) fn types(&self, keys: &str) {
        rustix::io::write(&self.keyboard, keys.as_bytes()).unwrap();
    }

    /// Waits for its end; the terminal is as it was before.
    #[track_caller]
    pub(crate) fn left(&mut self) -> Option<i32> {
        let status = wait_for(LIMIT, || self.child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it does not end:\n{}", self.text()));
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (self.before.local_modes, self.before.input_modes, self.before.output_modes)
        );
        let fresh = TerminalState::new(Size::default());
        // What it wrote last may still be on its way.
        let as_fresh = || self.shown.lock().unwrap().modes() == fresh.modes();
        assert!(wait_until(LIMIT, as_fresh), "{}", self.text());
        let shown = self.shown.lock().unwrap();
        assert_eq!((shown.modes(), shown.title()), (fresh.modes(), ""));
        assert!(shown.screen().cursor.visible && shown.frame_deadline().is_none());
        status.code()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers of a terminal but for what it says of the kitty keyboard protocol.
fn without_kitty(answers: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(answers).unwrap();
    let answers = text.split_inclusive(|end: char| end.is_ascii_alphabetic());
    let is_kitty = |answer: &&str| answer.starts_with("\x1b[?") && answer.ends_with('u');
    answers.filter(|answer| !is_kitty(answer)).collect::<String>().into()
}

/// A terminal that nobody sits at: its two ends.
pub(crate) fn pair(size: Size) -> (File, File) {
    // Neither end is for programs that others start.
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    resize(&master, size);
    (master.into(), slave)
}

/// What asks `/dev/tty` must not ask the terminal of whoever runs the tests; and only the foreground job of a terminal may ask there.
/// setsid makes the command that, and becomes it.
pub(crate) fn of_its_session(command: &Command) -> Command {
    let mut with_terminal = Command::new("setsid");
    with_terminal.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args()).env_clear();
    with_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    with_terminal.current_dir(command.get_current_dir().unwrap());
    with_terminal
}

pub(crate) fn resize(terminal: impl AsFd, size: Size) {
    tcsetwinsize(terminal, Winsize { ws_col: size.cols, ws_row: size.rows, ws_xpixel: 0, ws_ypixel: 0 })
        .unwrap();
}
