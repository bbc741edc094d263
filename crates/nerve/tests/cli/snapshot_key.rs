//! The viewer's key that takes a snapshot.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_term::event::Size;
use serde_json::Value;

use crate::harness::Home;
use crate::tty::Seat;

const SIZE: Size = Size { cols: 100, rows: 12 };
/// The prefix, as terminals with the kitty keyboard protocol send it, and `s`.
const TAKE: &str = "\x1b[93;5us";
const LEAVE: &str = "\x1b[93;5ud";
/// Says what it is told.
const ECHOES: &str = "stty -echo; echo up; while read a; do echo \"got $a.\"; done";

/// A file to record into, outside of the directory whose files are kept.
fn out_file(home: &Home) -> String {
    home.hermetic.root().join("session.ahr").to_str().unwrap().to_string()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The snapshots of a session: number, and who keeps the files.
fn listed(home: &Home, session: &str) -> Vec<(u64, Option<String>)> {
    let list = home.nerve(&["snapshot", "list", session, "--json"]).json();
    let one =
        |line: &Value| (line["id"].as_u64().unwrap(), line["files"]["provider"].as_str().map(str::to_string));
    list.as_array().unwrap().iter().map(one).collect()
}

/// A `git` before the real one that waits for a line in `held` when it begins to keep files.
struct Held {
    path: String,
    fifo: PathBuf,
}

impl Held {
    fn new(home: &Home) -> Held {
        let bin = home.hermetic.root().join("bin");
        let fifo = home.hermetic.root().join("held");
        let real = std::env::var("PATH").unwrap();
        fs::create_dir(&bin).unwrap();
        assert!(home.hermetic.command("mkfifo").arg(&fifo).status().unwrap().success());
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--really-refresh*) read line < '{}';; esac\nPATH='{real}'; export PATH; exec git \"$@\"\n",
            fifo.display()
        );
        fs::write(bin.join("git"), script).unwrap();
        fs::set_permissions(bin.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
        Held { path: format!("{}:{real}", bin.display()), fifo }
    }

    /// One goes on; waits until it is there.
    fn lets_go(&self) {
        fs::write(&self.fifo, "\n").unwrap();
    }

    fn around(&self, mut command: Command) -> Command {
        command.env("PATH", &self.path).env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }
}

