//! Snapshots of git work trees. The tests use git itself to check that nothing else changed.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use nerve_record::files::{
    FileStore, FilesError, GitProvider, Provider, RestoreDir, RestoreResult, SnapshotRequest, choose,
    find_provider, remove_from_git,
};
use nerve_record::snapshots::FilesRef;

use crate::{Fixture, MEGABYTE, REQUEST, key, listing};

/// Runs git without user settings.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", dir);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Me").env(format!("GIT_{role}_EMAIL"), "me@example.org");
    }
    let output =
        command.current_dir(dir).args(["-c", "protocol.file.allow=always"]).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "git {args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Creates a repository with settings that override the user's.
fn repository() -> Fixture {
    let fixture = Fixture::new();
    git(&fixture.work(), &["init", "--quiet", "--initial-branch=main"]);
    git(&fixture.work(), &["config", "core.excludesFile", "/dev/null"]);
    git(&fixture.work(), &["config", "core.autocrlf", "false"]);
    fixture
}

/// Creates a repository with a commit of three files.
fn committed() -> Fixture {
    let fixture = repository();
    fixture.put("kept", "kept\n");
    fixture.put("src/changed", "old\n");
    fixture.put("removed", "gone\n");
    fixture.put(".gitignore", "*.log\n/target/\n");
    git(&fixture.work(), &["add", "--all"]);
    git(&fixture.work(), &["commit", "--quiet", "--message", "first"]);
    fixture
}

fn provider(fixture: &Fixture) -> GitProvider {
    GitProvider::find(&fixture.work(), &fixture.store(), MEGABYTE).unwrap().unwrap()
}

/// Restores a snapshot as a work tree in a new directory.
fn restore_branch(fixture: &Fixture, id: u64, to: &Path, branch: &str) -> Result<RestoreResult, FilesError> {
    provider(fixture).restore_work_tree(&key(id), &RestoreDir { to, is_new: true, branch })
}

/// Takes, restores and lists a snapshot, and checks that nothing else in the repository changes.
fn round_trip(fixture: &Fixture) -> std::collections::BTreeMap<String, String> {
    let before = state(&fixture.work());
    let taken = provider(fixture).take(&key(1), &REQUEST).unwrap();
    assert_eq!(taken.left_out, Vec::<String>::new());
    assert_eq!(provider(fixture).restore(&key(1), &fixture.target()).unwrap(), Vec::<String>::new());
    assert_eq!(state(&fixture.work()), before);
    listing(&fixture.target())
}

