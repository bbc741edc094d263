//! Removes the nodes and worktrees of attempts. Uncommitted work is committed on its branch first.

use anyhow::Result;
use nerve_api::value::NodeState;
use nerve_client::NerveClient;

use super::git::Git;
use super::store::{Attempt, FanOut, Store};
use crate::exit::{self, FAILED, Failure, NOT_FOUND};
use crate::out;
use nerve_cli::fan_out::RemovalOptions;

/// What a removal did.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Labels of the attempts whose node and worktree are gone.
    pub(super) removed: Vec<String>,
    /// Worktrees that stay: label and reason.
    pub(super) kept: Vec<(String, String)>,
    /// Branches with commits that are not merged.
    pub(super) branches: Vec<String>,
}

/// Fails if agents or tests of the fan-out are still running.
///
/// # Errors
/// Exit code 1.
pub(super) async fn check_idle(client: Option<&NerveClient>, fan_out: &FanOut) -> Result<()> {
    let Some(client) = client else {
        if fan_out.open_attempts().next().is_none() {
            return Ok(());
        }
        let (server, name) = (&fan_out.server, &fan_out.name);
        let message = format!("server '{server}' is not running: agents of fan-out '{name}' may be working");
        let hint = format!("start it first with 'nerve server start {server}', or use --force");
        return Err(Failure::new(FAILED, message).hint(hint).into());
    };
    let nodes = client.list_nodes(fan_out.session.as_deref()).await?;
    let is_working = |attempt: &&Attempt| {
        let node = nodes.iter().find(|node| node.id == attempt.node);
        let state = node.map(|node| node.state);
        let is_working = matches!(state, Some(NodeState::Busy | NodeState::Blocked | NodeState::Suspended));
        is_working && !attempt.is_removed
    };
    let working = fan_out.attempts.iter().filter(is_working).map(|attempt| attempt.label.as_str());
    let working: Vec<&str> = working.collect();
    let name = &fan_out.name;
    let message = match working.as_slice() {
        [] if is_running(client, fan_out).await => format!("tests of fan-out '{name}' are running"),
        [] => return Ok(()),
        labels => format!("agents of fan-out '{name}' are working: {}", labels.join(", ")),
    };
    let hint = format!("wait for them with 'nerve fan-out wait {name}', or stop them with --force");
    Err(Failure::new(FAILED, message).hint(hint).into())
}

/// Returns true if the run of the fan-out has not ended.
async fn is_running(client: &NerveClient, fan_out: &FanOut) -> bool {
    let Some(run) = &fan_out.run_id else { return false };
    client.run_status(run, Some(0)).await.is_ok_and(|run| run.status.is_active())
}

/// Removes attempts as far as no work is lost, and stores the new state. Forgets a fan-out without attempts.
pub(super) async fn remove(
    client: Option<&NerveClient>,
    store: &Store,
    fan_out: &mut FanOut,
    attempts: &[usize],
    options: RemovalOptions,
) -> Result<Report> {
    if let (Some(client), Some(run)) = (client, &fan_out.run_id)
        && is_running(client, fan_out).await
    {
        client.cancel_run(run).await?;
    }
    let mut report = Report::default();
    let git = Git::at(&fan_out.common_dir);
    for index in attempts {
        let attempt = &fan_out.attempts[*index];
        if attempt.is_removed {
            continue;
        }
        let removed = match stop_node(client, fan_out, attempt).await {
            Ok(()) => remove_worktree(&git, fan_out, attempt, options.discard),
            Err(error) => Err(error),
        };
        let label = attempt.label.clone();
        match removed {
            Ok(branch) => {
                report.branches.extend(branch);
                report.removed.push(label);
                fan_out.attempts[*index].is_removed = true;
            }
            Err(error) => report.kept.push((label, exit::failure(&error).message)),
        }
    }
    if fan_out.attempts.iter().all(|attempt| attempt.is_removed) {
        store.remove(fan_out)?;
    } else {
        store.save(fan_out)?;
    }
    Ok(report)
}

/// Prints a report.
///
/// # Errors
/// Exit code 1 if a worktree stays.
pub(super) fn print(report: &Report) -> Result<(), Failure> {
    if !report.removed.is_empty() {
        out::note(format_args!("removed {}", report.removed.join(", ")));
    }
    if !report.branches.is_empty() {
        let names = report.branches.join(" ");
        out::note(format_args!("kept the branches; delete them with 'git branch -D {names}'"));
    }
    for (label, reason) in &report.kept {
        out::warning(format_args!("kept {label}: {}", out::sanitize(reason)));
    }
    match report.kept.len() {
        0 => Ok(()),
        1 => Err(Failure::new(FAILED, "1 worktree was not removed")),
        several => Err(Failure::new(FAILED, format!("{several} worktrees were not removed"))),
    }
}

/// Stops and removes the node of an attempt, if the server has it.
async fn stop_node(client: Option<&NerveClient>, fan_out: &FanOut, attempt: &Attempt) -> Result<()> {
    let Some(client) = client else { return Ok(()) };
    let node = client.node(&attempt.node, fan_out.session.as_deref());
    // A stopped node cannot be stopped; what matters is that it can be removed.
    let _ = node.stop().await;
    match node.remove().await {
        Ok(()) => Ok(()),
        Err(error) if Failure::from(&error).code == NOT_FOUND => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a worktree, and its branch unless that has commits of its own. Returns the branch that stays.
fn remove_worktree(git: &Git, fan_out: &FanOut, attempt: &Attempt, discard: bool) -> Result<Option<String>> {
    let Attempt { worktree, branch, .. } = attempt;
    // An agent may have created a branch of its own.
    let own_branch = if worktree.is_dir() { Git::at(worktree).branch()? } else { None };
    if git.worktrees()?.iter().any(|path| path == worktree) {
        if worktree.is_dir() && !discard {
            save_work(fan_out, attempt)?;
        }
        git.remove_worktree(worktree, discard)?;
    } else if worktree.exists() {
        let message = format!("{} is no worktree of {}", worktree.display(), fan_out.repository.display());
        return Err(Failure::new(FAILED, message).into());
    }
    let mut kept = None;
    for branch in own_branch.iter().filter(|own| *own != branch).chain([branch]) {
        if git.resolve(branch)?.is_none() {
            continue;
        }
        // A branch of the agent's may have existed before.
        let is_ours = branch == &attempt.branch;
        if is_ours && (discard || git.is_merged(branch, &fan_out.base)? || git.is_in_other_branch(branch)?) {
            git.delete_branch(branch)?;
        } else {
            kept = kept.or(Some(branch.clone()));
        }
    }
    Ok(kept)
}

/// Commits the uncommitted work in a worktree on its branch.
///
/// # Errors
/// The work would not be on a branch, or git cannot commit it.
pub(super) fn save_work(fan_out: &FanOut, attempt: &Attempt) -> Result<()> {
    let git = Git::at(&attempt.worktree);
    if let Some(operation) = git.operation()? {
        return Err(Failure::new(FAILED, format!("a {operation} is in progress in its worktree")).into());
    }
    let has_changes = git.uncommitted()? > 0;
    if git.branch()?.is_none() && (has_changes || !git.is_merged("HEAD", &attempt.branch)?) {
        let message = format!("its work is not on a branch: {}", attempt.worktree.display());
        return Err(Failure::new(FAILED, message).into());
    }
    if has_changes { git.commit_all(&fan_out.title()) } else { Ok(()) }
}
