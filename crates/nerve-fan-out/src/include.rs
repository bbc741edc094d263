//! `.nerve/worktree-include`: ignored files that each worktree needs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_commands::failure::{Failure, USAGE};

use crate::git::Git;

/// The file, relative to the root of the checkout.
pub const FILE: &str = ".nerve/worktree-include";
/// Maximum number of files.
const MAX_FILES: usize = 100_000;

/// Lists the ignored files that the patterns of [`FILE`] select, relative to the checkout.
///
/// # Errors
/// Exit code 2 for too many files, or a symlink that leaves the repository.
pub fn list(git: &Git) -> Result<Vec<PathBuf>> {
    let patterns = git.dir().join(FILE);
    if !patterns.is_file() {
        return Ok(Vec::new());
    }
    let files = git.ignored_files(&patterns)?;
    if files.len() > MAX_FILES {
        let message = format!("{FILE}: the patterns select {} files, more than {MAX_FILES}", files.len());
        return Err(Failure::new(USAGE, message).hint("select fewer files").into());
    }
    let root = git.dir().canonicalize().with_context(|| format!("cannot find {}", git.dir().display()))?;
    for file in &files {
        let path = git.dir().join(file);
        let is_inside = || path.canonicalize().is_ok_and(|target| target.starts_with(&root));
        if path.is_symlink() && !is_inside() {
            let message = format!("{FILE}: {} is a symbolic link that leaves the repository", file.display());
            return Err(Failure::new(USAGE, message)
                .hint("exclude it with a pattern that begins with '!'")
                .into());
        }
    }
    Ok(files)
}

/// Copies the files to a worktree. Files that it already has stay as they are.
///
/// # Errors
/// A file cannot be copied, or a directory of the worktree leads out of it.
pub fn copy(files: &[PathBuf], from: &Path, worktree: &Path) -> Result<()> {
    for file in files {
        copy_file(file, from, worktree).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

fn copy_file(file: &Path, from: &Path, worktree: &Path) -> Result<()> {
    let (source, target) = (from.join(file), worktree.join(file));
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    create_parents(file, worktree)?;
    let kind = source.symlink_metadata()?.file_type();
    if kind.is_symlink() {
        symlink(fs::read_link(&source)?, &target)?;
    } else if kind.is_file() {
        fs::copy(&source, &target)?;
    }
    Ok(())
}

/// Creates the directories of a file. A committed symlink among them could lead out of the worktree.
fn create_parents(file: &Path, worktree: &Path) -> Result<()> {
    let mut directory = worktree.to_path_buf();
    for part in file.parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        match directory.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => anyhow::bail!("{} is not a directory in the worktree", directory.display()),
            Err(_) => fs::create_dir(&directory)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_does_not_follow_links_out_of_worktree() {
        let home = tempfile::tempdir().unwrap();
        let (from, worktree, outside) =
            (home.path().join("from"), home.path().join("tree"), home.path().join("outside"));
        for directory in [&from.join("conf/deep"), &worktree, &outside] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(from.join("conf/deep/key"), "secret").unwrap();
        fs::write(from.join(".env"), "A=1").unwrap();
        let files = [PathBuf::from(".env"), PathBuf::from("conf/deep/key")];
        copy(&files, &from, &worktree).unwrap();
        assert_eq!(fs::read_to_string(worktree.join("conf/deep/key")).unwrap(), "secret");

        fs::remove_dir_all(worktree.join("conf")).unwrap();
        symlink(&outside, worktree.join("conf")).unwrap();
        fs::write(worktree.join(".env"), "own").unwrap();
        assert!(copy(&files, &from, &worktree).is_err());
        assert!(!outside.join("deep").exists());
        assert_eq!(fs::read_to_string(worktree.join(".env")).unwrap(), "own");
    }
}
