//! The viewer's key that takes a snapshot.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_types::Size;
use serde_json::Value;

use crate::harness::Home;
use crate::tty::Tty;

const SIZE: Size = Size { cols: 100, rows: 12 };
/// The prefix, as terminals with the kitty keyboard protocol send it, and `s`.
const SNAPSHOT_KEY: &str = "\x1b[93;5us";
const DETACH_KEY: &str = "\x1b[93;5ud";
/// Echoes its input.
const ECHO_SCRIPT: &str = "stty -echo; echo up; while read a; do echo \"got $a.\"; done";

/// A file to record into, outside of the directory whose files are kept.
fn out_file(home: &Home) -> String {
    home.hermetic.root().join("session.ahr").to_str().unwrap().to_string()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Lists a session's snapshots: number and file provider.
fn list_snapshots(home: &Home, session: &str) -> Vec<(u64, Option<String>)> {
    let list = home.nerve(&["snapshot", "list", session, "--json"]).json();
    let one = |line: &Value| {
        (line["snapshot_id"].as_u64().unwrap(), line["files"]["provider"].as_str().map(str::to_string))
    };
    list["snapshots"].as_array().unwrap().iter().map(one).collect()
}

/// A `git` wrapper that blocks on a FIFO when it starts to store files.
struct BlockingGit {
    path: String,
    fifo: PathBuf,
}

impl BlockingGit {
    fn new(home: &Home) -> BlockingGit {
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
        BlockingGit { path: format!("{}:{real}", bin.display()), fifo }
    }

    /// Releases one blocked `git`.
    fn release(&self) {
        fs::write(&self.fifo, "\n").unwrap();
    }

    fn wrap(&self, mut command: Command) -> Command {
        command.env("PATH", &self.path).env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }
}

#[test]
fn snapshot_has_mark_and_files_of_its_moment() {
    let home = Home::new();
    let (work, path) = (home.hermetic.work(), out_file(&home));
    fs::write(work.join("file"), "old").unwrap();
    let mut tty = Tty::new(&home, SIZE, &["record", "--out-file", &path, "--", "sh", "-c", ECHO_SCRIPT]);
    tty.expect("up");
    assert!(!tty.text().contains('▶'), "{}", tty.text());
    tty.send(SNAPSHOT_KEY);
    tty.expect("snapshot 1 taken");
    tty.expect("▶");
    tty.expect("1 snapshot");
    tty.send("x\r");
    tty.expect("got x.");
    fs::write(work.join("file"), "new").unwrap();
    tty.send(SNAPSHOT_KEY);
    tty.expect("snapshot 2 taken");
    // Keys and commands share one numbering.
    let id = home.hosts()[0]["host_id"].as_str().unwrap().to_string();
    assert_eq!(home.nerve(&["snapshot", "--session", &id, "--json"]).json()["snapshot_id"], 3);
    tty.expect("3 snapshots");
    let kept = list_snapshots(&home, &path);
    assert_eq!(kept.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(kept.iter().all(|(_, provider)| provider.is_some()), "{kept:?}");
    for (id, text) in [("1", "old"), ("2", "new")] {
        let to = home.hermetic.root().join(id);
        home.ok(&["snapshot", "restore", id, "--session", &path, "--to", to.to_str().unwrap()]);
        assert_eq!(read(&to.join("file")), text);
    }
    tty.send("\x04");
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn viewer_stays_responsive_and_waits_for_files_on_exit() {
    let home = Home::with_shell();
    let git = |args: &[&str]| assert!(home.hermetic.command("git").args(args).status().unwrap().success());
    git(&["init", "--quiet"]);
    fs::write(home.hermetic.work().join("file"), "text").unwrap();
    let blocker = BlockingGit::new(&home);
    let attach = || Tty::with_stderr(blocker.wrap(home.command(&["attach", "sh"])), SIZE);
    let mut tty = attach();
    tty.expect("ready");
    tty.send(SNAPSHOT_KEY);
    tty.expect("taking a snapshot …");
    tty.expect("1 snapshot");
    tty.send("echo a$((1 + 1))b\r");
    tty.expect("\na2b");
    tty.send(SNAPSHOT_KEY);
    tty.expect("a snapshot is being taken: wait for it");
    blocker.release();
    tty.expect("snapshot 1 taken");
    tty.send(SNAPSHOT_KEY);
    tty.expect("2 snapshots");
    tty.send(DETACH_KEY);
    tty.expect("the snapshot is still being taken; Ctrl+C cancels it");
    blocker.release();
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("snapshot 2 taken");
    let mut tty = attach();
    tty.expect("2 snapshots");
    tty.send(SNAPSHOT_KEY);
    tty.expect("3 snapshots");
    tty.send(DETACH_KEY);
    tty.expect("Ctrl+C cancels it");
    tty.send("\x03");
    assert_eq!(tty.wait_for_exit(), Some(0));
    tty.expect("snapshot 3 was recorded at byte");
    let with = |provider: &str| Some(provider.to_string());
    let recording = home.recording_of("sh");
    let kept = list_snapshots(&home, recording.to_str().unwrap());
    assert_eq!(kept, [(1, with("git")), (2, with("git")), (3, None)]);
}

#[test]
fn unrecorded_node_takes_snapshots() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["server", "node", "create", "plain", "-c", "sh", "--no-record"]);
    let mut tty = Tty::new(&home, SIZE, &["attach", "plain"]);
    tty.expect("ready");
    tty.send(SNAPSHOT_KEY);
    tty.expect("snapshot 1 taken");
    assert_eq!(home.nerve(&["snapshot", "--session", "plain", "--json"]).json()["snapshot_id"], 2);
    tty.send(DETACH_KEY);
    assert_eq!(tty.wait_for_exit(), Some(0));
}

#[test]
fn failed_snapshot_explains_why() {
    let home = Home::new();
    let (path, gone) = (out_file(&home), home.hermetic.root().join("gone"));
    fs::create_dir(&gone).unwrap();
    let mut record = home.command(&["record", "--stay", "--out-file", &path, "--", "sh", "-c", ECHO_SCRIPT]);
    record.current_dir(&gone);
    let mut tty = Tty::spawn(record, SIZE);
    tty.expect("up");
    let id = home.hosts()[0]["host_id"].as_str().unwrap().to_string();
    let mut read_only = Tty::new(&home, SIZE, &["attach", "--read-only", &id]);
    read_only.expect("up");
    read_only.send(SNAPSHOT_KEY);
    read_only.expect("attached read-only: 'nerve snapshot --recording'");
    read_only.send(DETACH_KEY);
    assert_eq!(read_only.wait_for_exit(), Some(0));
    let mut too_early = Tty::new(&home, SIZE, &["view", "--task", &path]);
    too_early.expect("still being recorded");
    too_early.send(SNAPSHOT_KEY);
    too_early.expect("recordings take no snapshots: use 'nerve attach'");
    too_early.send("q");
    assert_eq!(too_early.wait_for_exit(), Some(0));
    fs::remove_dir(&gone).unwrap();
    tty.send(SNAPSHOT_KEY);
    tty.expect(&format!("the snapshot failed: cannot read the directory {}", gone.display()));
    tty.send("\x04");
    tty.expect("the program has ended");
    tty.send(SNAPSHOT_KEY);
    tty.expect("no snapshot: the program has ended");
    tty.send("q");
    assert_eq!(tty.wait_for_exit(), Some(0));
    assert_eq!(list_snapshots(&home, &path).len(), 1, "the end alone");
    let mut tty = Tty::new(&home, SIZE, &["view", "--task", &path]);
    tty.expect("branch from the end");
    tty.send(SNAPSHOT_KEY);
    tty.expect("no snapshot: the session has ended");
    tty.send("\x1b");
    tty.expect("press Esc again to leave");
    tty.send("\x1b");
    assert_eq!(tty.wait_for_exit(), Some(0));
}
