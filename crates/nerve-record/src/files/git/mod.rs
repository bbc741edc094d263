//! Snapshots of a git work tree: commits on no branch, under `refs/nerve/snapshots/<session>/<id>`.
//!
//! All operations use a separate index, so that the user's index, branch, stash and work tree do not change. A commit
//! contains what `git add --all` would add: tracked and untracked files without the ignored ones, with the repository's
//! own line-end rules and filters. Empty directories are omitted; of nested repositories only the commit ids are kept.

mod changes;
mod program;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use self::program::Git;
use super::tree::{MAX_ENTRIES, copy_mode};
use super::{
    FileSnapshot, FileStore, FilesError, Provider, RestoreDir, RestoreResult, SkippedFiles, SnapshotKey,
    SnapshotRequest, empty_directory,
};
use crate::snapshots::FilesRef;

pub(super) const NAME: &str = "git";

const REFS: &str = "refs/nerve/snapshots/";

/// Author and committer, so that the commits are not attributed to the user.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "nerve"),
    ("GIT_AUTHOR_EMAIL", "nerve@localhost"),
    ("GIT_COMMITTER_NAME", "nerve"),
    ("GIT_COMMITTER_EMAIL", "nerve@localhost"),
];

/// Takes snapshots of a work tree as commits.
#[derive(Debug, Clone)]
pub struct GitProvider {
    git: Git,
    top: PathBuf,
    store: FileStore,
    limit: u64,
}

/// Returns the key of a reference made by this provider.
pub(super) fn parse_reference(reference: &str) -> Option<SnapshotKey> {
    reference.strip_prefix(REFS)?.parse().ok()
}

fn reference_name(key: &SnapshotKey) -> String {
    format!("{REFS}{key}")
}

impl GitProvider {
    /// Creates a provider for the whole work tree that contains `dir`. Returns `None` outside of a work tree, without a
    /// `git` program, and for an ignored directory. `limit`: maximum bytes of untracked and changed files.
    ///
    /// # Errors
    /// Git refuses to use the repository, for example because of its owner.
    pub fn find(dir: &Path, store: &FileStore, limit: u64) -> Result<Option<GitProvider>, FilesError> {
        let Some(found) = GitProvider::open(dir, store, limit)? else { return Ok(None) };
        let is_top = dir.canonicalize().is_ok_and(|dir| dir == found.top);
        let ignored = || {
            let call = Git::new(dir).command("see what is ignored");
            call.args(["check-ignore", "--quiet", "."]).optional_line().map(|line| line.is_some())
        };
        Ok(if is_top || !ignored()? { Some(found) } else { None })
    }

    /// Like [`GitProvider::find`], but accepts an ignored directory.
    pub(super) fn open(dir: &Path, store: &FileStore, limit: u64) -> Result<Option<GitProvider>, FilesError> {
        let Some(top) = Git::new(dir).work_tree()? else { return Ok(None) };
        Ok(Some(GitProvider { git: Git::new(&top), top, store: store.clone(), limit }))
    }

    /// Returns the root of the work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the commit of a snapshot.
    fn find_commit(&self, key: &SnapshotKey) -> Result<Option<String>, FilesError> {
        let reference = format!("{}^{{commit}}", reference_name(key));
        self.git
            .command("look for the snapshot")
            .args(["rev-parse", "--quiet", "--verify", &reference])
            .optional_line()
    }

    /// Removes a snapshot, if it exists. Git frees its files at its next garbage collection.
    pub(super) fn remove(&self, key: &SnapshotKey) -> Result<(), FilesError> {
        let call = self.git.command("remove the snapshot");
        call.args(["update-ref", "-d", &reference_name(key)]).line().map(drop)
    }

    /// Copies the user's index to `index`, so that git rereads only files that changed since.
    fn seed(&self, index: &Path) -> Result<(), FilesError> {
        let call = self.git.command("find the index");
        let path = call.args(["rev-parse", "--path-format=absolute", "--git-path", "index"]).path()?;
        let users = match File::open(&path) {
            Ok(users) => users,
            // Nothing was ever added.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FilesError::io("open", &path)(error)),
        };
        let copy = || -> io::Result<()> {
            let mut copy = File::create_new(index)?;
            io::copy(&mut &users, &mut copy)?;
            // Git trusts an index entry only if the file is older than the index (racy-git(7)). A newer copy would hide
            // changes made at the moment the user's index was written.
            copy.set_modified(users.metadata()?.modified()?)
        };
        copy().map_err(FilesError::io("copy the index to", index))
    }

