//! Finds changes in a restored folder that exist nowhere else. In doubt, reports a change.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::program::Git;
use super::{FilesError, GitProvider, SnapshotKey};

/// Maximum number of files named.
const MAX_NAMED: usize = 3;

/// Implements [`super::Provider::changes`].
pub(super) fn changes(
    provider: &GitProvider,
    key: &SnapshotKey,
    to: &Path,
    branch: Option<&str>,
) -> Result<Option<String>, FilesError> {
    if let Some(inner) = inner_repository(to, branch.is_some())? {
        let inner = inner.strip_prefix(to).unwrap_or(&inner);
        return Ok(Some(match inner.as_os_str().is_empty() {
            true => "became a separate repository".to_string(),
            false => format!("contains a nested repository: {}", inner.display()),
        }));
    }
    let tree = match branch {
        Some(_) => Git::new(to),
        None => {
            let call = provider.git.command("find the repository").args(["rev-parse", "--absolute-git-dir"]);
            Git::new(to).with_work_tree(&call.path()?)
        }
    };
    let mut is_clean = false;
    if branch.is_some() {
        if let Some(change) = work_tree_changes(&tree, to)? {
            return Ok(Some(change));
        }
        let status = tree.command("look for changes").args(["status", "--porcelain"]);
        is_clean = status.args(["--untracked-files=all", "--ignore-submodules=none"]).line()?.is_empty();
        if is_clean && ignored_files(&tree, &BTreeSet::new())?.is_none() {
            return Ok(None);
        }
    }
    // Nothing was committed, so the files must be as they were restored.
    let not_found = || FilesError::NotFound { key: key.clone(), place: provider.top.clone() };
    let commit = provider.find_commit(key)?.ok_or_else(not_found)?;
    let session = provider.store.lock_session(key.session(), &|| Ok(()))?;
    let git = tree.with_index(&session.scratch().join("index"));
    let settings = ["-c", "core.sparseCheckout=false", "-c", "core.autocrlf=false"];
    git.command("read the snapshot").args(settings).args(["read-tree", &commit]).line()?;
    git.command("read the files").args(settings).args(["add", "--all", "--sparse"]).line()?;
    let call =
        git.command("compare the files").args(["diff-index", "--cached", "--name-only", "-z", &commit]);
    let changed: BTreeSet<PathBuf> = names(&call.bytes()?).collect();
    if let Some(first) = changed.first().filter(|_| !is_clean) {
        let first = first.display();
        return Ok(Some(match changed.len() - 1 {
            0 => format!("{first} is neither committed nor as it was restored"),
            more => format!("{first} and {more} more are neither committed nor as they were restored"),
        }));
    }
    // Files in the index despite being ignored came from the snapshot.
    let call = git.command("list ignored files").args([
        "ls-files",
        "-z",
        "--cached",
        "--ignored",
        "--exclude-standard",
    ]);
    let restored = names(&call.bytes()?).filter(|name| !changed.contains(name)).collect();
    ignored_files(if branch.is_some() { &tree } else { &git }, &restored)
}

/// Finds changes in a work tree that `git status` does not show.
fn work_tree_changes(git: &Git, to: &Path) -> Result<Option<String>, FilesError> {
    if git.work_tree()?.as_deref() != to.canonicalize().ok().as_deref() {
        return Err(FilesError::NoWorkTree { path: to.to_path_buf() });
    }
    // Commits of a detached HEAD would be unreachable.
    let count = git.command("count commits").args(["rev-list", "--count", "HEAD", "--not"]);
    let lost = count.args(["--branches", "--tags", "--remotes"]).line()?;
    if lost != "0" {
        return Ok(Some(format!("{lost} commits are on no branch")));
    }
    // The repositories of submodules are removed with the work tree, even of deinitialized ones.
    let modules = git.command("look for submodules").args(["rev-parse", "--path-format=absolute"]);
    let modules = modules.args(["--git-path", "modules"]).path()?;
    if modules.symlink_metadata().is_ok() {
        return Ok(Some("contains submodule repositories".to_string()));
    }
    // A restored work tree has nothing staged.
    let staged =
        git.command("look for staged files").args(["diff-index", "--cached", "--name-only", "-z", "HEAD"]);
    if let Some(name) = names(&staged.bytes()?).next() {
        return Ok(Some(format!("{} is staged, but not committed", name.display())));
    }
    let mut hidden_file = None;
    git.command("list the files").args(["ls-files", "-v", "-z"]).each_name(|entry| {
        let entry = entry.to_string_lossy();
        if hidden_file.is_none() && entry.starts_with(|tag: char| tag.is_ascii_lowercase() || tag == 'S') {
            hidden_file = Some(entry.get(2..).unwrap_or_default().to_string());
        }
    })?;
    Ok(hidden_file.map(|name| format!("git ignores changes to {name} (assume-unchanged or skip-worktree)")))
}

/// Describes the ignored files except for `restored`.
fn ignored_files(git: &Git, restored: &BTreeSet<PathBuf>) -> Result<Option<String>, FilesError> {
    let (mut named, mut more) = (Vec::new(), 0_usize);
    let call = git.command("list ignored files").args(["ls-files", "-z", "--others", "--ignored"]);
    call.args(["--exclude-standard"]).each_name(|name| {
        if restored.contains(name) {
        } else if named.len() < MAX_NAMED {
            named.push(name.display().to_string());
        } else {
            more += 1;
        }
    })?;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok((!named.is_empty()).then(|| format!("ignored files exist only here: {}{more}", named.join(", "))))
}

/// Finds the first folder with a `.git` entry. `has_own`: the one at the top belongs to the work tree itself.
fn inner_repository(top: &Path, has_own: bool) -> Result<Option<PathBuf>, FilesError> {
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(FilesError::io("read the directory", &folder))? {
            let entry = entry.map_err(FilesError::io("read the directory", &folder))?;
            if entry.file_name() == ".git" {
                if !(has_own && folder == top) {
                    return Ok(Some(folder));
                }
            } else if entry.file_type().map_err(FilesError::io("look at", &entry.path()))?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(None)
}

fn names(list: &[u8]) -> impl Iterator<Item = PathBuf> + '_ {
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsString::from_vec(name.to_vec())))
}