/// Returns the user's state of a repository: index bytes, HEAD, references, stash, configuration, files.
fn state(work: &Path) -> Vec<String> {
    let index = git(work, &["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    let index = Path::new(index.trim_end());
    let bytes = fs::read(index).unwrap_or_default();
    let time = index.metadata().and_then(|meta| meta.modified()).ok();
    let refs = git(work, &["for-each-ref"]);
    let refs: Vec<&str> = refs.lines().filter(|line| !line.contains("refs/nerve/")).collect();
    vec![
        format!("{time:?} {}", bytes.escape_ascii()),
        refs.join("\n"),
        git(work, &["symbolic-ref", "HEAD"]),
        git(work, &["--no-optional-locks", "status", "--porcelain=v2", "--ignored", "--show-stash"]),
        git(work, &["config", "--list", "--local"]),
        format!("{:?}", listing(work)),
    ]
}

#[test]
fn tracked_and_untracked_files_are_restored() {
    let fixture = committed();
    fixture.put("src/changed", "new\n");
    fs::remove_file(fixture.work().join("removed")).unwrap();
    fixture.put("new/untracked", [0, 13, 10, 255]);
    fixture.put("ä\n\"quoted\"", "odd name");
    fixture.put("debug.log", "noise");
    fixture.put("target/out", "noise");
    fixture.put("run", "#!/bin/sh\n");
    fs::set_permissions(fixture.work().join("run"), Permissions::from_mode(0o755)).unwrap();
    symlink("kept", fixture.work().join("link")).unwrap();
    symlink("/nowhere", fixture.work().join("dangling")).unwrap();

    let mut expected = listing(&fixture.work());
    expected.remove("debug.log");
    expected.remove("target/out");
    assert_eq!(round_trip(&fixture), expected);
}

#[test]
fn commit_describes_snapshot_and_has_head_as_parent() {
    let fixture = committed();
    fixture.put("kept", "changed\n");
    let files = provider(&fixture).take(&key(7), &REQUEST).unwrap().files;
    assert_eq!((files.provider.as_str(), files.source.clone()), ("git", fixture.work()));
    assert_eq!(files.reference, "refs/nerve/snapshots/session-1/7");
    let show =
        |format: &str| git(&fixture.work(), &["log", "-1", &format!("--format={format}"), &files.reference]);
    assert_eq!(show("%an <%ae> %at %ct"), "nerve <nerve@localhost> 1766399400 1766399400\n");
    assert_eq!(show("%B"), "before the fix\n\nNerve-Session: session-1\nNerve-Snapshot: 7\n\n");
    assert_eq!(show("%P"), git(&fixture.work(), &["rev-parse", "HEAD"]));
    assert_eq!(git(&fixture.work(), &["branch", "--all"]), "* main\n");

    let odd = SnapshotRequest { label: Some("two\nlines\0and \x1b[31m"), ..REQUEST };
    provider(&fixture).take(&key(8), &odd).unwrap();
    provider(&fixture).take(&key(9), &SnapshotRequest { label: None, ..REQUEST }).unwrap();
    let title = |id: u32| {
        git(&fixture.work(), &["log", "-1", "--format=%s", &format!("refs/nerve/snapshots/session-1/{id}")])
    };
    assert_eq!(title(8), "twolinesand [31m\n");
    assert_eq!(title(9), "Snapshot 9\n");
    assert_eq!(provider(&fixture).keys().unwrap(), [key(7), key(8), key(9)]);
    let (found, found_key) = find_provider(&files, &fixture.store()).unwrap();
    found.restore(&found_key, &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target())["kept"], r"changed\n");
}

#[test]
fn snapshot_is_removed_only_from_a_repository() {
    let fixture = committed();
    let files = provider(&fixture).take(&key(1), &REQUEST).unwrap().files;
    let other = tempfile::tempdir().unwrap();
    for source in [other.path().to_path_buf(), other.path().join("gone")] {
        let files = FilesRef { source, ..files.clone() };
        let error = remove_from_git(&files, &fixture.store()).unwrap_err();
        assert!(matches!(error, FilesError::NoWorkTree { .. }), "{error}");
    }
    remove_from_git(&files, &fixture.store()).unwrap();
    assert!(provider(&fixture).keys().unwrap().is_empty());
}

#[test]
fn index_is_unchanged_and_files_are_kept() {
    let fixture = committed();
    fixture.put("kept", "staged\n");
    fixture.put("staged-only", "s\n");
    git(&fixture.work(), &["add", "kept", "staged-only"]);
    git(&fixture.work(), &["rm", "--quiet", "--cached", "removed"]);
    fixture.put("kept", "in the work tree\n");
    fixture.put("later", "l\n");
    git(&fixture.work(), &["add", "--intent-to-add", "later"]);
    let restored = round_trip(&fixture);
    assert_eq!(restored, listing(&fixture.work()));
    assert_eq!(restored["kept"], r"in the work tree\n");
}

#[test]
fn stash_and_merge_conflict_are_unchanged() {
    let fixture = committed();
    fixture.put("kept", "stashed\n");
    git(&fixture.work(), &["stash", "--quiet"]);
    git(&fixture.work(), &["checkout", "--quiet", "-b", "other"]);
    fixture.put("kept", "theirs\n");
    git(&fixture.work(), &["commit", "--quiet", "--all", "--message", "theirs"]);
    git(&fixture.work(), &["checkout", "--quiet", "main"]);
    fixture.put("kept", "ours\n");
    git(&fixture.work(), &["commit", "--quiet", "--all", "--message", "ours"]);
    // Exits with 1 because of the conflict.
    git(&fixture.work(), &["-c", "alias.try=!git merge --quiet other || true", "try"]);
    assert!(git(&fixture.work(), &["status", "--porcelain"]).contains("UU kept"));
    assert!(round_trip(&fixture)["kept"].contains("<<<<<<<"));
}

#[test]
fn subfolder_selects_whole_work_tree() {
    let fixture = committed();
    fixture.put("src/deep/new", "n");
    let inside = choose(&fixture.work().join("src/deep"), &fixture.store(), MEGABYTE).unwrap();
    inside.take(&key(1), &REQUEST).unwrap();
    inside.restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target()), listing(&fixture.work()));
}

