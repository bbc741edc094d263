//! The folders of branches: listed, and removed when nothing needs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nerve_testkit::harness::CommandOutput;
use serde_json::Value;

use super::{Fixture, git, put};

impl Fixture {
    /// Creates a branch from the first snapshot and ends its node.
    pub(super) fn ended_branch(&self) -> PathBuf {
        let made = self.branch_json(&["RECALL", "--at", "one"]);
        self.end_node(made["node_id"].as_str().unwrap());
        made["cwd"].as_str().unwrap().into()
    }

    fn folders(&self) -> Vec<Value> {
        self.home.nerve(&["recordings", "branches", "--json"]).json()["branches"].as_array().unwrap().clone()
    }

    /// Backdates the folders, so that none counts as being in use by a starting node.
    pub(super) fn backdate_folders(&self) {
        let old = SystemTime::now() - Duration::from_secs(2 * 3600);
        let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in inside(self.branches()).chain(inside(self.branches().join("conversations"))) {
            fs::File::open(entry.path()).unwrap().set_modified(old).unwrap();
        }
    }

    fn prune(&self, more: &[&str]) -> CommandOutput {
        self.backdate_folders();
        let done = self.home.nerve(&[&["recordings", "prune", "--older-than", "0s"], more].concat());
        assert_eq!(done.code, 0, "{done:?}");
        done
    }

    /// Runs `nerve prune --everything` and returns the totals of snapshots in git repositories.
    fn prune_everything(&self, more: &[&str]) -> Value {
        self.backdate_folders();
        let done = self
            .home
            .nerve(&[&["prune", "--everything", "--older-than", "0s", "--json"], more].concat())
            .json();
        let data = done["data"].as_array().unwrap();
        data.iter().find(|data| data["kind"] == "git_snapshots").unwrap().clone()
    }

    /// Returns the references of the snapshots that the repository has.
    fn git_snapshots(&self) -> String {
        git(&self.home, &self.folder(), &["for-each-ref", "--format=%(refname)", "refs/nerve/snapshots"])
    }

    fn git_branches(&self) -> String {
        git(&self.home, &self.folder(), &["branch", "--list", "nerve/*"])
    }
}

fn note_file(folder: &Path) -> PathBuf {
    folder.with_file_name(format!("{}.json", folder.file_name().unwrap().to_str().unwrap()))
}

#[test]
fn folder_is_pruned_with_its_last_recording() {
    let fixture = Fixture::with_git().with_two_turns();
    let folder = fixture.ended_branch();
    let [listed] = &fixture.folders()[..] else { panic!("{:?}", fixture.folders()) };
    assert_eq!(PathBuf::from(listed["path"].as_str().unwrap()), folder);
    assert_eq!((&listed["changed"], &listed["used_by"]), (&false.into(), &Value::Null));
    assert_eq!(listed["recordings"].as_array().unwrap().len(), 2, "its own and the one it continues");
    let shown = fixture.home.ok(&["recordings", "branches"]);
    assert!(shown.contains("no node") && shown.contains("none"), "{shown}");
    // The source is still being recorded, so the folder stays.
    assert!(!fixture.prune(&[]).stdout.contains("branch "));
    assert!(folder.is_dir());
    fixture.end_node("me");
    let output = fixture.prune(&["--dry-run"]);
    assert!(output.stdout.contains(&format!("branch {}  would be removed", folder.display())), "{output:?}");
    assert!(folder.is_dir() && fixture.recording.is_file());
    let done = fixture.prune(&["--json"]).json();
    assert_eq!((&done["branches"][0]["removed"], &done["branches"][0]["why"]), (&true.into(), &Value::Null));
    assert!(!folder.exists() && !note_file(&folder).exists());
    assert_eq!(fixture.git_branches(), "");
    let trees = git(&fixture.home, &fixture.folder(), &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 1, "{trees}");
    assert_eq!(fs::read_to_string(fixture.folder().join("file")).unwrap(), "two\n");
}

