//! Merges an attempt into the user's checkout.

use anyhow::{Context, Result};
use nerve_commands::failure::{FAILED, Failure, NOT_FOUND, USAGE};
use nerve_commands::out;

use crate::changes::count_changes;
use crate::fan_out::{Attempt, FanOut};
use crate::git::Git;
use crate::removal::commit_work;

/// Returns the user's checkout around the current directory, into which an attempt can be merged.
///
/// # Errors
/// Exit code 2 in another repository or in a worktree of an attempt; 1 if another operation is in progress.
pub fn find_target(fan_out: &FanOut) -> Result<Git> {
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let git = Git::find(&here)?;
    let is_attempt = fan_out.attempts.iter().any(|attempt| git.dir() == attempt.worktree);
    if git.common_dir()? != fan_out.common_dir || is_attempt {
        let message = format!(
            "cannot merge here: fan-out '{}' belongs to {}",
            fan_out.name,
            fan_out.repository.display()
        );
        let hint = format!("go to the checkout first: cd {}", fan_out.repository.display());
        return Err(Failure::new(USAGE, message).hint(hint).into());
    }
    if let Some(operation) = git.operation_in_progress()? {
        let message = format!("cannot merge: a {operation} is in progress in {}", git.dir().display());
        let hint = format!("finish it, or abort it with 'git {operation} --abort'");
        return Err(Failure::new(FAILED, message).hint(hint).into());
    }
    Ok(git)
}

/// Commits the work of the attempt, and merges its branch. Returns a summary.
///
/// # Errors
/// The attempt has no changes, or git refuses the merge. Nothing is merged.
pub fn merge(git: &Git, fan_out: &FanOut, attempt: &Attempt) -> Result<String> {
    let Attempt { label, branch, worktree, .. } = attempt;
    if worktree.is_dir() {
        commit_work(fan_out, attempt).with_context(|| format!("cannot commit the work of {label}"))?;
    } else if git.resolve_branch(branch)?.is_none() {
        let message = format!("cannot merge {label}: its worktree and its branch were deleted");
        return Err(Failure::new(NOT_FOUND, message).hint("pick another attempt").into());
    }
    // An agent may have created a branch of its own.
    let own_branch = if worktree.is_dir() { Git::at(worktree).branch()? } else { None };
    let branch = own_branch.as_ref().unwrap_or(branch);
    if git.is_merged(branch, &fan_out.base)? {
        let message = format!("cannot merge {label}: it has no changes");
        let hint = format!("pick another attempt, or 'nerve fan-out clean {}'", fan_out.name);
        return Err(Failure::new(FAILED, message).hint(hint).into());
    }
    let into = git.branch()?.unwrap_or_else(|| "the current commit".to_string());
    if git.is_merged(branch, "HEAD")? {
        return Ok(format!("{branch} is already merged into {into}"));
    }
    let changes = count_changes(fan_out, attempt)?.unwrap_or_default();
    match git.merge(branch) {
        Ok(Ok(())) => Ok(format!("merged {branch} into {into}: {changes}")),
        Ok(Err(conflicts)) => {
            let files = conflicts.join(", ");
            let message = format!("cannot merge {label}: conflicts in {}", out::preview(&files, 300));
            let hint = format!(
                "nothing was changed or removed; merge it yourself with 'git merge {branch}', then 'nerve fan-out clean {}'",
                fan_out.name
            );
            Err(Failure::new(FAILED, message).hint(hint).into())
        }
        Err(error) => {
            let failure = Failure::from_error(&error);
            let hint =
                "nothing was changed or removed; if your changes are in the way, commit or stash them first";
            Err(Failure::new(failure.code, format!("cannot merge {label}: {}", failure.message))
                .hint(hint)
                .into())
        }
    }
}
