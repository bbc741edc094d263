//! `nerve fan-out pick`: merges an attempt into the current branch.

use anyhow::{Context, Result};
use nerve_client::NerveClient;
use nerve_fan_out::git::Git;
use nerve_fan_out::removal::{Report, check_idle, commit_work, print, remove};
use nerve_fan_out::store::{Attempt, FanOut, Store};
use serde_json::json;

use super::comparison::{changes_of, format_changes};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::fan_out::RemovalOptions;

/// Merges the attempt, and removes the other ones.
pub(super) async fn pick(
    client: Option<&NerveClient>,
    store: &Store,
    fan_out: &mut FanOut,
    index: usize,
    options: RemovalOptions,
    as_json: bool,
) -> Result<()> {
    let attempt = fan_out.attempts[index].clone();
    let git = find_target(fan_out)?;
    let others: Vec<usize> = (0..fan_out.attempts.len()).filter(|other| *other != index).collect();
    if !options.force {
        check_idle(client, fan_out).await?;
    }
    let summary = merge(&git, fan_out, &attempt)?;
    if !as_json {
        out::line(&summary)?;
    }
    let report = remove(client, store, fan_out, &others, options.discard).await?;
    if as_json {
        out::json(&json!({
            "name": fan_out.name, "picked": attempt.label, "node_id": attempt.node, "branch": attempt.branch,
            "merged_into": git.branch()?, "commit": git.head()?, "removed": report.removed,
            "kept": failed_to_json(&report), "branches": report.kept_branches,
        }))?;
    }
    let result = print(&report);
    if attempt.worktree.is_dir() && !as_json {
        let (node, name, options) = (&attempt.node, &fan_out.name, fan_out.node_options());
        out::note(format_args!(
            "{} stays: continue with 'nerve send{options} {node}', or remove it with 'nerve fan-out clean {name}'",
            attempt.label
        ));
    }
    Ok(result?)
}

/// Returns the attempts that could not be removed, for programs.
pub(super) fn failed_to_json(report: &Report) -> Vec<serde_json::Value> {
    report.failed.iter().map(|(label, reason)| json!({ "label": label, "reason": reason })).collect()
}

/// Returns the user's checkout, into which an attempt can be merged.
fn find_target(fan_out: &FanOut) -> Result<Git> {
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
fn merge(git: &Git, fan_out: &FanOut, attempt: &Attempt) -> Result<String> {
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
    let changes = changes_of(fan_out, attempt)?.unwrap_or_default();
    match git.merge(branch) {
        Ok(Ok(())) => Ok(format!("merged {branch} into {into}: {}", format_changes(changes))),
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
            let failure = crate::exit::failure(&error);
            let hint =
                "nothing was changed or removed; if your changes are in the way, commit or stash them first";
            Err(Failure::new(failure.code, format!("cannot merge {label}: {}", failure.message))
                .hint(hint)
                .into())
        }
    }
}