#[test]
fn repository_without_commits_works() {
    let fixture = repository();
    fixture.put("first", "1");
    assert_eq!(round_trip(&fixture), listing(&fixture.work()));
    let parents = git(&fixture.work(), &["log", "-1", "--format=%P", "refs/nerve/snapshots/session-1/1"]);
    assert_eq!(parents, "\n");
}

#[test]
fn empty_repository_works() {
    assert!(round_trip(&repository()).is_empty());
}

#[test]
fn linked_work_tree_has_own_files() {
    let fixture = committed();
    let linked = fixture.root.path().canonicalize().unwrap().join("linked");
    git(&fixture.work(), &["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "side"]);
    fs::write(linked.join("kept"), "in the linked one\n").unwrap();
    let before = (state(&linked), state(&fixture.work()));
    let provider = GitProvider::find(&linked, &fixture.store(), MEGABYTE).unwrap().unwrap();
    provider.take(&key(1), &REQUEST).unwrap();
    provider.restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target())["kept"], r"in the linked one\n");
    assert_eq!((state(&linked), state(&fixture.work())), before);
}

#[test]
fn hooks_filters_and_signing_are_disabled() {
    let fixture = committed();
    let marker = fixture.root.path().join("ran");
    let script = format!("#!/bin/sh\necho \"$0\" >> '{}'\nexit 1\n", marker.display());
    let hooks = fixture.work().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let names = [
        "post-index-change",
        "reference-transaction",
        "pre-commit",
        "commit-msg",
        "post-checkout",
        "monitor",
    ];
    for name in names {
        fs::write(hooks.join(name), &script).unwrap();
        fs::set_permissions(hooks.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let set = |name: &str, value: &str| git(&fixture.work(), &["config", name, value]);
    set("core.fsmonitor", ".git/hooks/monitor");
    set("commit.gpgSign", "true");
    set("gpg.program", ".git/hooks/monitor");
    set("user.useConfigOnly", "true");
    set("core.safecrlf", "true");
    set("core.autocrlf", "input");
    fixture.put("kept", "changed\r\n");
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    provider(&fixture).restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(fs::read_to_string(&marker).ok(), None);
    assert_eq!(listing(&fixture.target())["kept"], r"changed\r\n");
}

#[test]
fn converted_line_ends_are_restored() {
    let fixture = committed();
    git(&fixture.work(), &["config", "core.autocrlf", "true"]);
    fs::remove_file(fixture.work().join("kept")).unwrap();
    git(&fixture.work(), &["checkout", "--", "kept"]);
    fixture.put("untracked", "a\r\nb\r\n");
    let restored = round_trip(&fixture);
    assert_eq!(restored["kept"], r"kept\r\n");
    assert_eq!(restored["untracked"], r"a\r\nb\r\n");
}

#[test]
fn assume_unchanged_files_are_kept() {
    let fixture = committed();
    git(&fixture.work(), &["update-index", "--assume-unchanged", "kept"]);
    fixture.put("kept", "changed all the same\n");
    assert_eq!(round_trip(&fixture), listing(&fixture.work()));
}

#[test]
fn sparse_work_tree_is_kept_completely() {
    let fixture = committed();
    fixture.put("other/file", "o\n");
    git(&fixture.work(), &["add", "--all"]);
    git(&fixture.work(), &["commit", "--quiet", "--message", "second"]);
    git(&fixture.work(), &["sparse-checkout", "set", "src"]);
    assert!(!fixture.work().join("other").exists());
    fixture.put("src/changed", "new\n");
    let restored = round_trip(&fixture);
    assert_eq!((&*restored["src/changed"], &*restored["other/file"]), (r"new\n", r"o\n"));
}

#[test]
fn racy_change_is_detected() {
    let fixture = committed();
    let (file, index) = (fixture.work().join("kept"), fixture.work().join(".git/index"));
    // A past time, different from now even for a git with a resolution of one second.
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let date = |path: &Path| File::options().write(true).open(path).unwrap().set_modified(moment).unwrap();
    // Only the content differs: same size, same times, and the index is no younger than the file.
    git(&fixture.work(), &["config", "core.trustctime", "false"]);
    date(&file);
    git(&fixture.work(), &["update-index", "--refresh"]);
    fixture.put("kept", "KEPT\n");
    date(&file);
    date(&index);
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    provider(&fixture).restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target())["kept"], r"KEPT\n");
}