#[test]
fn git_snapshots_are_pruned_by_request() {
    let fixture = Fixture::with_git().with_two_turns();
    put(&fixture.ended_branch(), "file", "mine\n");
    fixture.end_node("me");
    let before = fixture.git_snapshots();
    assert!(before.lines().count() >= 2, "{before}");
    let planned = fixture.prune_everything(&["--dry-run"]);
    assert_eq!(planned["removed"]["files"], before.lines().count() - 1);
    assert_eq!(planned["kept"]["files"], 1);
    assert_eq!(fixture.git_snapshots(), before);
    assert_eq!(fixture.prune_everything(&[]), planned);
    // The changes of the branch are compared with the first one.
    let left = fixture.git_snapshots();
    assert!(left.lines().count() == 1 && left.ends_with("/1"), "{left}");
    let again = fixture.prune_everything(&[]);
    assert_eq!((&again["removed"]["files"], &again["kept"]["files"]), (&0.into(), &1.into()));
    fixture.home.nerve(&["prune", "--everything"]).assert_stderr(2, &["--older-than"]);
}

#[test]
fn git_snapshots_of_pruned_branches_are_planned_and_removed() {
    let fixture = Fixture::with_git().with_two_turns();
    let folder = fixture.ended_branch();
    fixture.end_node("me");
    let before = fixture.git_snapshots().lines().count();
    let planned = fixture.prune_everything(&["--dry-run"]);
    assert_eq!((&planned["removed"]["files"], &planned["kept"]["files"]), (&before.into(), &0.into()));
    assert!(folder.is_dir());
    assert_eq!(fixture.prune_everything(&[]), planned);
    assert_eq!((folder.exists(), fixture.git_snapshots()), (false, String::new()));
}

#[test]
fn git_snapshots_of_recordings_removed_earlier_are_pruned() {
    let fixture = Fixture::with_git().with_two_turns();
    fixture.end_node("me");
    let before = fixture.git_snapshots();
    fixture.prune(&[]);
    assert!(!fixture.recording.exists());
    assert_eq!(fixture.git_snapshots(), before);
    let planned = fixture.prune_everything(&["--dry-run"]);
    let count = before.lines().count();
    assert_eq!((&planned["removed"]["files"], &planned["kept"]["files"]), (&count.into(), &0.into()));
    assert_eq!(fixture.git_snapshots(), before);
    assert_eq!(fixture.prune_everything(&[]), planned);
    assert_eq!(fixture.git_snapshots(), "");
    let again = fixture.prune_everything(&[]);
    assert_eq!((&again["removed"]["files"], &again["kept"]["files"]), (&0.into(), &0.into()));
}

#[test]
fn unsaved_work_is_kept_unless_forced() {
    let fixture = Fixture::with_git().with_two_turns();
    let (changed, untracked, committed) =
        (fixture.ended_branch(), fixture.ended_branch(), fixture.ended_branch());
    put(&changed, "file", "mine\n");
    put(&untracked, "more", "mine\n");
    git(&fixture.home, &committed, &["commit", "--quiet", "--all", "--message", "second"]);
    git(&fixture.home, &committed, &["clean", "--quiet", "--force", "-d"]);
    let lost = fixture.ended_branch();
    git(&fixture.home, &lost, &["checkout", "--quiet", "--detach"]);
    git(&fixture.home, &lost, &["commit", "--quiet", "--all", "--message", "on no branch"]);
    let used = PathBuf::from(fixture.branch_json(&["RECALL", "--at", "one"])["cwd"].as_str().unwrap());
    fixture.end_node("me");
    let done = fixture.prune(&[]);
    for (folder, why) in [
        (&changed, "file is neither committed nor as it was restored"),
        (&untracked, "more is neither committed nor as it was restored"),
        (&lost, "1 commits are on no branch"),
    ] {
        assert!(done.stdout.contains(&format!("branch {}  kept: {why}", folder.display())), "{done:?}");
        assert!(folder.is_dir());
    }
    assert!(done.stderr.contains("--force"), "{done:?}");
    let on = "nerve/";
    assert!(
        done.stdout.contains(&format!("branch {}  removed; branch '{on}", committed.display())),
        "{done:?}"
    );
    assert!(!committed.exists() && fixture.git_branches().lines().count() == 5, "{}", fixture.git_branches());
    assert!(used.is_dir() && !done.stdout.contains(used.to_str().unwrap()), "a node works in it: {done:?}");
    let done = fixture.prune(&["--force"]);
    assert_eq!(done.stdout.matches("  removed").count(), 3, "{done:?}");
    assert!(used.is_dir() && !changed.exists() && !untracked.exists() && !lost.exists());
    assert_eq!(
        fixture.git_branches().lines().count(),
        2,
        "of the node, and with a commit: {}",
        fixture.git_branches()
    );
}

