//! Starts a fan-out: its state file, its worktrees and nodes, and the run of its graph.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::request::{CommandLine, CreateNode, Seconds, UsageLimits};
use nerve_client::{NerveClient, RunOptions};
use nerve_commands::failure::{FAILED, Failure, USAGE};
use nerve_commands::node_command::shell_env;
use nerve_commands::{clock, trace};
use nerve_graph::journal::new_run_id;
use nerve_types::files::Lock;
use tokio::task::{JoinSet, spawn_blocking};

use crate::fan_out::{Attempt, FanOut, Outcome};
use crate::git::Git;
use crate::plan::{BRANCH_PREFIX, check_name, name_of_task, numbered};
use crate::store::Store;
use crate::{graph, include};

/// Maximum number at the end of a name that is derived from the task.
const MAX_SAME_NAMES: u32 = 99;

/// Settings of the nodes of a fan-out.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Agent profile; `None`: detected from the command.
    pub profile: Option<String>,
    /// Limits of each node.
    pub budget: Option<UsageLimits>,
    /// Time limit of each turn.
    pub turn_timeout: Duration,
}

/// Stores a new fan-out under the requested name, or under the first free one that the task suggests. The name stays reserved while
/// the lock is held. `make` creates the fan-out for a name and the git directory that the checkouts share.
///
/// # Errors
/// Exit code 2 if the name is not allowed or not free.
pub fn create(
    git: &Git,
    store: &Store,
    make: impl Fn(&str, &Path) -> FanOut,
    requested_name: Option<&str>,
    task: &str,
) -> Result<(FanOut, Lock)> {
    requested_name.map(check_name).transpose()?;
    let common_dir = git.common_dir()?;
    let base = requested_name.map_or_else(|| name_of_task(task), str::to_string);
    let names = std::iter::once(base.clone());
    let more = (2..=MAX_SAME_NAMES).map(|number| numbered(&base, number));
    let names = names.chain(more.filter(|_| requested_name.is_none()));
    for name in names {
        if store.contains(&name) || git.has_branches(&format!("{BRANCH_PREFIX}/{name}"))? {
            continue;
        }
        let Some(lock) = store.reserve(&name)? else { continue };
        let fan_out = make(&name, &common_dir);
        if store.create(&fan_out)? {
            return Ok((fan_out, lock));
        }
    }
    let message = format!("fan-out '{base}' exists, or branches of '{BRANCH_PREFIX}/{base}' do");
    let hint = format!(
        "use another --name; list fan-outs with 'nerve fan-out list', branches with 'git branch --list \"{BRANCH_PREFIX}/*\"'"
    );
    Err(Failure::new(USAGE, message).hint(hint).into())
}

/// Creates the worktrees and nodes of all attempts at the same time. An attempt that cannot be prepared is passed to `report`, and has
/// failed. `files`: ignored files to copy, relative to the checkout.
pub async fn prepare(
    client: &NerveClient,
    git: &Git,
    fan_out: &mut FanOut,
    settings: &NodeSettings,
    files: &[PathBuf],
    report: impl Fn(&Attempt, &Failure),
) {
    let mut jobs = JoinSet::new();
    let shell_env = shell_env(client);
    for (index, attempt) in fan_out.attempts.iter().enumerate() {
        let spec = CreateNode {
            session_id: fan_out.session.clone(),
            command: Some(CommandLine::Text(attempt.command.clone())),
            cwd: Some(attempt.worktree.join(&fan_out.subdirectory)),
            shell_env: shell_env.clone(),
            profile: settings.profile.clone(),
            budget: settings.budget,
            response_timeout: Seconds::from(settings.turn_timeout),
            ..CreateNode::new(attempt.node.clone())
        };
        let source = Source {
            git: git.clone(),
            common_dir: fan_out.common_dir.clone(),
            base: fan_out.base.clone(),
            files: files.to_vec(),
        };
        let (client, attempt) = (client.clone(), attempt.clone());
        jobs.spawn(async move { (index, prepare_attempt(client, source, attempt, spec).await) });
    }
    while let Some(result) = jobs.join_next().await {
        // A panic of a job is a defect, which the comparison then shows as an attempt that did not run.
        let Ok((index, Err(error))) = result else { continue };
        let attempt = &mut fan_out.attempts[index];
        let failure = Failure::from_error(&error);
        report(attempt, &failure);
        attempt.outcome = Some(Outcome::failed(failure));
        attempt.is_removed = !attempt.worktree.exists();
    }
}

