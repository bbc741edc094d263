//! The git branch of a folder, read from `HEAD` without starting git.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the branch, or the beginning of the commit if `HEAD` is detached; `None` outside of a repository.
pub(super) fn read_branch(folder: &Path) -> Option<String> {
    let head = folder.ancestors().find_map(|folder| git_folder(&folder.join(".git")))?.join("HEAD");
    let head = fs::read_to_string(head).ok()?;
    let head = head.trim();
    Some(match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => branch.to_string(),
        None => head.chars().take(8).collect(),
    })
}

/// Returns the folder behind `.git`, which is a file in worktrees and submodules (gitrepository-layout(5)).
fn git_folder(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_path_buf());
    }
    let link = fs::read_to_string(path).ok()?;
    Some(path.parent()?.join(link.strip_prefix("gitdir:")?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_of_repository_worktree_and_detached_head() {
        let home = tempfile::tempdir().unwrap();
        let git = home.path().join("repo/.git");
        fs::create_dir_all(git.join("worktrees/fix")).unwrap();
        fs::create_dir_all(home.path().join("repo/src/deep")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        assert_eq!(read_branch(&home.path().join("repo/src/deep")).as_deref(), Some("feature/x"));
        fs::write(git.join("worktrees/fix/HEAD"), "0123456789abcdef\n").unwrap();
        let worktree = home.path().join("fix");
        fs::create_dir(&worktree).unwrap();
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", git.join("worktrees/fix").display()))
            .unwrap();
        assert_eq!(read_branch(&worktree).as_deref(), Some("01234567"));
    }
}