#[test]
fn copy_is_compared_with_its_snapshot() {
    let fixture = Fixture::new().with_two_turns();
    let (same, other, more) = (fixture.ended_branch(), fixture.ended_branch(), fixture.ended_branch());
    put(&other, "file", "ONE\n");
    put(&more, "new/more", "");
    fixture.end_node("me");
    let done = fixture.prune(&[]);
    assert!(done.stdout.contains(&format!("branch {}  removed", same.display())), "{done:?}");
    let name = |folder: &Path, file: &str| {
        format!("kept: {} was changed since it was restored", folder.join(file).display())
    };
    assert!(
        done.stdout.contains(&name(&other, "file")) && done.stdout.contains(&name(&more, "new/more")),
        "{done:?}"
    );
    assert!(!same.exists() && other.is_dir() && more.is_dir());
    // Without notes, changes to a folder are unknown.
    fs::remove_file(note_file(&other)).unwrap();
    let done = fixture.prune(&[]);
    assert!(done.stdout.contains("its changes are unknown"), "{done:?}");
    fixture.prune(&["--force"]);
    assert!(!other.exists() && !more.exists());
}

#[test]
fn prune_branches_keeps_folders_of_restartable_nodes() {
    let fixture = Fixture::with_git().with_two_turns();
    let folder = fixture.ended_branch();
    let used = PathBuf::from(fixture.branch_json(&["RECALL", "--at", "one"])["cwd"].as_str().unwrap());
    fixture.home.ok(&["server", "stop"]);
    let young = fixture.home.ok(&["recordings", "prune", "--branches", "--force"]);
    assert!(
        young.contains(&format!("{}  kept: it was created or changed less than", folder.display())),
        "{young}"
    );
    fixture.backdate_folders();
    let done = fixture.home.ok(&["recordings", "prune", "--branches"]);
    assert!(done.contains(&format!("branch {}  removed", folder.display())), "{done}");
    assert!(done.contains(&format!("{}  kept: used by node 'me-branch-2'", used.display())), "{done}");
    assert!(!folder.exists() && used.is_dir() && fixture.recording.is_file());
}

#[test]
fn changes_hidden_from_git_status_keep_a_folder() {
    let fixture = Fixture::with_git().with_two_turns();
    let (ignored, inner, hidden, staged) =
        (fixture.ended_branch(), fixture.ended_branch(), fixture.ended_branch(), fixture.ended_branch());
    put(&fixture.folder(), ".git/info/exclude", ".env\nlib/\n");
    put(&ignored, ".env", "KEY=1\n");
    fs::create_dir(inner.join("lib")).unwrap();
    git(&fixture.home, &inner.join("lib"), &["init", "--quiet"]);
    git(&fixture.home, &hidden, &["update-index", "--assume-unchanged", "file"]);
    git(&fixture.home, &staged, &["add", "file"]);
    fixture.end_node("me");
    let done = fixture.prune(&[]);
    for (folder, why) in [
        (&ignored, "ignored files exist only here: .env"),
        (&inner, "contains a nested repository: lib"),
        (&hidden, "git ignores changes to file"),
        (&staged, "file is staged"),
    ] {
        assert!(done.stdout.contains(&format!("branch {}  kept: {why}", folder.display())), "{done:?}");
        assert!(folder.is_dir());
    }
    assert_eq!(fixture.prune(&["--force"]).stdout.matches("  removed").count(), 4);
}

#[test]
fn folders_with_unknown_users_are_kept() {
    let fixture = Fixture::with_git().with_two_turns();
    let folder = fixture.ended_branch();
    fixture.end_node("me");
    fixture.home.ok(&["server", "stop"]);
    let sessions = fixture.home.hermetic.nerve_home().join("sessions.json");
    fs::write(&sessions, "{").unwrap();
    put(&fixture.branches(), "conversations/one.json", "{}");
    for more in [&["--branches"][..], &["--dry-run"], &["--force"]] {
        let done = fixture.prune(more);
        assert!(done.stdout.contains("kept: its users are unknown"), "{done:?}");
    }
    let listed = fixture.home.nerve(&["recordings", "branches"]);
    assert!(listed.stderr.contains("restartable nodes are unknown"), "{listed:?}");
    assert_eq!(fs::read_to_string(&sessions).unwrap(), "{", "it is not moved away");
    assert!(folder.is_dir() && fixture.branches().join("conversations/one.json").is_file());
    fs::remove_file(&sessions).unwrap();
    fixture.prune(&["--branches"]);
    assert!(!folder.exists() && !fixture.branches().join("conversations/one.json").exists());
}
