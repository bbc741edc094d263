//! Branches of sessions in every sort of directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_term::event::Size;
use nerve_testkit::skip;

use super::{Stage, git, put, text};
use crate::harness::Home;
use crate::tty::Seat;

fn commit_all(home: &Home, folder: &Path) {
    git(home, folder, &["init", "--quiet", "--initial-branch=main"]);
    git(home, folder, &["add", "--all"]);
    git(home, folder, &["commit", "--quiet", "--message", "first"]);
}

impl Stage {
    /// With one turn and a snapshot, working in `folder`.
    fn told_one(self) -> Stage {
        self.say("one");
        self.snapshot(&["--label", "one"]);
        self
    }

    /// The folder of a branch from there.
    fn recalls(&self) -> PathBuf {
        let done = self.branch(&["RECALL", "--at", "one"]);
        assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
        self.home.fact("me-branch", "cwd").into()
    }
}

#[test]
fn subfolder_branch_copies_the_whole_repository() {
    let stage = Stage::working_in(|home, folder| {
        let top = folder.parent().unwrap();
        put(top, "beside/file", "beside\n");
        put(top, ".gitignore", "*.log\nproject/.env\n");
        commit_all(home, top);
        put(folder, "new", "untracked\n");
        put(folder, "run.log", "ignored\n");
        put(folder, ".env", "SECRET=1\n");
    });
    let stage = stage.told_one();
    // Also when the folder is gone since.
    fs::remove_dir_all(stage.folder()).unwrap();
    let cwd = stage.recalls();
    assert_eq!(cwd.file_name().unwrap(), "project");
    assert_eq!(
        (text(cwd.join("file")), text(cwd.join("../beside/file"))),
        ("old\n".into(), "beside\n".into())
    );
    assert_eq!(text(cwd.join("new")), "untracked\n");
    assert!(!cwd.join("run.log").exists() && !cwd.join(".env").exists(), "what is ignored is not kept");
    assert_eq!(git(&stage.home, &cwd, &["status", "--porcelain", "--", "."]), "?? project/new");
}

#[test]
fn worktree_branch_becomes_another_worktree() {
    let stage = Stage::working_in(|home, folder| {
        let main = folder.with_file_name("main");
        fs::rename(folder, &main).unwrap();
        commit_all(home, &main);
        git(home, &main, &["worktree", "add", "--quiet", "-b", "side", folder.to_str().unwrap()]);
        put(folder, "file", "side\n");
    });
    let stage = stage.told_one();
    let cwd = stage.recalls();
    assert_eq!(text(cwd.join("file")), "side\n");
    let trees = git(&stage.home, &stage.folder().with_file_name("main"), &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 3, "{trees}");
    assert_eq!(git(&stage.home, &stage.folder(), &["branch", "--show-current"]), "side");
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
    let stage = Stage::working_in(library).told_one();
    let done = stage.branch(&["RECALL", "--at", "one"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "You said: one\n"), "{done:?}");
    assert!(done.stderr.contains("not restored: lib: a repository of its own"), "{done:?}");
    assert!(done.stderr.contains("git submodule update --init"), "{done:?}");
    let cwd = PathBuf::from(stage.home.fact("me-branch", "cwd"));
    assert_eq!((text(cwd.join("file")), fs::read_dir(cwd.join("lib")).unwrap().count()), ("old\n".into(), 0));
    // Nothing was done there: it can go.
    stage.end("me-branch");
    stage.age();
    let done = stage.home.ok(&["recordings", "prune", "--branches"]);
    assert!(done.contains("  removed"), "{done}");

    let stage = Stage::working_in(|home, folder| {
        let top = folder.with_file_name("top");
        fs::rename(folder, &top).unwrap();
        library(home, &top);
        std::os::unix::fs::symlink(top.join("lib"), folder).unwrap();
    });
    let stage = stage.told_one();
    assert_eq!(text(stage.recalls().join("lib")), "of the library\n");
}

#[test]
fn repository_without_commits_is_copied() {
    let stage = Stage::working_in(|home, folder| {
        git(home, folder, &["init", "--quiet", "--initial-branch=main"]);
    });
    let stage = stage.told_one();
    let cwd = stage.recalls();
    assert!(cwd.join("file").is_file() && !cwd.join(".git").exists());
    stage.end("me-branch");
    put(&cwd, "file", "new\n");
    stage.age();
    let done = stage.home.ok(&["recordings", "prune", "--branches"]);
    assert!(done.contains("file is neither committed nor as it was restored"), "{done}");
    put(&cwd, "file", "old\n");
    stage.age();
    assert!(stage.home.ok(&["recordings", "prune", "--branches"]).contains("  removed"));
}

#[test]
fn full_disk_is_reported_and_leaves_nothing() {
    let big = |_: &Home, folder: &Path| put(folder, "big", &"x".repeat(4 << 20));
    let with_git = |home: &Home, folder: &Path| {
        big(home, folder);
        commit_all(home, folder);
    };
    for stage in [Stage::working_in(big), Stage::working_in(with_git)] {
        let stage = stage.told_one();
        fs::create_dir_all(stage.branches()).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"])
            .arg(stage.branches())
            .output()
            .unwrap();
        if !mounted.status.success() {
            return skip("branch_full_disk", &String::from_utf8_lossy(&mounted.stderr));
        }
        let done = stage.branch(&["RECALL", "--at", "one"]);
        let left = fs::read_dir(stage.branches()).unwrap().count();
        Command::new("umount").arg("-l").arg(stage.branches()).status().unwrap();
        assert_eq!(left, 0, "{done:?}");
        let what =
            if stage.folder().join(".git").exists() { "has room for" } else { "No space left on device" };
        done.says(1, &[what, "--to"]);
        assert_eq!(stage.nodes().as_array().map(Vec::len), Some(1));
        if stage.folder().join(".git").exists() {
            assert_eq!(git(&stage.home, &stage.folder(), &["branch", "--list", "nerve/*"]), "");
            let trees = git(&stage.home, &stage.folder(), &["worktree", "list"]);
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
    // The agent that is recorded has something beside it that writes without an end, once it may. A branch of it has not.
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
    let stage = Stage { home, recording }.told_one();
    let mut seat = Seat::new(&stage.home, Size::new(120, 20), &["attach", "me"]);
    seat.sees("one");
    fs::write(&flood, "").unwrap();
    seat.sees("flooding\nflooding\nflooding");
    // The prefix, and the entry that is opened at the latest snapshot.
    seat.types("\x1b[1;6A");
    seat.sees("branch from");
    seat.types("beside the flood");
    seat.sees("beside the flood");
    seat.types("\r");
    seat.sees("has it now");
    assert!(nerve_testkit::wait_until(crate::tty::LIMIT, || stage
        .home
        .read("me-branch")
        .contains("beside the flood")));
    seat.types("\x1b\x1b\x1b[93;5ud");
    assert_eq!(seat.left(), Some(0));
}
