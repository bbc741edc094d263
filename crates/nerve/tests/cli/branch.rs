//! `nerve branch` from snapshots and ends of recorded sessions, with the mock agent under the name of the agent it
//! imitates.

mod alt_screen;
mod concurrency;
mod directories;
mod environment;
mod prune;
mod requests;
mod unrecorded;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nerve_record::meta::Meta;
use nerve_record::snapshots;
use nerve_testkit::harness::CommandOutput;
use nerve_testkit::wait_until;
use serde_json::Value;

use crate::harness::{DEADLINE, Home, NERVE};

const ID: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";

/// A node `me` that works in its own folder.
struct Fixture {
    home: Home,
    recording: PathBuf,
}

/// Installs the mock agent under this name with these arguments and returns its path.
fn agent(home: &Home, name: &str, args: &str) -> String {
    let path = home.hermetic.work().join(name);
    fs::write(&path, format!("#!/bin/sh\nexec '{NERVE}' mock-agent {args} \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_string()
}

fn put(folder: &Path, name: &str, content: &str) {
    fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    fs::write(folder.join(name), content).unwrap();
}

fn git(home: &Home, folder: &Path, args: &[&str]) -> String {
    home.hermetic.git(folder, args)
}

impl Fixture {
    /// Creates the node in a plain folder, without a turn.
    fn new() -> Fixture {
        Fixture::with_folder(|_, _| {})
    }

    fn with_folder(prepare: impl Fn(&Home, &Path)) -> Fixture {
        Fixture::with_agent_args("", prepare)
    }

    /// Creates the node with arguments for the agent.
    fn with_agent_args(args: &str, prepare: impl Fn(&Home, &Path)) -> Fixture {
        Fixture::start(&[], args, prepare)
    }

    /// Creates the node on a server with these options.
    fn start(options: &[&str], args: &str, prepare: impl Fn(&Home, &Path)) -> Fixture {
        let home = Home::new();
        let folder = home.hermetic.work().canonicalize().unwrap().join("project");
        put(&folder, "file", "old\n");
        prepare(&home, &folder);
        home.ok(&[&["server", "start"], options].concat());
        let claude = agent(&home, "claude", args);
        let cwd = folder.to_str().unwrap();
        home.ok(&["server", "node", "create", "me", "-c", &claude, "-b", "claude", "--cwd", cwd]);
        let recording = home.recording_of("me");
        Fixture { home, recording }
    }

    fn with_git() -> Fixture {
        Fixture::with_folder(|home, folder| {
            git(home, folder, &["init", "--quiet", "--initial-branch=main"]);
            git(home, folder, &["add", "--all"]);
            git(home, folder, &["commit", "--quiet", "--message", "first"]);
        })
    }

    /// Runs two turns, with a file change before and a snapshot after each: `one` and `two` in `file`.
    fn with_two_turns(self) -> Fixture {
        for turn in ["one", "two"] {
            put(&self.folder(), "file", &format!("{turn}\n"));
            put(&self.folder(), "new/untracked", turn);
            self.say(turn);
            self.snapshot(&["--label", turn]);
        }
        self
    }

    fn folder(&self) -> PathBuf {
        self.home.hermetic.work().canonicalize().unwrap().join("project")
    }

    fn say(&self, text: &str) -> String {
        self.home.ok(&["server", "node", "execute", "me", text])
    }

    /// Takes a snapshot as a program in the node's terminal would.
    fn snapshot(&self, args: &[&str]) {
        let host = self.home.host_of("me");
        let socket =
            self.home.hermetic.nerve_home().join("run/hosts").join(host["host_id"].as_str().unwrap());
        let mut command = self.home.command(&[&["snapshot"], args].concat());
        command.current_dir(self.folder()).env("NERVE_RECORDER_SOCKET", socket.join("snapshot"));
        command.env("NERVE_RECORDING", &self.recording);
        let done = self.home.run(command);
        assert_eq!(done.code, 0, "{done:?}");
    }

    fn branch(&self, args: &[&str]) -> CommandOutput {
        self.home.nerve(&[&["branch", self.recording.to_str().unwrap()], args].concat())
    }

    fn branch_json(&self, args: &[&str]) -> Value {
        let done = self.branch(&[args, &["--json"]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        done.json()
    }

    fn stop(&self) {
        self.home.ok(&["server", "node", "stop", "me"]);
    }

    /// Ends a node and waits until its host has stored everything.
    fn end_node(&self, node: &str) {
        self.home.ok(&["server", "node", "stop", node]);
        let is_there =
            || self.home.hosts().iter().any(|host| host["node_id"] == node && host["alive"] == true);
        assert!(wait_until(DEADLINE, || !is_there()), "{:?}", self.home.hosts());
    }

    fn nodes(&self) -> Value {
        self.home.nerve(&["server", "node", "list", "--json"]).json()["nodes"].clone()
    }

    fn branches(&self) -> PathBuf {
        self.home.hermetic.nerve_home().join("branches")
    }
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn branch_of_live_session_has_files_and_conversation() {
    let fixture = Fixture::new().with_two_turns();
    let done = fixture.branch(&["RECALL", "--at", "1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
    assert!(done.stderr.contains("node 'me-branch' works in "), "{done:?}");
    let cwd = PathBuf::from(fixture.home.metadata("me-branch", "cwd"));
    assert!(cwd.starts_with(fixture.branches().canonicalize().unwrap()), "{}", cwd.display());
    assert_eq!((text(cwd.join("file")), text(cwd.join("new/untracked"))), ("one\n".into(), "one".into()));
    assert_eq!(text(fixture.folder().join("file")), "two\n", "the source is as it was");
    // The branch is an independent session with the same terminal size and can be branched again.
    for fact in ["cols", "rows", "profile"] {
        assert_eq!(fixture.home.metadata("me-branch", fact), fixture.home.metadata("me", fact));
    }
    assert_ne!(
        fixture.home.metadata("me-branch", "conversation_id"),
        fixture.home.metadata("me", "conversation_id")
    );
    assert_eq!(fixture.say("RECALL"), "You said: one | two\n");
    let again = fixture.branch_json(&["RECALL", "--at", "two", "--no-wait"]);
    assert_eq!((&again["node_id"], &again["conversation"]["turns"]), (&"me-branch-2".into(), &2.into()));
}

#[test]
fn git_snapshot_becomes_worktree_on_own_git_branch() {
    let fixture = Fixture::with_git().with_two_turns();
    let folder = fixture.folder();
    let before = git(&fixture.home, &folder, &["status", "--porcelain"]);
    let done = fixture.branch_json(&["RECALL", "--at", "one"]);
    let cwd = PathBuf::from(done["cwd"].as_str().unwrap());
    assert_eq!(git(&fixture.home, &cwd, &["status", "--porcelain"]), " M file\n?? new/");
    assert_eq!(git(&fixture.home, &cwd, &["log", "--format=%s"]), "first");
    let branch = done["git_branch"].as_str().unwrap();
    assert_eq!(git(&fixture.home, &cwd, &["branch", "--show-current"]), branch);
    assert!(branch.starts_with("nerve/"), "{branch}");
    assert_eq!((text(cwd.join("file")), text(folder.join("file"))), ("one\n".into(), "two\n".into()));
    assert_eq!(git(&fixture.home, &folder, &["status", "--porcelain"]), before);
    assert_eq!(git(&fixture.home, &folder, &["branch", "--show-current"]), "main");
    // Commits made in the worktree can be merged in the source repository.
    git(&fixture.home, &cwd, &["commit", "--quiet", "--all", "--message", "second"]);
    assert_eq!(git(&fixture.home, &folder, &["log", "--format=%s", branch]), "second\nfirst");
    // Each branch gets its own git branch.
    assert_ne!(fixture.branch_json(&["RECALL", "--at", "one"])["git_branch"], *branch);
}

#[test]
fn session_end_is_a_snapshot_with_files() {
    let fixture = Fixture::new().with_two_turns();
    put(&fixture.folder(), "file", "last\n");
    let refused = fixture.branch(&["RECALL"]);
    assert!(refused.stderr.starts_with("error: cannot branch from the end"), "the reason first: {refused:?}");
    refused.assert_stderr(1, &["--at"]);
    fixture.stop();
    let meta = Meta::load(&fixture.recording).unwrap().unwrap();
    assert!(meta.cmd.contains(&"--settings".to_string()), "{:?}", meta.cmd);
    let listed = fixture.home.ok(&["recordings", "list"]);
    assert!(listed.contains("claude") && !listed.contains("--settings"), "as it was asked for: {listed}");
    let lines = snapshots::read(&fixture.recording).unwrap();
    let end = lines.last().unwrap();
    assert_eq!((end.id, end.label.as_deref(), &*end.kind), (3, Some("end"), "end"));
    let done = fixture.branch(&["RECALL"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one | two\n"), "{done:?}");
    let cwd = PathBuf::from(fixture.home.metadata("me-branch", "cwd"));
    assert_eq!(text(cwd.join("file")), "last\n");
    // `branch` starts the server if none is running.
    fixture.home.ok(&["server", "stop"]);
    let done = fixture.branch(&["RECALL", "--at", "2", "--node", "other"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one | two\n"), "{done:?}");
    assert_eq!(text(PathBuf::from(fixture.home.metadata("other", "cwd")).join("file")), "two\n");
}

#[test]
fn dry_run_prints_steps_and_changes_nothing() {
    let fixture = Fixture::new().with_two_turns();
    let nodes = fixture.nodes();
    let output = fixture.branch(&["Continue", "--at", "1", "--dry-run"]);
    assert_eq!(output.code, 0, "{output:?}");
    for part in
        ["the first 1 of 2 turns", "--resume", "me-branch on server 'default'", "copy", "Continue", "1 'one'"]
    {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
    let data = fixture.branch_json(&["Continue", "--at", "1", "--dry-run"]);
    let talk = &data["conversation"];
    assert_eq!((&talk["kind"], &talk["turns"], &talk["of"]), (&"cut".into(), &1.into(), &2.into()));
    assert!(!Path::new(talk["to"].as_str().unwrap()).exists());
    assert_eq!((fixture.nodes(), fixture.branches().exists()), (nodes, false));
}

#[test]
fn no_wait_prints_name_after_instruction_was_delivered() {
    let fixture = Fixture::new().with_two_turns();
    let done = fixture.branch(&["SLOW down", "--at", "1", "--no-wait", "--node", "mine"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "mine\n"), "{done:?}");
    fixture.home.ok(&["server", "node", "wait", "mine"]);
    let history = fixture.home.ok(&["server", "node", "history", "mine", "--inputs-only"]);
    assert!(history.contains("SLOW down"), "{history}");
    let taken = fixture.branch(&["RECALL", "--at", "1", "--node", "mine"]);
    taken.assert_stderr(1, &["node 'mine'", "--node"]);
    assert_eq!(
        fs::read_dir(fixture.branches()).unwrap().count(),
        2,
        "a folder and its note: nothing is left of what failed"
    );
    fixture.branch(&["RECALL", "--at", "1", "--node", "Not a name"]).assert_stderr(2, &["Not a name"]);
    assert_eq!(
        fs::read_dir(fixture.branches()).unwrap().count(),
        2,
        "a folder and its note: nothing is left of what failed"
    );
}

#[test]
fn copy_of_trusted_folder_is_trusted() {
    let fixture = Fixture::new().with_two_turns();
    // From now on the agent shows its trust dialog at each start.
    agent(&fixture.home, "claude", "--onboarding");
    let done = fixture.branch(&["RECALL", "--at", "1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
}

#[test]
fn invalid_sources_and_targets_explain_what_to_do() {
    let fixture = Fixture::new().with_two_turns();
    fixture.branch(&["x", "--at", "9"]).assert_stderr(3, &["snapshot 9", "1 'one', 2 'two'"]);
    fixture.branch(&["x", "--at", "three"]).assert_stderr(3, &["label 'three'", "1 'one'"]);
    fixture.branch(&[" ", "--at", "1"]).assert_stderr(2, &["empty"]);
    fixture.home.nerve(&["branch", "nothing", "x"]).assert_stderr(3, &["nothing"]);
    // A recording without an instruction is refused: it is not taken as an instruction for the newest session.
    let file = fixture.recording.to_str().unwrap();
    let id = fixture.recording.file_stem().unwrap().to_str().unwrap();
    for named in [file, id, &id[..8]] {
        let say = format!("add an instruction: nerve branch {named} 'INSTRUCTION'");
        fixture.home.nerve(&["branch", named, "--dry-run"]).assert_stderr(2, &[&say]);
    }
    let full = fixture.home.hermetic.work().join("full");
    put(&full, "there", "");
    fixture.branch(&["x", "--at", "1", "--to", full.to_str().unwrap()]).assert_stderr(2, &["--to"]);
    let inside = fixture.folder().join("inside");
    fixture.branch(&["x", "--at", "1", "--to", inside.to_str().unwrap()]).assert_code(2);
    let meta = Meta::sidecar_path(&fixture.recording);
    let whole = text(meta.clone());
    fs::write(&meta, "{").unwrap();
    fixture.branch(&["x", "--at", "1"]).assert_stderr(1, &["session"]);
    fs::remove_file(&meta).unwrap();
    fixture.branch(&["x", "--at", "1"]).assert_stderr(3, &["meta.json"]);
    fs::write(&meta, whole).unwrap();
    let to = fixture.home.hermetic.work().join("here");
    let done = fixture.branch(&["RECALL", "--at", "1", "--to", to.to_str().unwrap()]);
    assert_eq!((done.code, text(to.join("file"))), (0, "one\n".into()), "{done:?}");
}

#[test]
fn snapshot_without_files_needs_in_place() {
    let fixture = Fixture::new();
    fixture.say("one");
    fixture.snapshot(&["--no-files", "--label", "bare"]);
    fixture.say("two");
    put(&fixture.folder(), "file", "now\n");
    fixture.branch(&["RECALL", "--at", "bare"]).assert_stderr(1, &["snapshot 1", "--in-place"]);
    let done = fixture.branch(&["RECALL", "--at", "bare", "--in-place"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
    assert!(done.stderr.contains("using the current files"), "{done:?}");
    assert_eq!(PathBuf::from(fixture.home.metadata("me-branch", "cwd")), fixture.folder());
    fixture.stop();
    fs::remove_dir_all(fixture.folder()).unwrap();
    fixture.branch(&["x", "--at", "bare", "--in-place"]).assert_code(3);
}

#[test]
fn copy_outlives_its_folder_but_git_snapshot_does_not() {
    let fixture = Fixture::new().with_two_turns();
    fixture.stop();
    fs::remove_dir_all(fixture.folder()).unwrap();
    let done = fixture.branch(&["RECALL", "--at", "1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");

    let fixture = Fixture::with_git().with_two_turns();
    let elsewhere = fixture.home.hermetic.work().join("elsewhere");
    fs::rename(fixture.folder(), &elsewhere).unwrap();
    fixture.branch(&["RECALL", "--at", "1"]).assert_stderr(3, &[fixture.folder().to_str().unwrap(), "--dir"]);
    let done = fixture.branch(&["RECALL", "--at", "1", "--dir", elsewhere.to_str().unwrap()]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
}

#[test]
fn missing_transcript_starts_new_conversation_with_notice() {
    let fixture = Fixture::new().with_two_turns();
    let projects = fixture.home.hermetic.home().join(".claude/projects");
    fs::remove_dir_all(&projects).unwrap();
    let done = fixture.branch(&["RECALL", "--at", "1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said:\n"), "{done:?}");
    assert!(done.stderr.contains("conversation: a new one"), "{done:?}");
}

#[test]
fn session_without_agent_cannot_be_branched() {
    let home = Home::new();
    let file = home.hermetic.work().join("shell.ahr");
    home.ok(&["record", "--headless", "--out-file", file.to_str().unwrap(), "--", "bash", "-c", "echo hi"]);
    let lines = snapshots::read(&file).unwrap();
    let end = &lines[0];
    assert_eq!(
        (lines.len(), end.label.as_deref(), end.files.as_ref()),
        (1, Some("end"), None),
        "only a mark"
    );
    home.nerve(&["branch", file.to_str().unwrap(), "x"]).assert_stderr(2, &["'bash -c"]);
}

#[test]
fn agent_recorded_without_server_can_be_branched() {
    let home = Home::new();
    let folder = home.hermetic.work().canonicalize().unwrap().join("project");
    put(&folder, "file", "there\n");
    let claude = agent(&home, "claude", "");
    let file = home.hermetic.work().join("session.ahr");
    let mut command = home.command(&["record", "--headless", "--out-file", file.to_str().unwrap(), "--"]);
    command.current_dir(&folder).args(["timeout", "20", &claude, "--session-id", ID, "--exit-at-once", "3"]);
    assert_eq!(home.run(command).code, 3);
    let meta = Meta::load(&file).unwrap().unwrap();
    assert_eq!((meta.profile.as_deref(), meta.cwd.as_ref()), (Some("claude"), Some(&folder)));
    let end = snapshots::read(&file).unwrap().pop().unwrap();
    assert_eq!(end.files.map(|files| files.source), Some(folder));
    let output = home.ok(&["branch", file.to_str().unwrap(), "hello", "--dry-run"]);
    assert!(output.contains("a new one: the agent has no transcript"), "{output}");
    assert!(output.contains("claude-branch"), "{output}");
}

#[test]
fn oversized_directory_does_not_fail_the_session() {
    let home = Home::new();
    let folder = home.hermetic.work().canonicalize().unwrap().join("project");
    put(&folder, "file", "there\n");
    // A sparse file: large in size only.
    fs::File::create(folder.join("huge")).unwrap().set_len(2 << 30).unwrap();
    let file = home.hermetic.work().join("session.ahr");
    let mut command = home.command(&["record", "--headless", "--out-file", file.to_str().unwrap(), "--"]);
    command.current_dir(&folder).args([&agent(&home, "claude", ""), "--exit-at-once", "3"]);
    let done = home.run(command);
    assert_eq!((done.code, done.stderr.as_str()), (3, ""), "{done:?}");
    let end = snapshots::read(&file).unwrap().pop().unwrap();
    assert_eq!((&*end.kind, end.files), ("end", None));
    home.nerve(&["branch", file.to_str().unwrap(), "x"]).assert_stderr(1, &["--in-place"]);
    let output = home.ok(&["branch", file.to_str().unwrap(), "x", "--in-place", "--dry-run"]);
    assert!(output.contains("the recorded directory itself"), "{output}");
}

#[test]
fn codex_branch_has_the_whole_conversation() {
    let home = Home::new();
    let folder = home.hermetic.work().canonicalize().unwrap();
    put(&folder, "project/file", "there\n");
    let file = folder.join("codex.ahr");
    let codex = agent(&home, "codex", "");
    let command = ["record", "--headless", "--out-file", file.to_str().unwrap(), "--"];
    let mut command = home.command(&command);
    command.current_dir(folder.join("project")).args([&codex, "--exit-at-once", "0"]);
    assert_eq!(home.run(command).code, 0);
    let mut meta = Meta::load(&file).unwrap().unwrap();
    let output = home.ok(&["branch", file.to_str().unwrap(), "hello", "--dry-run"]);
    assert!(output.contains("the agent's conversation is not known"), "{output}");
    meta.conversation_id = Some(ID.to_string());
    meta.store(&file).unwrap();
    let output = home.ok(&["branch", file.to_str().unwrap(), "hello", "--dry-run"]);
    assert!(output.contains(&format!("fork {ID}")) && output.contains("all its messages"), "{output}");
}