#[test]
fn nested_repositories_keep_commit_and_are_reported() {
    let fixture = committed();
    let inner = committed();
    let url = inner.work();
    git(&fixture.work(), &["submodule", "--quiet", "add", url.to_str().unwrap(), "module"]);
    git(&fixture.work(), &["commit", "--quiet", "--message", "module"]);
    git(&fixture.work(), &["clone", "--quiet", url.to_str().unwrap(), "clone"]);
    git(&fixture.work(), &["init", "--quiet", "fresh"]);
    fixture.put("fresh/file", "f");
    fixture.put("other", "o");

    let taken = provider(&fixture).take(&key(1), &REQUEST).unwrap();
    assert_eq!(taken.left_out.len(), 2, "{taken:?}");
    assert!(taken.left_out.iter().any(|line| line.starts_with("clone: nested repository")), "{taken:?}");
    assert!(taken.left_out.iter().any(|line| line.contains("'fresh/'")), "{taken:?}");
    let tree = git(&fixture.work(), &["ls-tree", "refs/nerve/snapshots/session-1/1"]);
    let commit = git(&inner.work(), &["rev-parse", "HEAD"]);
    assert!(tree.contains(&format!("160000 commit {}\tmodule", commit.trim())), "{tree}");
    assert!(tree.contains("\tother"), "{tree}");
    provider(&fixture).restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target())["other"], "o");
    assert!(fixture.target().join("module").is_dir());
}

#[test]
fn oversized_untracked_files_are_rejected() {
    let fixture = committed();
    fixture.put("huge", vec![b'x'; 2 << 20]);
    let before = state(&fixture.work());
    let error = provider(&fixture).take(&key(1), &REQUEST).unwrap_err();
    assert!(matches!(error, FilesError::TooLarge { bytes: 2_097_152, limit: MEGABYTE, .. }), "{error:?}");
    assert_eq!(provider(&fixture).keys().unwrap(), []);
    assert_eq!(state(&fixture.work()), before);
    // Ignored files do not count.
    fixture.put("huge.log", vec![b'x'; 2 << 20]);
    fs::remove_file(fixture.work().join("huge")).unwrap();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
}

#[test]
fn oversized_changes_of_tracked_files_are_rejected() {
    let fixture = committed();
    let before = state(&fixture.work());
    fixture.put("kept", vec![b'x'; 2 << 20]);
    let error = provider(&fixture).take(&key(1), &REQUEST).unwrap_err();
    assert!(matches!(error, FilesError::TooLarge { bytes: 2_097_152, limit: MEGABYTE, .. }), "{error:?}");
    assert_eq!(provider(&fixture).keys().unwrap(), []);
    // A file that git has already counts nothing.
    git(&fixture.work(), &["add", "kept"]);
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    assert_ne!(state(&fixture.work()), before);
}

#[test]
fn file_in_conflict_counts_once() {
    let fixture = committed();
    git(&fixture.work(), &["checkout", "--quiet", "-b", "other"]);
    fixture.put("kept", "theirs\n");
    git(&fixture.work(), &["commit", "--quiet", "--all", "--message", "theirs"]);
    git(&fixture.work(), &["checkout", "--quiet", "main"]);
    fixture.put("kept", vec![b'x'; 400_000]);
    git(&fixture.work(), &["commit", "--quiet", "--all", "--message", "ours"]);
    git(&fixture.work(), &["-c", "alias.try=!git merge --quiet other || true", "try"]);
    let versions = git(&fixture.work(), &["ls-files", "--modified"]);
    assert_eq!(versions, "kept\n".repeat(3), "git lists all versions");
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
}

