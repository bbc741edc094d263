//! The submodules of a worktree. Their repositories are in its git directory, and git removes them with it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use nerve_commands::failure::{FAILED, Failure};

use crate::git::Git;

/// Checks that no work in submodules is lost with a worktree. Returns true if it has submodules.
///
/// # Errors
/// A submodule has uncommitted changes, or a commit that neither its remotes nor the repository itself have.
pub(crate) fn check(worktree: &Git, common_dir: &Path) -> Result<bool> {
    let git_dir = worktree.git_dir()?;
    let mut repositories = Vec::new();
    find_repositories(&git_dir.join("modules"), &mut repositories)?;
    if repositories.is_empty() && !worktree.has_submodules()? {
        return Ok(false);
    }
    for path in worktree.submodules()? {
        let submodule = Git::at(&path);
        if submodule.count_uncommitted()? > 0 {
            return Err(unsaved("uncommitted changes", &path));
        }
        repositories.push(submodule.git_dir()?);
    }
    for path in &repositories {
        // The main worktree's repository of the same submodule.
        let original = path.strip_prefix(&git_dir).ok().map(|relative| Git::at(&common_dir.join(relative)));
        let known = match original.filter(|git| git.dir().is_dir()) {
            Some(original) => original.commits_of_refs()?,
            None => Vec::new(),
        };
        if Git::at(path).has_commits_besides(&known)? {
            return Err(unsaved("commits that exist nowhere else", path));
        }
    }
    Ok(true)
}

fn unsaved(work: &str, path: &Path) -> anyhow::Error {
    let message = format!("a submodule has {work}: {}", path.display());
    Failure::new(FAILED, message).hint("commit and push them, or use --discard").into()
}

/// Finds git directories: the name of a submodule may have several parts, and it may have submodules itself.
fn find_repositories(dir: &Path, repositories: &mut Vec<PathBuf>) -> Result<()> {
    if dir.join("HEAD").is_file() {
        repositories.push(dir.to_path_buf());
        return find_repositories(&dir.join("modules"), repositories);
    }
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(dir)? {
        find_repositories(&entry?.path(), repositories)?;
    }
    Ok(())
}
