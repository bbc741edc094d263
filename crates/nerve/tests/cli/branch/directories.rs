//! Branches of sessions in all kinds of directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_testkit::skip;
use nerve_types::Size;

use super::{Fixture, git, put, text};
use crate::harness::Home;
use crate::tty::Tty;

fn commit_all(home: &Home, folder: &Path) {
    git(home, folder, &["init", "--quiet", "--initial-branch=main"]);
    git(home, folder, &["add", "--all"]);
    git(home, folder, &["commit", "--quiet", "--message", "first"]);
}

impl Fixture {
    /// Runs one turn and takes a snapshot.
    fn with_one_turn(self) -> Fixture {
        self.say("one");
        self.snapshot(&["--label", "one"]);
        self
    }

    /// Branches from that snapshot and returns the branch's folder.
    fn branch_folder(&self) -> PathBuf {
        let done = self.branch(&["RECALL", "--at", "one"]);
        assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
        self.home.metadata("me-branch", "cwd").into()
    }
}

#[test]
fn subfolder_branch_copies_the_whole_repository() {
    let fixture = Fixture::with_folder(|home, folder| {
        let top = folder.parent().unwrap();
        put(top, "sibling/file", "sibling\n");
        put(top, ".gitignore", "*.log\nproject/.env\n");
        commit_all(home, top);
        put(folder, "new", "untracked\n");
        put(folder, "run.log", "ignored\n");
        put(folder, ".env", "SECRET=1\n");
    });
    let fixture = fixture.with_one_turn();
    // The branch works even if the recorded folder is gone.
    fs::remove_dir_all(fixture.folder()).unwrap();
    let cwd = fixture.branch_folder();
    assert_eq!(cwd.file_name().unwrap(), "project");
    assert_eq!(
        (text(cwd.join("file")), text(cwd.join("../sibling/file"))),
        ("old\n".into(), "sibling\n".into())
    );
    assert_eq!(text(cwd.join("new")), "untracked\n");
    assert!(!cwd.join("run.log").exists() && !cwd.join(".env").exists(), "what is ignored is not kept");
    assert_eq!(git(&fixture.home, &cwd, &["status", "--porcelain", "--", "."]), "?? project/new");
}

#[test]
fn worktree_branch_becomes_another_worktree() {
    let fixture = Fixture::with_folder(|home, folder| {
        let main = folder.with_file_name("main");
        fs::rename(folder, &main).unwrap();
        commit_all(home, &main);
        git(home, &main, &["worktree", "add", "--quiet", "-b", "side", folder.to_str().unwrap()]);
        put(folder, "file", "side\n");
    });
    let fixture = fixture.with_one_turn();
    let cwd = fixture.branch_folder();
    assert_eq!(text(cwd.join("file")), "side\n");
    let trees = git(&fixture.home, &fixture.folder().with_file_name("main"), &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 3, "{trees}");
    assert_eq!(git(&fixture.home, &fixture.folder(), &["branch", "--show-current"]), "side");
}