#[test]
fn snapshot_is_taken_once_and_restored_only_into_empty_dir() {
    let fixture = committed();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    let first = git(&fixture.work(), &["rev-parse", "refs/nerve/snapshots/session-1/1"]);
    fixture.put("kept", "changed\n");
    assert!(matches!(provider(&fixture).take(&key(1), &REQUEST), Err(FilesError::Exists { .. })));
    assert_eq!(git(&fixture.work(), &["rev-parse", "refs/nerve/snapshots/session-1/1"]), first);
    assert!(matches!(
        provider(&fixture).restore(&key(2), &fixture.target()),
        Err(FilesError::NotFound { .. })
    ));
    assert!(!fixture.target().exists());
    let into_itself = provider(&fixture).restore(&key(1), &fixture.work());
    assert!(matches!(into_itself, Err(FilesError::NotEmpty { .. })));
    assert_eq!(listing(&fixture.work())["kept"], r"changed\n");
}

#[test]
fn ignored_directory_is_copied() {
    let fixture = committed();
    fixture.put("target/scratch/file", "f");
    let dir = fixture.work().join("target/scratch");
    let provider = choose(&dir, &fixture.store(), MEGABYTE).unwrap();
    let taken = provider.take(&key(1), &REQUEST).unwrap();
    assert_eq!(taken.files.source, dir);
    provider.restore(&key(1), &fixture.target()).unwrap();
    assert_eq!(listing(&fixture.target())["file"], "f");
}

#[test]
fn store_inside_work_tree_is_excluded() {
    let fixture = committed();
    let store = FileStore::new(fixture.work().join("state [x]/snapshots"));
    let provider = GitProvider::find(&fixture.work(), &store, MEGABYTE).unwrap().unwrap();
    fixture.put("state [x]/other", "o");
    provider.take(&key(1), &REQUEST).unwrap();
    provider.restore(&key(1), &fixture.target()).unwrap();
    let restored = listing(&fixture.target());
    assert!(!restored.keys().any(|name| name.contains("snapshots")), "{restored:?}");
    assert!(restored.contains_key("state [x]/other"), "{restored:?}");
}

#[test]
fn refused_repository_is_an_error() {
    let fixture = committed();
    fs::write(fixture.work().join(".git/config"), "[core\nnonsense").unwrap();
    let error = choose(&fixture.work(), &fixture.store(), MEGABYTE).err().unwrap();
    assert!(matches!(error, FilesError::Git { .. }), "{error:?}");
    assert!(error.to_string().starts_with("git cannot look for a work tree: "), "{error}");
}

