//! Signals end commands on a terminal that accepts no output because nothing reads it, and restore the terminal.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nerve_testkit::harness::{self, open_pty};
use nerve_testkit::{wait_for, wait_until};
use nerve_types::{ExitStatus, Size, TsNs};
use nerve_vt::terminal::TerminalState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{Termios, tcgetattr};

use crate::harness::Home;
use crate::recording::Recording;
use crate::tty::{LIMIT, in_own_session};

const SIZE: Size = Size { cols: 200, rows: 50 };
/// Prints different output on each screen.
const FLOOD: [&str; 6] = ["--", "od", "-An", "-v", "-tx1", "/dev/urandom"];
/// A terminal that accepts nothing for this long is full.
const FULL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
/// Allows a second for the terminal and two for the program; less than the viewer timeout of ten seconds.
const EXIT_LIMIT: Duration = Duration::from_secs(8);

/// A command on a terminal that nothing reads.
struct UnreadTty {
    child: Child,
    master: File,
    slave: File,
    initial_modes: Termios,
}

impl UnreadTty {
    fn spawn(command: &Command) -> UnreadTty {
        let (master, slave) = open_pty(SIZE).unwrap();
        let initial_modes = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = in_own_session(command).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        UnreadTty { child, master, slave, initial_modes }
    }

    /// Waits until the terminal is full.
    fn wait_until_full(&self) {
        let is_full =
            || poll(&mut [PollFd::new(&self.slave, PollFlags::OUT)], Some(&FULL_TIMEOUT)).unwrap() == 0;
        assert!(wait_until(LIMIT, is_full), "the terminal still takes something");
    }

    /// Sends a signal, waits for the exit and returns its code; checks that the terminal modes are restored.
    fn end_with(&mut self, signal: Signal) -> Option<i32> {
        let sent_at = Instant::now();
        harness::signal(self.child.id(), signal);
        let status = wait_for(LIMIT, || self.child.try_wait().unwrap()).expect("it ends");
        assert!(sent_at.elapsed() < EXIT_LIMIT, "{:?}", sent_at.elapsed());
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (self.initial_modes.local_modes, self.initial_modes.input_modes, self.initial_modes.output_modes)
        );
        status.code()
    }

    /// Reads all pending output, as a late reader would.
    fn read(mut self) -> TerminalState {
        // Closing the last slave gives the master an end of file.
        drop(std::mem::replace(&mut self.slave, File::open("/dev/null").unwrap()));
        let (mut terminal, mut bytes) = (TerminalState::new(SIZE), [0; 4096]);
        while let Ok(size @ 1..) = self.master.read(&mut bytes) {
            terminal.process_data(TsNs(0), &bytes[..size]);
        }
        terminal
    }
}

impl Drop for UnreadTty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn assert_restored(terminal: &TerminalState) {
    assert_eq!(terminal.modes(), TerminalState::new(SIZE).modes());
    assert!(terminal.screen().cursor.visible && terminal.frame_deadline().is_none());
}

#[test]
fn signal_to_full_terminal_ends_recorded_program() {
    for signal in [Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let path = home.hermetic.root().join("flood.ahr");
        let mut command = home.command(&["record", "--out-file", path.to_str().unwrap()]);
        let mut unread = UnreadTty::spawn(command.args(FLOOD));
        unread.wait_until_full();
        assert_eq!(unread.end_with(signal), Some(128 + Signal::HUP.as_raw()), "the program's own");
        assert!(home.hosts().is_empty());
        let recorded = Recording::of(&path);
        assert_eq!(
            (recorded.exits, recorded.complete),
            (vec![ExitStatus::Signal(Signal::HUP.as_raw())], true)
        );
        assert_restored(&unread.read());
    }
}

#[test]
fn signal_to_full_terminal_leaves_attached_program() {
    let home = Home::new();
    let mut recorder = home.command(&["record", "--headless"]);
    let mut recorder = recorder.args(FLOOD).stdin(Stdio::null()).spawn().unwrap();
    let host = wait_for(LIMIT, || home.hosts().pop()).expect("it runs");
    let mut unread = UnreadTty::spawn(&home.command(&["attach", host["host_id"].as_str().unwrap()]));
    unread.wait_until_full();
    assert_eq!(unread.end_with(Signal::TERM), Some(143));
    assert_restored(&unread.read());
    assert!(recorder.try_wait().unwrap().is_none(), "the recorder still runs");
    harness::signal(recorder.id(), Signal::TERM);
    recorder.wait().unwrap();
}

#[test]
fn signal_to_full_terminal_works_without_viewer() {
    let home = Home::new();
    let path = home.hermetic.root().join("flood.ahr");
    let mut command = home.command(&["record", "--plain", "--out-file", path.to_str().unwrap()]);
    let mut unread = UnreadTty::spawn(command.args(FLOOD));
    unread.wait_until_full();
    assert_eq!(unread.end_with(Signal::TERM), Some(128 + Signal::HUP.as_raw()));
    assert!(Recording::of(&path).complete && home.hosts().is_empty());

    let mut command = home.command(&["exec", "--id", "flood"]);
    let mut unread = UnreadTty::spawn(command.args(FLOOD));
    unread.wait_until_full();
    assert_eq!(unread.end_with(Signal::TERM), Some(143));
    assert!(home.hosts().is_empty());
}
