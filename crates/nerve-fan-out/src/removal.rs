//! Removes the nodes, worktrees and merged branches of attempts. Unless work is discarded, it is committed first.

use anyhow::Result;
use nerve_api::reply::NodeInfo;
use nerve_api::value::NodeState;
use nerve_client::NerveClient;
use nerve_commands::failure::{FAILED, Failure, NOT_FOUND};

use crate::fan_out::{Attempt, FanOut};
use crate::git::Git;
use crate::store::Store;
use crate::submodules;

/// Result of a removal.
#[derive(Debug, Default)]
pub struct RemovalReport {
    /// Labels of the attempts whose node and worktree are gone.
    pub removed: Vec<String>,
    /// Attempts that could not be removed: label and reason.
    pub failed: Vec<(String, String)>,
    /// Branches that were not deleted.
    pub kept_branches: Vec<String>,
}

impl RemovalReport {
    /// Returns the report on a fan-out of which nothing is removed for this reason.
    pub fn refused(fan_out: &FanOut, reason: &str) -> RemovalReport {
        let kept = fan_out.attempts.iter().filter(|attempt| !attempt.is_removed);
        let failed = kept.map(|attempt| (attempt.label.clone(), reason.to_string())).collect();
        RemovalReport { failed, ..RemovalReport::default() }
    }
}

/// Fails if agents or tests of the fan-out are running, or if its server is stopped and attempts have not ended.
///
/// # Errors
/// Exit code 1.
pub async fn check_idle(client: Option<&NerveClient>, fan_out: &FanOut) -> Result<()> {
    let name = &fan_out.name;
    let Some(client) = client else {
        if fan_out.open_attempts().next().is_none() {
            return Ok(());
        }
        let server = &fan_out.server;
        let message = format!("server '{server}' is not running: agents of fan-out '{name}' may be working");
        let hint = format!("start it first with 'nerve server start {server}', or use --force");
        return Err(Failure::new(FAILED, message).hint(hint).into());
    };
    let nodes = client.list_nodes(fan_out.session.as_deref()).await?;
    // A turn that waits for an answer or for the reset of a limit has not ended.
    let is_active =
        |node: &&NodeInfo| matches!(node.state, NodeState::Busy | NodeState::Blocked | NodeState::Suspended);
    let active: Vec<&str> = nodes.iter().filter(is_active).map(|node| node.node_id.as_str()).collect();
    let attempts = fan_out.attempts.iter().filter(|attempt| !attempt.is_removed);
    let attempts = attempts.filter(|attempt| active.contains(&attempt.node.as_str()));
    let labels: Vec<&str> = attempts.map(|attempt| attempt.label.as_str()).collect();
    if labels.is_empty() && !has_active_run(client, fan_out).await? {
        return Ok(());
    }
    let message = match labels.is_empty() {
        true => format!("tests of fan-out '{name}' are running"),
        false => format!("agents of fan-out '{name}' are working: {}", labels.join(", ")),
    };
    let hint = format!("wait for them with 'nerve fan-out wait {name}', or stop them with --force");
    Err(Failure::new(FAILED, message).hint(hint).into())
}