/// The source of the worktrees.
#[derive(Clone)]
struct Source {
    /// The checkout in which the fan-out was started.
    git: Git,
    /// Git directory that the checkouts share.
    common_dir: PathBuf,
    /// Commit at which the attempts start.
    base: String,
    /// Ignored files to copy, relative to the checkout.
    files: Vec<PathBuf>,
}

async fn prepare_attempt(
    client: NerveClient,
    source: Source,
    attempt: Attempt,
    spec: CreateNode,
) -> Result<()> {
    let Attempt { worktree, branch, .. } = attempt;
    let add = {
        let (source, worktree, branch) = (source.clone(), worktree.clone(), branch.clone());
        let cwd = spec.cwd.clone().unwrap_or_default();
        move || {
            let Source { git, common_dir, base, files } = source;
            git.add_worktree(&common_dir, &worktree, &branch, &base)?;
            // Files that are not ignored at this commit would be committed with the agent's work.
            let files = Git::at(&worktree).filter_ignored(&files)?;
            include::copy(&files, git.dir(), &worktree)?;
            // The commit does not contain the directory if it is new.
            std::fs::create_dir_all(&cwd).with_context(|| format!("cannot create {}", cwd.display()))
        }
    };
    let mut result = spawn_blocking(add).await.context("cannot create a worktree")?;
    if result.is_ok() {
        result = client.create_node(&spec).await.map(drop).map_err(anyhow::Error::from);
    }
    if result.is_err() {
        // The request may have taken effect although its reply did not arrive.
        let _ = client.node(&spec.node_id, spec.session_id.as_deref()).remove().await;
        let Source { git, base, .. } = source;
        spawn_blocking(move || undo_worktree(&git, &worktree, &branch, &base)).await.unwrap_or_default();
    }
    result
}

/// Removes a worktree that no agent has used, with its branch. What remains is removed by `clean`.
fn undo_worktree(git: &Git, worktree: &Path, branch: &str, base: &str) {
    if git.worktrees().is_ok_and(|known| known.iter().any(|path| path == worktree)) {
        let _ = git.remove_worktree(worktree, true);
    }
    if git.resolve_branch(branch).is_ok_and(|commit| commit.as_deref() == Some(base)) {
        let _ = git.delete_branch(branch);
    }
}

/// Forgets a fan-out without a running attempt, and returns its error. Attempts that remain can still be removed.
pub fn none_started(store: &Store, fan_out: &FanOut) -> Failure {
    let outcome = fan_out.attempts.iter().find_map(|attempt| attempt.outcome.as_ref());
    let failure =
        Failure::new(outcome.map_or(FAILED, |outcome| outcome.exit_code), "no attempt could be started");
    if fan_out.attempts.iter().any(|attempt| !attempt.is_removed) {
        let _ = store.save(fan_out);
        return failure.hint(fan_out.clean_hint());
    }
    let _ = store.remove(fan_out);
    failure.hint("nothing was left behind; see the warnings above")
}

/// Starts the run of the graph, and stores its id. `timeout` limits each turn and each test, `budget` all of them together.
///
/// # Errors
/// The state cannot be stored, or the server refuses the run.
pub async fn run_graph(
    client: &NerveClient,
    store: &Store,
    fan_out: &mut FanOut,
    timeout: Duration,
    budget: Option<UsageLimits>,
) -> Result<()> {
    let run_id = new_run_id(clock::now());
    // Stored first: after a crash the run can be found.
    fan_out.run_id = Some(run_id.clone());
    store.save(fan_out)?;
    let options = RunOptions {
        session_id: fan_out.session.clone(),
        input: graph::input(fan_out, store),
        run_id: Some(run_id),
        traceparent: trace::parent(),
        tracestate: trace::state(),
        shell_env: shell_env(client),
        ..RunOptions::default()
    };
    client.execute_graph_detached(graph::definition(fan_out, timeout, budget), &options).await?;
    Ok(())
}