#[test]
fn restored_work_tree_is_on_its_own_branch() {
    let fixture = committed();
    fixture.put("src/changed", "new\n");
    fixture.put("added/untracked", "there\n");
    fs::remove_file(fixture.work().join("removed")).unwrap();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    fixture.put("src/changed", "later\n");
    let before = state(&fixture.work());
    let restored = restore_branch(&fixture, 1, &fixture.target(), "nerve/one").unwrap();
    assert_eq!((restored.branch.as_deref(), restored.left_out), (Some("nerve/one"), Vec::new()));
    let target = fixture.target();
    assert_eq!(git(&target, &["status", "--porcelain"]), " D removed\n M src/changed\n?? added/\n");
    assert_eq!(git(&target, &["log", "--format=%s"]), "first\n");
    assert_eq!(git(&target, &["branch", "--show-current"]), "nerve/one\n");
    assert_eq!(listing(&target)["src/changed"], "new\\n");
    assert!(provider(&fixture).has_branch("nerve/one").unwrap());

    provider(&fixture).undo_restore(&target, "nerve/one").unwrap();
    assert_eq!((target.exists(), state(&fixture.work())), (false, before), "directory or branch left");
    assert_eq!(git(&fixture.work(), &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn existing_branch_is_not_reused() {
    let fixture = committed();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    git(&fixture.work(), &["branch", "nerve/one"]);
    let before = state(&fixture.work());
    let error = restore_branch(&fixture, 1, &fixture.target(), "nerve/one").unwrap_err();
    assert!(matches!(&error, FilesError::BranchExists { branch } if branch == "nerve/one"), "{error}");
    assert_eq!((state(&fixture.work()), fixture.target().exists()), (before, false));
    let missing = restore_branch(&fixture, 2, &fixture.target(), "nerve/two").unwrap_err();
    assert!(matches!(missing, FilesError::NotFound { .. }), "{missing}");
}

#[test]
fn concurrent_restores_have_one_winner() {
    let fixture = committed();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    let race = |to: &(dyn Fn(u64) -> PathBuf + Sync), branch: &(dyn Fn(u64) -> String + Sync)| {
        let (fixture, start) = (&fixture, &std::sync::Barrier::new(4));
        std::thread::scope(|scope| {
            let one = |n| {
                scope.spawn(move || {
                    start.wait();
                    (to(n), restore_branch(fixture, 1, &to(n), &branch(n)))
                })
            };
            let racing: Vec<_> = (0..4).map(one).collect();
            racing.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        })
    };
    for round in 0..5 {
        let folder = |n| fixture.target().join(format!("{round}-{n}"));
        // First the same directory, then the same branch in separate directories.
        let same_path = race(&|_| folder(9), &|n| format!("nerve/{round}-{n}"));
        let same_branch = race(&folder, &|_| format!("nerve/{round}-9"));
        let lost = |error: &FilesError, by_path: bool| match error {
            FilesError::PathExists { .. } => by_path,
            FilesError::BranchExists { .. } => !by_path,
            _ => false,
        };
        for (raced, by_path) in [(same_path, true), (same_branch, false)] {
            let losers = raced.iter().filter_map(|(to, made)| made.as_ref().err().map(|error| (to, error)));
            let losers: Vec<_> = losers.collect();
            assert!(losers.len() == 3 && losers.iter().all(|(_, error)| lost(error, by_path)), "{raced:?}");
            assert!(by_path || losers.iter().all(|(to, _)| !to.exists()), "{raced:?}");
            let (to, _) = raced.iter().find(|(_, made)| made.is_ok()).unwrap();
            assert_eq!((listing(to)["src/changed"].as_str(), to.join(".git").exists()), ("old\\n", true));
            assert_eq!(git(to, &["status", "--porcelain"]), "");
        }
    }
    assert_eq!(git(&fixture.work(), &["branch", "--list", "nerve/*"]).lines().count(), 10);
    assert_eq!(git(&fixture.work(), &["worktree", "list"]).lines().count(), 11);
}

#[test]
fn failed_restore_leaves_no_directory_or_branch() {
    let fixture = committed();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    let before = state(&fixture.work());
    let failed = |blocked: &Path| {
        fs::write(blocked, "in the way").unwrap();
        let error = restore_branch(&fixture, 1, &fixture.target(), "nerve/one").unwrap_err();
        fs::remove_file(blocked).unwrap();
        assert!(matches!(error, FilesError::Git { .. }), "{error}");
        assert_eq!((state(&fixture.work()), fixture.target().exists()), (before.clone(), false), "{error}");
    };
    // Neither a branch nor a work tree can be created.
    failed(&fixture.work().join(".git/refs/heads/nerve"));
    failed(&fixture.work().join(".git/worktrees"));
    assert!(!provider(&fixture).has_branch("nerve/one").unwrap());
}

#[test]
fn concurrent_restores_into_empty_dir_have_one_winner() {
    let fixture = committed();
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    for round in 0..10 {
        let to = fixture.target().join(round.to_string());
        fs::create_dir_all(&to).unwrap();
        let start = std::sync::Barrier::new(4);
        let made = std::thread::scope(|scope| {
            let one = |n| {
                let (fixture, to, start) = (&fixture, &to, &start);
                scope.spawn(move || {
                    let branch = format!("nerve/{round}-{n}");
                    start.wait();
                    provider(fixture)
                        .restore_work_tree(&key(1), &RestoreDir { to, is_new: false, branch: &branch })
                })
            };
            let racing: Vec<_> = (0..4).map(one).collect();
            racing.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        assert_eq!((listing(&to)["src/changed"].as_str(), to.join(".git").exists()), ("old\\n", true));
    }
    assert_eq!(git(&fixture.work(), &["branch", "--list", "nerve/*"]).lines().count(), 10);
}

#[test]
fn snapshot_before_first_commit_is_restored_without_git() {
    let fixture = repository();
    fixture.put("file", "there\n");
    provider(&fixture).take(&key(1), &REQUEST).unwrap();
    let restored = restore_branch(&fixture, 1, &fixture.target(), "nerve/one").unwrap();
    assert_eq!(restored.branch, None);
    assert_eq!(listing(&fixture.target())["file"], "there\\n");
    provider(&fixture).undo_restore(&fixture.target(), "nerve/one").unwrap();
    assert!(!fixture.target().exists());
}