/// Returns true if the run of the fan-out has not ended. The server may have forgotten one that has.
async fn has_active_run(client: &NerveClient, fan_out: &FanOut) -> Result<bool> {
    let Some(run_id) = &fan_out.run_id else { return Ok(false) };
    match client.run_status(run_id, Some(0)).await {
        Ok(run) => Ok(run.status.is_active()),
        Err(error) if Failure::from(&error).code == NOT_FOUND => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Cancels the run, and removes the attempts at these indexes. Saves the fan-out, or deletes its record when no attempt is left.
/// The caller has reserved the fan-out ([`Store::reserve_current`]). `discard`: the work in the worktrees, and their branches.
///
/// # Errors
/// The run cannot be cancelled, or the record cannot be written. Failures of single attempts are in the report.
pub async fn remove(
    client: Option<&NerveClient>,
    store: &Store,
    fan_out: &mut FanOut,
    indexes: &[usize],
    discard: bool,
) -> Result<RemovalReport> {
    if let (Some(client), Some(run_id)) = (client, &fan_out.run_id)
        && has_active_run(client, fan_out).await?
    {
        client.cancel_run(run_id).await?;
    }
    let mut report = RemovalReport::default();
    for index in indexes {
        let attempt = &fan_out.attempts[*index];
        if attempt.is_removed {
            continue;
        }
        let result = remove_attempt(client, fan_out, attempt, discard).await;
        let label = attempt.label.clone();
        match result {
            Ok(kept_branches) => {
                report.kept_branches.extend(kept_branches);
                report.removed.push(label);
                fan_out.attempts[*index].is_removed = true;
            }
            Err(error) => report.failed.push((label, Failure::from_error(&error).message)),
        }
    }
    if fan_out.attempts.iter().all(|attempt| attempt.is_removed) {
        store.remove(fan_out)?;
    } else {
        store.save(fan_out)?;
    }
    Ok(report)
}

/// Removes the node, the worktree and the branch of an attempt. Returns the branches that stay.
async fn remove_attempt(
    client: Option<&NerveClient>,
    fan_out: &FanOut,
    attempt: &Attempt,
    discard: bool,
) -> Result<Vec<String>> {
    if let Some(client) = client {
        remove_node(client, fan_out, attempt).await?;
    }
    let git = Git::at(&fan_out.common_dir);
    // The agent may have switched to another branch.
    let worktree = &attempt.worktree;
    let agent_branch = if worktree.is_dir() { Git::at(worktree).branch()? } else { None };
    remove_worktree(&git, fan_out, attempt, discard)?;
    // The agent's branch is never deleted: it may be older than the attempt.
    let mut kept: Vec<String> = agent_branch.into_iter().filter(|branch| *branch != attempt.branch).collect();
    if !delete_branch(&git, fan_out, attempt, discard)? {
        kept.push(attempt.branch.clone());
    }
    Ok(kept)
}

/// Stops and removes the node of an attempt, if the server has it.
async fn remove_node(client: &NerveClient, fan_out: &FanOut, attempt: &Attempt) -> Result<()> {
    let node = client.node(&attempt.node, fan_out.session.as_deref());
    // Stopping fails if the node is already stopped. Only the removal must succeed.
    let _ = node.stop().await;
    match node.remove().await {
        Ok(()) => Ok(()),
        Err(error) if Failure::from(&error).code == NOT_FOUND => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the worktree of an attempt, if it exists. Its work is committed first unless it is discarded.
fn remove_worktree(git: &Git, fan_out: &FanOut, attempt: &Attempt, discard: bool) -> Result<()> {
    let worktree = &attempt.worktree;
    if git.worktrees()?.contains(worktree) {
        let has_submodules = worktree.is_dir() && !discard && commit_all_work(fan_out, attempt)?;
        return git.remove_worktree(worktree, discard || has_submodules);
    }
    if worktree.exists() {
        let (worktree, repository) = (worktree.display(), fan_out.repository.display());
        let message = format!("{worktree} is not a worktree of {repository}");
        return Err(Failure::new(FAILED, message).into());
    }
    Ok(())
}

/// Commits the work in a worktree. Returns true if it has submodules, and nothing is lost with them.
///
/// # Errors
/// Work would be lost.
fn commit_all_work(fan_out: &FanOut, attempt: &Attempt) -> Result<bool> {
    let worktree = Git::at(&attempt.worktree);
    let has_submodules = submodules::check(&worktree, &fan_out.common_dir)?;
    commit_work(fan_out, attempt)?;
    // git does not check this for worktrees with submodules.
    if has_submodules && worktree.count_uncommitted()? > 0 {
        return Err(Failure::new(FAILED, "the worktree has changed meanwhile").into());
    }
    Ok(has_submodules)
}

/// Deletes the branch of an attempt if no commit is lost, or if work is discarded. Returns false if it stays.
fn delete_branch(git: &Git, fan_out: &FanOut, attempt: &Attempt, discard: bool) -> Result<bool> {
    let branch = &attempt.branch;
    if git.resolve_branch(branch)?.is_none() {
        return Ok(true);
    }
    let is_deletable = discard || is_merged(git, fan_out, branch)?;
    if is_deletable {
        git.delete_branch(branch)?;
    }
    Ok(is_deletable)
}

/// Returns true if a worktree has uncommitted work, or its branch commits that are not merged.
///
/// # Errors
/// git fails, or a submodule has work that exists nowhere else.
pub fn has_own_work(fan_out: &FanOut, attempt: &Attempt) -> Result<bool> {
    if attempt.worktree.is_dir() {
        let worktree = Git::at(&attempt.worktree);
        submodules::check(&worktree, &fan_out.common_dir)?;
        let is_moved =
            worktree.branch()?.as_ref() != Some(&attempt.branch) && !worktree.is_head_in(&attempt.branch)?;
        if is_moved || worktree.operation_in_progress()?.is_some() || worktree.count_uncommitted()? > 0 {
            return Ok(true);
        }
    }
    let git = Git::at(&fan_out.common_dir);
    Ok(git.resolve_branch(&attempt.branch)?.is_some() && !is_merged(&git, fan_out, &attempt.branch)?)
}

/// Returns true if no commit is lost with a branch.
fn is_merged(git: &Git, fan_out: &FanOut, branch: &str) -> Result<bool> {
    Ok(git.is_merged(branch, &fan_out.base)? || git.is_in_other_branch(branch)?)
}

/// Commits the uncommitted work in a worktree on its branch.
///
/// # Errors
/// The work would not be on a branch, contains the repository of another project, or git cannot commit it.
pub fn commit_work(fan_out: &FanOut, attempt: &Attempt) -> Result<()> {
    let git = Git::at(&attempt.worktree);
    if let Some(operation) = git.operation_in_progress()? {
        return Err(Failure::new(FAILED, format!("a {operation} is in progress in the worktree")).into());
    }
    let has_changes = git.count_uncommitted()? > 0;
    if git.branch()?.is_none() && (has_changes || !git.is_head_in(&attempt.branch)?) {
        let message = format!("the work is not on a branch: {}", attempt.worktree.display());
        return Err(Failure::new(FAILED, message).into());
    }
    let nested = git.nested_repositories(&fan_out.base)?;
    if !nested.is_empty() {
        let message = format!("the worktree contains a nested repository: {}", nested.join(", "));
        let hint = format!(
            "of its files git commits none: remove {}/.git, or list the directory in .gitignore",
            attempt.worktree.join(&nested[0]).display()
        );
        return Err(Failure::new(FAILED, message).hint(hint).into());
    }
    if has_changes { git.commit_all(&fan_out.title()) } else { Ok(()) }
}
