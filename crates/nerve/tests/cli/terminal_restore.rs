//! A terminal that takes nothing, for nobody reads it: a signal ends what is in it all the same, and it is given back.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nerve_term::event::{ExitStatus, Size, TsNs};
use nerve_term::terminal::TerminalState;
use nerve_testkit::{wait_for, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Termios, tcgetattr};

use crate::harness::Home;
use crate::recording::Recording;
use crate::tty::{LIMIT, of_its_session, pair};

const SIZE: Size = Size { cols: 200, rows: 50 };
/// Each of its screens is another one.
const FLOOD: [&str; 6] = ["--", "od", "-An", "-v", "-tx1", "/dev/urandom"];
/// What takes nothing for so long takes nothing.
const FULL: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
/// A second for the terminal, and one or two for the program and its recording: nobody waits ten for a viewer that is gone.
const END: Duration = Duration::from_secs(8);

/// A command in a terminal of its own that nobody reads.
struct Unread {
    child: Child,
    master: File,
    slave: File,
    before: Termios,
}

impl Unread {
    fn of(command: &Command) -> Unread {
        let (master, slave) = pair(SIZE);
        let before = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = of_its_session(command).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Unread { child, master, slave, before }
    }

    /// Waits until it writes and the terminal has no room.
    fn is_full(&self) {
        let is_full = || poll(&mut [PollFd::new(&self.slave, PollFlags::OUT)], Some(&FULL)).unwrap() == 0;
        assert!(wait_until(LIMIT, is_full), "the terminal still takes something");
    }

    /// Sends a signal, waits for the end and gives back the exit code; the modes of the terminal are as they were.
    fn ends_by(&mut self, signal: Signal) -> Option<i32> {
        let told = Instant::now();
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let status = wait_for(LIMIT, || self.child.try_wait().unwrap()).expect("it ends");
        assert!(told.elapsed() < END, "{:?}", told.elapsed());
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (self.before.local_modes, self.before.input_modes, self.before.output_modes)
        );
        status.code()
    }

    /// What somebody sees who comes to read it in the end.
    fn read(mut self) -> TerminalState {
        // The last who has it open: then it has an end.
        drop(std::mem::replace(&mut self.slave, File::open("/dev/null").unwrap()));
        let (mut terminal, mut bytes) = (TerminalState::new(SIZE), [0; 4096]);
        while let Ok(size @ 1..) = self.master.read(&mut bytes) {
            terminal.process_data(TsNs(0), &bytes[..size]);
        }
        terminal
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_given_back(terminal: &TerminalState) {
    assert_eq!(terminal.modes(), TerminalState::new(SIZE).modes());
    assert!(terminal.screen().cursor.visible && terminal.frame_deadline().is_none());
}

#[test]
fn signal_to_full_terminal_ends_recorded_program() {
    for signal in [Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let path = home.hermetic.root().join("flood.ahr");
        let mut command = home.command(&["record", "--out-file", path.to_str().unwrap()]);
        let mut unread = Unread::of(command.args(FLOOD));
        unread.is_full();
        assert_eq!(unread.ends_by(signal), Some(128 + Signal::HUP.as_raw()), "the program's own");
        assert!(home.hosts().is_empty());
        let recorded = Recording::of(&path);
        assert_eq!(
            (recorded.exits, recorded.complete),
            (vec![ExitStatus::Signal(Signal::HUP.as_raw())], true)
        );
        is_given_back(&unread.read());
    }
}

#[test]
fn signal_to_full_terminal_leaves_attached_program() {
    let home = Home::new();
    let mut recorder = home.command(&["record", "--headless"]);
    let mut recorder = recorder.args(FLOOD).stdin(Stdio::null()).spawn().unwrap();
    let host = wait_for(LIMIT, || home.hosts().pop()).expect("it runs");
    let mut unread = Unread::of(&home.command(&["attach", host["id"].as_str().unwrap()]));
    unread.is_full();
    assert_eq!(unread.ends_by(Signal::TERM), Some(143));
    is_given_back(&unread.read());
    assert!(recorder.try_wait().unwrap().is_none(), "it goes on");
    kill_process(Pid::from_child(&recorder), Signal::TERM).unwrap();
    recorder.wait().unwrap();
}

#[test]
fn signal_to_full_terminal_works_without_viewer() {
    let home = Home::new();
    let path = home.hermetic.root().join("flood.ahr");
    let mut command = home.command(&["record", "--plain", "--out-file", path.to_str().unwrap()]);
    let mut unread = Unread::of(command.args(FLOOD));
    unread.is_full();
    assert_eq!(unread.ends_by(Signal::TERM), Some(128 + Signal::HUP.as_raw()));
    assert!(Recording::of(&path).complete && home.hosts().is_empty());

    let mut command = home.command(&["exec", "--id", "flood"]);
    let mut unread = Unread::of(command.args(FLOOD));
    unread.is_full();
    assert_eq!(unread.ends_by(Signal::TERM), Some(143));
    assert!(home.hosts().is_empty());
}