    /// Checks the number and the size of the untracked and changed files. Only these can make a snapshot too large: git has all
    /// others.
    fn check_size(&self, git: &Git, request: &SnapshotRequest<'_>) -> Result<(), FilesError> {
        let (mut bytes, mut count) = (0_u64, 0);
        let mut previous = PathBuf::new();
        let list = ["ls-files", "-z", "--others", "--modified", "--exclude-standard"];
        let call = git.command("list the changed files").args(list);
        call.cancel_with(request).args(self.without_store()).each_name(|name| {
            // A file in conflict is listed once for each version.
            if name == previous {
                return;
            }
            previous = name.to_path_buf();
            count += 1;
            let meta = self.top.join(name).symlink_metadata();
            bytes =
                bytes.saturating_add(meta.ok().filter(|meta| meta.is_file()).map_or(0, |meta| meta.len()));
        })?;
        if count > MAX_ENTRIES {
            return Err(FilesError::TooMany { path: self.top.clone(), limit: MAX_ENTRIES });
        }
        if bytes > self.limit {
            return Err(FilesError::TooLarge { path: self.top.clone(), bytes, limit: self.limit });
        }
        Ok(())
    }

    /// Adds all readable files to the index of `git` and returns messages about the others.
    fn add(&self, git: &Git, request: &SnapshotRequest<'_>) -> Result<Vec<String>, FilesError> {
        // Includes files marked assume-unchanged. Exit code 1 means that something changed.
        let refresh = git.command("look at the files").args(["update-index", "-q", "--really-refresh"]);
        refresh.cancel_with(request).optional_line()?;
        self.check_size(git, request)?;
        // Line ends are stored as they are in the file. On restore the user's `core.autocrlf` applies, and changes only
        // what it changed before.
        let call = git.command("read the files").args(["-c", "core.autocrlf=false"]);
        let call = call.args(["add", "--all", "--sparse", "--ignore-errors"]).cancel_with(request);
        let mut left_out = SkippedFiles::default();
        for complaint in call.args(self.without_store()).complaints()? {
            left_out.push(|| complaint);
        }
        Ok(left_out.into_messages())
    }

    /// Returns arguments that exclude the snapshot store if it is inside the work tree.
    fn without_store(&self) -> Vec<OsString> {
        let root = self.store.root().canonicalize().unwrap_or_default();
        match root.strip_prefix(&self.top) {
            Ok(inside) => {
                let mut except = OsString::from(":(top,exclude,literal)");
                except.push(inside);
                vec!["--".into(), ".".into(), except]
            }
            Err(_) => Vec::new(),
        }
    }