#[test]
fn submodules_are_reported_and_branch_on_their_own() {
    let library = |home: &Home, folder: &Path| {
        let library = folder.with_file_name("library");
        put(&library, "lib", "of the library\n");
        commit_all(home, &library);
        commit_all(home, folder);
        let add = [
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "lib",
        ];
        git(home, folder, &add);
        git(home, folder, &["commit", "--quiet", "--message", "with a library"]);
    };
    let fixture = Fixture::with_folder(library).with_one_turn();
    let done = fixture.branch(&["RECALL", "--at", "one"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
    assert!(done.stderr.contains("not restored: lib: nested repository"), "{done:?}");
    assert!(done.stderr.contains("git submodule update --init"), "{done:?}");
    let cwd = PathBuf::from(fixture.home.metadata("me-branch", "cwd"));
    assert_eq!((text(cwd.join("file")), fs::read_dir(cwd.join("lib")).unwrap().count()), ("old\n".into(), 0));
    // The branch has no changes, so it can be pruned.
    fixture.end_node("me-branch");
    fixture.backdate_folders();
    let done = fixture.home.ok(&["recordings", "prune", "--branches"]);
    assert!(done.contains("  removed"), "{done}");

    let fixture = Fixture::with_folder(|home, folder| {
        let top = folder.with_file_name("top");
        fs::rename(folder, &top).unwrap();
        library(home, &top);
        std::os::unix::fs::symlink(top.join("lib"), folder).unwrap();
    });
    let fixture = fixture.with_one_turn();
    assert_eq!(text(fixture.branch_folder().join("lib")), "of the library\n");
}

#[test]
fn repository_without_commits_is_copied() {
    let fixture = Fixture::with_folder(|home, folder| {
        git(home, folder, &["init", "--quiet", "--initial-branch=main"]);
    });
    let fixture = fixture.with_one_turn();
    let cwd = fixture.branch_folder();
    assert!(cwd.join("file").is_file() && !cwd.join(".git").exists());
    fixture.end_node("me-branch");
    put(&cwd, "file", "new\n");
    fixture.backdate_folders();
    let done = fixture.home.ok(&["recordings", "prune", "--branches"]);
    assert!(done.contains("file is neither committed nor as it was restored"), "{done}");
    put(&cwd, "file", "old\n");
    fixture.backdate_folders();
    assert!(fixture.home.ok(&["recordings", "prune", "--branches"]).contains("  removed"));
}

#[test]
fn full_disk_is_reported_and_leaves_nothing() {
    let big = |_: &Home, folder: &Path| put(folder, "big", &"x".repeat(4 << 20));
    let with_git = |home: &Home, folder: &Path| {
        big(home, folder);
        commit_all(home, folder);
    };
    for fixture in [Fixture::with_folder(big), Fixture::with_folder(with_git)] {
        let fixture = fixture.with_one_turn();
        fs::create_dir_all(fixture.branches()).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"])
            .arg(fixture.branches())
            .output()
            .unwrap();
        if !mounted.status.success() {
            return skip("branch_full_disk", &String::from_utf8_lossy(&mounted.stderr));
        }
        let done = fixture.branch(&["RECALL", "--at", "one"]);
        let left = fs::read_dir(fixture.branches()).unwrap().count();
        Command::new("umount").arg("-l").arg(fixture.branches()).status().unwrap();
        assert_eq!(left, 0, "{done:?}");
        let what =
            if fixture.folder().join(".git").exists() { "has room for" } else { "No space left on device" };
        done.assert_stderr(1, &[what, "--to"]);
        assert_eq!(fixture.nodes().as_array().map(Vec::len), Some(1));
        if fixture.folder().join(".git").exists() {
            assert_eq!(git(&fixture.home, &fixture.folder(), &["branch", "--list", "nerve/*"]), "");
            let trees = git(&fixture.home, &fixture.folder(), &["worktree", "list"]);
            assert_eq!(trees.lines().count(), 1, "{trees}");
        }
    }
}

#[test]
fn output_flood_does_not_block_branching_or_keys() {
    let home = Home::new();
    let folder = home.hermetic.work().canonicalize().unwrap().join("project");
    put(&folder, "file", "old\n");
    let flood = home.hermetic.work().join("flood");
    let claude = super::agent(&home, "claude", "");
    // Once released, the recorded agent floods the terminal from a background process; its branches do not.
    let script = text(claude.clone().into()).replace(
        "exec",
        &format!(
            "case \"$*\" in *--resume*) ;; *) (until [ -e '{0}' ]; do read -t 1 x <> '{0}.wait'; done; exec yes $'flooding\\r') & ;; esac\nexec",
            flood.display()
        ),
    );
    let script = script.replace("#!/bin/sh", "#!/bin/bash");
    let pipe = Command::new("mkfifo").arg(home.hermetic.work().join("flood.wait")).status().unwrap();
    assert!(pipe.success());
    fs::write(&claude, script).unwrap();
    home.ok(&["server", "start"]);
    let cwd = folder.to_str().unwrap();
    home.ok(&["server", "node", "create", "me", "-c", &claude, "-b", "claude", "--cwd", cwd]);
    let recording = home.recording_of("me");
    let fixture = Fixture { home, recording }.with_one_turn();
    let mut tty = Tty::new(&fixture.home, Size::new(120, 20), &["attach", "me"]);
    tty.expect("one");
    fs::write(&flood, "").unwrap();
    tty.expect("flooding\nflooding\nflooding");
    // Opens the task entry at the latest snapshot.
    tty.send("\x1b[1;6A");
    tty.expect("branch from");
    tty.send("during the flood");
    tty.expect("during the flood");
    tty.send("\r");
    tty.expect("branched to node");
    assert!(nerve_testkit::wait_until(crate::tty::LIMIT, || fixture
        .home
        .read("me-branch")
        .contains("during the flood")));
    tty.send("\x1b\x1b\x1b[93;5ud");
    assert_eq!(tty.wait_for_exit(), Some(0));
}
