//! Branches of running sessions that are not recorded.

use std::path::{Path, PathBuf};

use nerve_record::snapshots;
use nerve_testkit::harness::signal;
use nerve_testkit::wait_until;
use nerve_types::Size;
use rustix::process::Signal;

use super::{ID, agent, put, text};
use crate::harness::{Home, NERVE, pid_in};
use crate::tty::{LIMIT, Tty};

const SIZE: Size = Size { cols: 150, rows: 40 };
/// The prefix, as terminals with the kitty keyboard protocol send it.
const PREFIX: &str = "\x1b[93;5u";

/// An agent in the viewer that is not recorded.
struct UnrecordedSession {
    home: Home,
    tty: Tty,
    /// The id of its host.
    id: String,
}

impl UnrecordedSession {
    /// Runs one turn with a snapshot, then another turn.
    fn after_two_turns() -> UnrecordedSession {
        let home = Home::new();
        let claude = agent(&home, "claude", "");
        let folder = folder(&home);
        put(&folder, "file", "old\n");
        let mut record = home.command(&["record", "--no-record", "--", &claude, "--session-id", ID]);
        record.current_dir(&folder);
        let tty = Tty::with_stderr(record, SIZE);
        tty.expect("not recorded");
        tty.expect("ready");
        let id = home.hosts()[0]["host_id"].as_str().unwrap().to_string();
        let session = UnrecordedSession { home, tty, id };
        session.say("one");
        session.tty.send(&format!("{PREFIX}s"));
        session.tty.expect("snapshot 1 taken");
        put(&folder, "file", "new\n");
        session.say("two");
        session
    }

    fn say(&self, text: &str) {
        self.tty.send(&format!("{text}\r"));
        self.tty.expect(&format!("You said: {text}"));
        self.tty.expect("ready");
    }

    /// Opens the task entry and types a text.
    fn enter_task(&self, text: &str) {
        self.tty.send(&format!("{PREFIX}\x1b[A"));
        self.tty.expect("branch from snapshot 1");
        self.tty.send(text);
        self.tty.expect(text.trim_end());
    }

    /// Asserts that the branch has the conversation and files of the snapshot.
    fn assert_branched(&self) {
        let has_said = || self.home.read("claude-branch").contains("You said: one");
        assert!(wait_until(LIMIT, has_said), "{}\n{}", self.tty.text(), self.home.read("claude-branch"));
        let read = self.home.read("claude-branch");
        assert!(!read.contains("You said: one | two"), "{read}");
        let cwd = PathBuf::from(self.home.metadata("claude-branch", "cwd"));
        assert_eq!(text(cwd.join("file")), "old\n");
    }

    /// Asserts that temporary files are deleted with the session.
    fn assert_removed(&self) {
        assert!(wait_until(LIMIT, || self
            .home
            .hosts()
            .iter()
            .all(|host| host["host_id"] != self.id.as_str())));
        let left = find(&self.home.hermetic.nerve_home(), &format!("{}.unrecorded", self.id));
        assert_eq!(left, None);
    }
}

fn folder(home: &Home) -> PathBuf {
    home.hermetic.work().canonicalize().unwrap().join("project")
}

/// Returns the first entry of that name below a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.into_iter().find_map(|path| match path.file_name() {
        Some(own) if own == name => Some(path),
        _ if path.is_dir() && !path.is_symlink() => find(&path, name),
        _ => None,
    })
}

#[test]
fn task_at_snapshot_branches_the_running_session() {
    let mut session = UnrecordedSession::after_two_turns();
    session.enter_task("RECALL\r");
    session.tty.expect("branched to node");
    session.assert_branched();
    // The command line gives the same result.
    let branch = |args: &[&str]| session.home.nerve(&[&["branch", &session.id], args].concat());
    let planned = branch(&["RECALL", "--at", "1", "--dry-run", "--json"]).json();
    assert_eq!(
        (&planned["recording_id"], &planned["conversation"]["turns"]),
        (&().into(), &1.into()),
        "{planned}"
    );
    assert!(planned["files"]["reference"].is_string(), "{planned}");
    assert!(branch(&["RECALL", "--at", "1", "--dry-run"]).stdout.contains("deleted when it ends"));
    assert_eq!(branch(&["RECALL", "--at", "1"]).stdout, "You said: one\n");
    branch(&["continue"]).assert_stderr(1, &["--at"]);
    branch(&["continue", "--at", "7"]).assert_stderr(3, &["snapshot 7"]);
    session.tty.send("/exit\r");
    assert_eq!(session.tty.wait_for_exit(), Some(0));
    session.assert_removed();
    branch(&["continue", "--at", "1"]).assert_stderr(3, &[&session.id]);
}

#[test]
fn task_typed_at_session_end_still_branches() {
    let mut session = UnrecordedSession::after_two_turns();
    session.enter_task("RECALL");
    signal(pid_in(&session.home.hosts()[0]["child"]), Signal::KILL);
    session.tty.expect("the program has ended");
    session.assert_removed();
    session.tty.send("\r");
    assert_eq!(session.tty.wait_for_exit(), Some(137));
    session.tty.expect("branched: ");
    session.assert_branched();
}

#[test]
fn branch_of_unrecorded_node_inherits_env() {
    let home = Home::new();
    let (claude, folder) = (agent(&home, "claude", ""), folder(&home));
    put(&folder, "file", "old\n");
    home.ok(&["server", "start"]);
    let create = ["server", "node", "create", "me", "-c", &claude, "-b", "claude", "--no-record", "--cwd"];
    home.ok(&[&create[..], &[folder.to_str().unwrap(), "--env", "COLOUR=red"]].concat());
    let say = |text: &str| home.ok(&["server", "node", "execute", "me", text]);
    say("one");
    home.ok(&["snapshot", "--session", "me", "--label", "first"]);
    say("two");
    let id = home.metadata("me", "host_id");
    let done = home.nerve(&["branch", &id, "--at", "first", "RECALL", "--json"]).json();
    assert_eq!(done["environment"]["taken_over"][0], "COLOUR", "{done}");
    assert_eq!(done["response"]["text"], "You said: one", "{done}");
    assert_eq!(done["node_id"], "me-branch");
}

#[test]
fn inner_snapshot_lives_as_long_as_its_session() {
    let home = Home::new();
    put(&folder(&home), "file", "old\n");
    home.ok(&["server", "start"]);
    let cwd = folder(&home);
    home.ok(&["server", "node", "create", "sh", "-c", "sh", "--no-record", "--cwd", cwd.to_str().unwrap()]);
    home.ok(&["server", "node", "execute", "sh", &format!("{NERVE} snapshot --label in-it")]);
    let id = home.metadata("sh", "host_id");
    let file = find(&home.hermetic.nerve_home(), &format!("{id}.unrecorded")).unwrap().join("session.ahr");
    let kept = snapshots::read(&file).unwrap();
    let [line] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((line.label.as_deref(), &*line.kind), (Some("in-it"), "manual"));
    assert_eq!(line.files.as_ref().unwrap().source, cwd);
    home.nerve(&["branch", &id, "--at", "in-it", "continue"]).assert_stderr(2, &["'sh'"]);
    home.ok(&["server", "node", "stop", "sh"]);
    assert!(wait_until(LIMIT, || !file.parent().unwrap().exists()));
}
