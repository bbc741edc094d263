//! The tools of an agent in its viewer: many of them, floods, and hosts that are killed.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use nerve_record::executions::{self, ExecutionLine};
use nerve_testkit::harness::signal;
use nerve_testkit::wait_until;
use nerve_types::Size;
use rustix::process::Signal;

use crate::harness::{Home, NERVE};
use crate::tty::{LIMIT, Tty};

/// Ctrl+] and t, as terminals with the kitty keyboard protocol send it.
pub(crate) const TOOLS: &str = "\x1b[93;5ut";
pub(crate) const SIZE: Size = Size { cols: 100, rows: 20 };

/// A running session, recorded without a viewer.
pub(crate) struct Session {
    pub(crate) home: Home,
    pub(crate) recording: PathBuf,
    recorder: Child,
}

impl Session {
    pub(crate) fn of(script: &str) -> Session {
        let home = Home::new();
        let recording = home.hermetic.work().join("session.ahr");
        let file = recording.to_str().unwrap();
        let mut command =
            home.command(&["record", "--headless", "--out-file", file, "--", "sh", "-c", script]);
        let recorder = command.stdin(Stdio::null()).spawn().unwrap();
        let is_there = || home.hosts().iter().any(|host| host["recording_path"] == file);
        assert!(wait_until(LIMIT, is_there));
        Session { home, recording, recorder }
    }

    fn host(&self) -> String {
        let file = self.recording.to_str().unwrap();
        let hosts = self.home.hosts();
        let host = hosts.iter().find(|host| host["recording_path"] == file).unwrap();
        host["host_id"].as_str().unwrap().to_string()
    }

    /// Opens the session's viewer.
    pub(crate) fn viewer(&self) -> Tty {
        Tty::new(&self.home, SIZE, &["attach", &self.host()])
    }

    /// Runs a line as an execution.
    pub(crate) fn run(&self, id: &str, line: &str) -> Child {
        let mut command = self.home.command(&["exec", "--interactive", "--id", id, "-c", line]);
        command.env("NERVE_RECORDING", &self.recording).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    /// Runs an execution without stdin.
    fn run_deaf(&self, id: &str) -> Child {
        let mut command = self.home.command(&["exec", "--id", id, "--", "sleep", "1000"]);
        command.env("NERVE_RECORDING", &self.recording).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    fn list(&self, line: ExecutionLine) {
        executions::append(&self.recording, line).unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        signal(self.recorder.id(), Signal::TERM);
        let _ = self.recorder.wait();
    }
}

fn begun(id: &str) -> ExecutionLine {
    let command = "cargo test --workspace -- --nocapture a_test_with_a_long_name".to_string();
    ExecutionLine { id: id.into(), command: Some(command), started_ns: Some(1), ..ExecutionLine::default() }
}

fn ended(id: &str) -> ExecutionLine {
    ExecutionLine { id: id.into(), ended_ns: Some(2), exit_code: Some(0), ..ExecutionLine::default() }
}

#[test]
fn keys_work_while_ten_thousand_executions_change() {
    let session = Session::of("stty -echo; while read a; do echo \"<$a>\"; done");
    for at in 0..10_000 {
        session.list(begun(&format!("old-{at}")));
        session.list(ended(&format!("old-{at}")));
    }
    let mut runs: Vec<Child> =
        (0..5).map(|at| session.run(&format!("run-{at}"), "exec sleep 1000")).collect();
    let tty = session.viewer();
    tty.expect("5 running");
    for at in 0..50 {
        for new in 0..10 {
            session.list(begun(&format!("new-{at}-{new}")));
            session.list(ended(&format!("new-{at}-{new}")));
        }
        tty.send(&format!("k{at}\r"));
        tty.expect(&format!("<k{at}>"));
    }
    tty.send(TOOLS);
    tty.expect("5 running of 10");
    for run in &mut runs {
        run.kill().unwrap();
        run.wait().unwrap();
    }
}

#[test]
fn tool_of_killed_host_ends_and_refuses_input() {
    let session = Session::of("cat");
    let mut run = session.run_deaf("dead");
    let tty = session.viewer();
    tty.expect("1 running");
    tty.send(TOOLS);
    tty.expect("1 running of 1");
    tty.send("\r");
    tty.expect("stdin is /dev/null");
    run.kill().unwrap();
    run.wait().unwrap();
    // The list or the connection reports the end first.
    tty.expect_any(&["tool ended", "is gone, and its program with it"]);
    tty.send("\x1b");
    tty.expect("0 running of 1");
}

#[test]
fn output_floods_do_not_block_keys_or_frames() {
    let session = Session::of("yes the agent floods");
    // A flood ends in the middle of a line.
    let line =
        "stty -echo; yes the tool floods & read a; kill $!; wait; echo; echo heard $a; exec sleep 1000";
    let mut run = session.run("flood", line);
    let tty = session.viewer();
    tty.expect("the agent floods");
    tty.send(TOOLS);
    tty.expect("1 running of 1");
    tty.send("\r");
    tty.expect("\u{2502}the tool floods");
    tty.send("\x1b[5;2~");
    tty.expect("tool scroll");
    tty.send("q");
    assert!(wait_until(LIMIT, || !tty.text().contains("tool scroll")), "{}", tty.text());
    tty.send("yes\r");
    tty.expect("\u{2502}heard yes");
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn newest_of_same_ids_is_shown_with_warning() {
    let home = Home::new();
    for (session, says) in [("one", "first"), ("two", "second")] {
        let record = ["record", "--headless", "--session-id", session, "--out-file", "--", NERVE];
        home.ok(&[&record[..], &["exec", "--id", "same", "--", "echo", says]].concat());
    }
    let show = ["show-sandbox-execution", "--id", "same"];
    let newest = home.nerve(&show);
    newest.assert_stderr(0, &["warning", "other sessions have", "--recording"]);
    assert_eq!(newest.stdout, "second\r\n");
    for (session, says) in [("one", "first\r\n"), ("two", "second\r\n")] {
        let shown = home.nerve(&[&show[..], &["--session", session]].concat());
        assert_eq!((shown.stdout.as_str(), shown.stderr.as_str()), (says, ""));
    }
}