    /// Checks the free space: git treats a full disk as files that cannot be written and continues without them.
    fn check_room(&self, commit: &str, to: &Path) -> Result<(), FilesError> {
        let list = self.git.command("list the files").args(["ls-tree", "-r", "-l", "-z", commit]).bytes()?;
        let size = |entry: &[u8]| -> u64 {
            let about = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
            String::from_utf8_lossy(about)
                .split_whitespace()
                .nth(3)
                .and_then(|size| size.parse().ok())
                .unwrap_or(0)
        };
        let bytes = list.split(|byte| *byte == 0).map(size).fold(0, u64::saturating_add);
        let disk = rustix::fs::statvfs(to).map_err(|error| FilesError::io("look at", to)(error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if bytes > free {
            return Err(FilesError::NoRoom { path: self.top.clone(), bytes, store: to.to_path_buf(), free });
        }
        Ok(())
    }

    /// Creates the branch. Only one of several concurrent callers succeeds.
    fn make_branch(&self, branch: &str, commit: &str) -> Result<(), FilesError> {
        let make = self.git.command("make a branch").args(["branch", "--no-track", branch, commit]);
        make.line().map(drop).map_err(|error| match self.has_branch(branch) {
            Ok(true) => FilesError::BranchExists { branch: branch.to_string() },
            _ => error,
        })
    }

    fn add_work_tree(&self, to: &Path, branch: &str) -> Result<(), FilesError> {
        let add = self.git.command("make a work tree").args(["worktree", "add", "--no-checkout"]);
        add.args([to.as_os_str(), branch.as_ref()]).line().map(drop)
    }

    /// Writes the files of `commit` into a work tree as uncommitted changes since `parent`.
    fn fill(to: &Path, commit: &str, parent: &str) -> Result<Vec<String>, FilesError> {
        let tree = Git::new(to);
        let sparse = ["-c", "core.sparseCheckout=false"];
        tree.command("read the snapshot").args(sparse).args(["read-tree", commit]).line()?;
        let call = tree.command("write the files").args(["checkout-index", "--all", "--force"]);
        let mut left_out = call.complaints()?;
        left_out.extend(tree.inner_repositories()?);
        // Changes that were uncommitted at the snapshot become uncommitted again.
        tree.command("read the last commit").args(sparse).args(["read-tree", parent]).line()?;
        Ok(left_out)
    }

    fn commit(
        &self,
        tree: &str,
        key: &SnapshotKey,
        request: &SnapshotRequest<'_>,
    ) -> Result<String, FilesError> {
        let mut call = self.git.command("write the commit").args(["commit-tree", "--no-gpg-sign", "-F", "-"]);
        let head = ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"];
        if let Some(parent) = self.git.command("find the last commit").args(head).optional_line()? {
            call = call.args(["-p", &parent]);
        }
        let date = format!("@{} +0000", request.at.0 / 1_000_000_000);
        let dates = [("GIT_AUTHOR_DATE", &*date), ("GIT_COMMITTER_DATE", &*date)];
        for (name, value) in AUTHOR.into_iter().chain(dates) {
            call = call.env(name, value);
        }
        // A label can be long; the full text is in the file next to the recording.
        let title: String =
            request.label.unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
        let title = if title.trim().is_empty() { format!("Snapshot {}", key.id()) } else { title };
        let message = format!("{title}\n\nNerve-Session: {}\nNerve-Snapshot: {}\n", key.session(), key.id());
        call.args([tree]).line_with_input(message.as_bytes())
    }

    /// Counts the commits of a branch that are on no other.
    fn own_commits(&self, branch: &str) -> Result<u64, FilesError> {
        let exclude = format!("--exclude={branch}");
        let call = self.git.command("count commits").args(["rev-list", "--count", branch, "--not", &exclude]);
        let call = call.args(["--branches", "--tags", "--remotes"]);
        // HEAD is unborn before the first commit.
        let head =
            self.git.command("find the last commit").args(["rev-parse", "--quiet", "--verify", "HEAD"]);
        let head = head.optional_line()?.map(|_| "HEAD");
        Ok(call.args(head).line()?.parse().unwrap_or(u64::MAX))
    }

    fn is_checked_out_elsewhere(&self, branch: &str, to: &Path) -> Result<bool, FilesError> {
        let list =
            self.git.command("list the work trees").args(["worktree", "list", "--porcelain"]).line()?;
        let branch_line = format!("branch refs/heads/{branch}");
        let own_line = format!("worktree {}", to.display());
        let has_line = |tree: &str, expected: &str| tree.lines().any(|line| line == expected);
        let is_other = |tree: &str| has_line(tree, &branch_line) && !has_line(tree, &own_line);
        Ok(list.split("\n\n").any(is_other))
    }
}

impl Provider for GitProvider {
    fn take(&self, key: &SnapshotKey, request: &SnapshotRequest<'_>) -> Result<FileSnapshot, FilesError> {
        let session = self.store.lock_session(key.session(), &|| request.check())?;
        if self.find_commit(key)?.is_some() {
            return Err(FilesError::Exists { key: key.clone() });
        }
        let index = session.scratch().join("index");
        self.seed(&index)?;
        let git = self.git.with_index(&index);
        let left_out = self.add(&git, request)?;
        // A partial clone lacks some objects.
        let write = git.command("write the tree").args(["write-tree", "--missing-ok"]);
        let tree = write.cancel_with(request).line()?;
        request.check()?;
        let commit = self.commit(&tree, key, request)?;
        // The empty last argument requires that the reference does not exist.
        let reference = reference_name(key);
        self.git.command("keep the commit").args(["update-ref", &reference, &commit, ""]).line()?;
        Ok(FileSnapshot { files: self.reference(key), left_out })
    }

    fn restore(&self, key: &SnapshotKey, to: &Path) -> Result<Vec<String>, FilesError> {
        let not_found = || FilesError::NotFound { key: key.clone(), place: self.top.clone() };
        let commit = self.find_commit(key)?.ok_or_else(not_found)?;
        let to = empty_directory(to)?;
        let session = self.store.lock_session(key.session(), &|| Ok(()))?;
        let git_dir =
            self.git.command("find the repository").args(["rev-parse", "--absolute-git-dir"]).path()?;
        let git = Git::new(&to).with_work_tree(&git_dir).with_index(&session.scratch().join("index"));
        git.command("read the snapshot")
            .args(["-c", "core.sparseCheckout=false", "read-tree", &commit])
            .line()?;
        let left_out = git.command("write the files").args(["checkout-index", "--all"]).complaints()?;
        copy_mode(&self.top, &to)?;
        Ok(left_out)
    }

    fn restore_work_tree(
        &self,
        key: &SnapshotKey,
        dir: &RestoreDir<'_>,
    ) -> Result<RestoreResult, FilesError> {
        let not_found = || FilesError::NotFound { key: key.clone(), place: self.top.clone() };
        let commit = self.find_commit(key)?.ok_or_else(not_found)?;
        let parent = ["rev-parse", "--quiet", "--verify", &format!("{commit}^")];
        let Some(parent) = self.git.command("find the last commit").args(parent).optional_line()? else {
            // Without any commit there is nothing to branch from.
            let left_out = dir.fill(|| self.restore(key, dir.to))?;
            return Ok(RestoreResult { left_out, branch: None });
        };
        let claim = dir.claim()?;
        let with_branch = || -> Result<PathBuf, FilesError> {
            let to = empty_directory(dir.to)?;
            self.check_room(&commit, &to)?;
            self.make_branch(dir.branch, &parent)?;
            Ok(to)
        };
        let to = with_branch().inspect_err(|_| dir.clean_up(&claim))?;
        // The first error is the one to report. The branch is removed last, because it reserves the directory's name.
        let undo = |is_ours: bool| {
            if is_ours {
                let remove = self.git.command("remove the work tree").args(["worktree", "remove", "--force"]);
                let _ = remove.args([&to]).line();
            }
            dir.clean_up(&claim);
            let _ = self.git.command("remove the branch").args(["branch", "-D", dir.branch]).line();
        };
        // If the directory existed before, its files may now belong to a faster process.
        self.add_work_tree(&to, dir.branch).inspect_err(|_| undo(claim.is_new))?;
        let filled = Self::fill(&to, &commit, &parent).and_then(|left_out| {
            copy_mode(&self.top, &to)?;
            Ok(left_out)
        });
        let left_out = filled.inspect_err(|_| undo(true))?;
        Ok(RestoreResult { left_out, branch: Some(dir.branch.to_string()) })
    }

    fn undo_restore(&self, to: &Path, branch: &str) -> Result<(), FilesError> {
        if !self.has_branch(branch)? {
            return std::fs::remove_dir_all(to).map_err(FilesError::io("remove", to));
        }
        let remove = self.git.command("remove the work tree").args(["worktree", "remove", "--force"]);
        remove.args([to]).line()?;
        self.git.command("remove the branch").args(["branch", "-D", branch]).line().map(drop)
    }

    fn changes(
        &self,
        key: &SnapshotKey,
        to: &Path,
        branch: Option<&str>,
    ) -> Result<Option<String>, FilesError> {
        changes::changes(self, key, to, branch)
    }

    fn discard(&self, to: &Path, branch: Option<&str>) -> Result<u64, FilesError> {
        let Some(branch) = branch else {
            std::fs::remove_dir_all(to).map_err(FilesError::io("remove", to))?;
            return Ok(0);
        };
        // All checks that can refuse come before the first removal.
        let exists = self.has_branch(branch)?;
        let own = if exists { self.own_commits(branch)? } else { 0 };
        let in_use = exists && self.is_checked_out_elsewhere(branch, to)?;
        let remove = self.git.command("remove the work tree").args(["worktree", "remove", "--force"]);
        match remove.args([to]).line() {
            Err(error) if to.symlink_metadata().is_ok() => return Err(error),
            _ => {}
        }
        if exists && own == 0 && !in_use {
            // The folder no longer exists; a leftover branch has no commits of its own.
            let _ = self.git.command("remove the branch").args(["branch", "-D", branch]).line();
        }
        Ok(own)
    }

    fn has_branch(&self, branch: &str) -> Result<bool, FilesError> {
        let reference = format!("refs/heads/{branch}");
        let call =
            self.git.command("look for the branch").args(["rev-parse", "--quiet", "--verify", &reference]);
        Ok(call.optional_line()?.is_some())
    }

    fn keys(&self) -> Result<Vec<SnapshotKey>, FilesError> {
        let call = self.git.command("list the snapshots").args(["for-each-ref", "--format=%(refname)", REFS]);
        let list = call.line()?;
        let mut keys: Vec<SnapshotKey> = list.lines().filter_map(parse_reference).collect();
        keys.sort();
        Ok(keys)
    }

    fn reference(&self, key: &SnapshotKey) -> FilesRef {
        FilesRef { provider: NAME.into(), source: self.top.clone(), reference: reference_name(key) }
    }
}