#[test]
fn snapshot_has_mark_and_files_of_its_moment() {
    let home = Home::new();
    let (work, path) = (home.hermetic.work(), out_file(&home));
    fs::write(work.join("file"), "old").unwrap();
    let mut seat = Seat::new(&home, SIZE, &["record", "--out-file", &path, "--", "sh", "-c", ECHOES]);
    seat.sees("up");
    assert!(!seat.text().contains('▶'), "{}", seat.text());
    seat.types(TAKE);
    seat.sees("snapshot 1 taken");
    seat.sees("▶");
    seat.sees("1 snapshot");
    seat.types("x\r");
    seat.sees("got x.");
    fs::write(work.join("file"), "new").unwrap();
    seat.types(TAKE);
    seat.sees("snapshot 2 taken");
    // It counts with those of the command.
    let id = home.hosts()[0]["id"].as_str().unwrap().to_string();
    assert_eq!(home.nerve(&["snapshot", "--session", &id, "--json"]).json()["id"], 3);
    seat.sees("3 snapshots");
    let kept = listed(&home, &path);
    assert_eq!(kept.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(kept.iter().all(|(_, provider)| provider.is_some()), "{kept:?}");
    for (id, text) in [("1", "old"), ("2", "new")] {
        let to = home.hermetic.root().join(id);
        home.ok(&["snapshot", "restore", id, "--session", &path, "--to", to.to_str().unwrap()]);
        assert_eq!(read(&to.join("file")), text);
    }
    seat.types("\x04");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn viewer_stays_responsive_and_waits_for_files_on_exit() {
    let home = Home::with_shell();
    let git = |args: &[&str]| assert!(home.hermetic.command("git").args(args).status().unwrap().success());
    git(&["init", "--quiet"]);
    fs::write(home.hermetic.work().join("file"), "text").unwrap();
    let held = Held::new(&home);
    let attach = || Seat::with_stderr(held.around(home.command(&["attach", "sh"])), SIZE);
    let mut seat = attach();
    seat.sees("ready");
    seat.types(TAKE);
    seat.sees("taking a snapshot …");
    seat.sees("1 snapshot");
    seat.types("echo a$((1 + 1))b\r");
    seat.sees("\na2b");
    seat.types(TAKE);
    seat.sees("a snapshot is being taken: wait for it");
    held.lets_go();
    seat.sees("snapshot 1 taken");
    seat.types(TAKE);
    seat.sees("2 snapshots");
    seat.types(LEAVE);
    seat.sees("the snapshot is still being taken; Ctrl+C gives it up");
    held.lets_go();
    assert_eq!(seat.left(), Some(0));
    seat.sees("snapshot 2 taken");
    let mut seat = attach();
    seat.sees("2 snapshots");
    seat.types(TAKE);
    seat.sees("3 snapshots");
    seat.types(LEAVE);
    seat.sees("Ctrl+C gives it up");
    seat.types("\x03");
    assert_eq!(seat.left(), Some(0));
    seat.sees("snapshot 3 was recorded at byte");
    let with = |provider: &str| Some(provider.to_string());
    let recording = home.recording_of("sh");
    let kept = listed(&home, recording.to_str().unwrap());
    assert_eq!(kept, [(1, with("git")), (2, with("git")), (3, None)]);
}

#[test]
fn unrecorded_node_takes_snapshots() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "plain", "-c", "sh", "--no-record"]);
    let mut seat = Seat::new(&home, SIZE, &["attach", "plain"]);
    seat.sees("ready");
    seat.types(TAKE);
    seat.sees("snapshot 1 taken");
    assert_eq!(home.nerve(&["snapshot", "--session", "plain", "--json"]).json()["id"], 2);
    seat.types(LEAVE);
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn failed_snapshot_explains_why() {
    let home = Home::new();
    let (path, gone) = (out_file(&home), home.hermetic.root().join("gone"));
    fs::create_dir(&gone).unwrap();
    let mut record = home.command(&["record", "--stay", "--out-file", &path, "--", "sh", "-c", ECHOES]);
    record.current_dir(&gone);
    let mut seat = Seat::of(record, SIZE);
    seat.sees("up");
    let id = home.hosts()[0]["id"].as_str().unwrap().to_string();
    let mut looks = Seat::new(&home, SIZE, &["attach", "--read-only", &id]);
    looks.sees("up");
    looks.types(TAKE);
    looks.sees("attached for reading only: 'nerve snapshot --session'");
    looks.types(LEAVE);
    assert_eq!(looks.left(), Some(0));
    let mut early = Seat::new(&home, SIZE, &["view", &path]);
    early.sees("still being recorded");
    early.types(TAKE);
    early.sees("a recording takes no snapshots: 'nerve attach'");
    early.types("q");
    assert_eq!(early.left(), Some(0));
    fs::remove_dir(&gone).unwrap();
    seat.types(TAKE);
    seat.sees(&format!("the snapshot failed: cannot read the directory {}", gone.display()));
    seat.types("\x04");
    seat.sees("the program has ended");
    seat.types(TAKE);
    seat.sees("the program has ended: it takes no snapshots any more");
    seat.types("q");
    assert_eq!(seat.left(), Some(0));
    assert_eq!(listed(&home, &path).len(), 1, "the end alone");
    let mut seat = Seat::new(&home, SIZE, &["view", &path]);
    seat.sees("branch from the end");
    seat.types(TAKE);
    seat.sees("the session has ended: it takes no snapshots any more");
    seat.types("\x1b");
    seat.sees("Esc once more to leave");
    seat.types("\x1b");
    assert_eq!(seat.left(), Some(0));
}
