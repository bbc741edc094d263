//! Starts a fan-out: worktrees, nodes and the run of its graph.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_api::request::{CommandLine, CreateNode, Seconds, UsageLimits};
use nerve_client::{NerveClient, RunOptions};
use nerve_fan_out::git::Git;
use nerve_fan_out::plan::{BRANCH_PREFIX, check_name, name_of_task, numbered, plan, split_commands};
use nerve_fan_out::store::{Attempt, FanOut, Outcome, Store};
use nerve_fan_out::{graph, include};
use nerve_graph::journal::new_run_id;
use nerve_node::terminal::check_prompt;
use nerve_repl::node_command::shell_env;
use nerve_repl::{clock, prompt};
use nerve_types::files::Lock;
use nerve_types::suggestion::nearest;
use tokio::task::{JoinSet, spawn_blocking};

use super::follow;
use crate::cmd::server::{connect, is_remote};
use crate::exit::{self, FAILED, Failure, USAGE};
use crate::{out, trace};
use nerve_cli::fan_out::{MAX_ATTEMPTS, RunArgs};

/// Maximum number at the end of a name that is derived from the task.
const MAX_SAME_NAMES: u32 = 99;
/// Subcommands, to recognize a misspelled one.
const COMMANDS: [&str; 5] = ["list", "wait", "diff", "pick", "clean"];

/// Starts a fan-out. Attempts whose worktree or node cannot be created have failed; at least one runs.
pub(super) async fn start(server: &str, args: &RunArgs, store: &Store) -> Result<(NerveClient, FanOut)> {
    let task = read_task(args)?;
    let commands = split_commands(&args.commands)?;
    if commands.len() > MAX_ATTEMPTS as usize {
        let message = format!("{} agents are given, more than {MAX_ATTEMPTS}", commands.len());
        return Err(Failure::new(USAGE, message).hint("give fewer").into());
    }
    if let Some(attempts) = args.attempts.filter(|attempts| (*attempts as usize) < commands.len()) {
        let message = format!("{} agents are given, but only {attempts} attempts", commands.len());
        return Err(Failure::new(USAGE, message).hint("leave out --attempts, or give fewer agents").into());
    }
    if is_remote(server) {
        let message = format!("cannot fan out on '{server}': the worktrees must be on the server's machine");
        return Err(Failure::new(USAGE, message).hint("use a server of this machine: --server NAME").into());
    }
    let [each, total] = args.total.limits(&args.budget)?;
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let git = Git::find(&here)?;
    let Some(base) = git.head()? else {
        let message = format!("cannot fan out from {}: the repository has no commit", git.dir().display());
        return Err(Failure::new(USAGE, message).hint("commit first: 'git add --all && git commit'").into());
    };
    let files = include::list(&git)?;
    let client = connect(server).await?;
    warn_of_uncommitted(&git, &base)?;
    // Until the end of this function, no other command removes what is being created.
    let (mut fan_out, _reserved) = claim(
        &git,
        store,
        |name, common_dir| {
            let root = store.worktree_root(common_dir, git.dir(), name);
            let attempts = plan(name, &commands, args.attempts);
            FanOut {
                name: name.to_string(),
                task: task.clone(),
                repository: git.dir().to_path_buf(),
                subdirectory: here.strip_prefix(git.dir()).unwrap_or(Path::new("")).to_path_buf(),
                common_dir: common_dir.to_path_buf(),
                base: base.clone(),
                server: server.to_string(),
                session: args.session.clone(),
                created_at: jiff::Timestamp::now().to_string(),
                test: args.test.clone(),
                run_id: None,
                attempts: attempts.into_iter().map(|planned| Attempt::new(planned, &root)).collect(),
            }
        },
        args.name.as_deref(),
        &task,
    )?;
    prepare(&client, &git, &mut fan_out, args, each, &files).await;
    if fan_out.open_attempts().next().is_none() {
        return Err(none_started(store, &fan_out).into());
    }
    run_graph(&client, store, &mut fan_out, args.timeout.0, total).await.map_err(|error| {
        let failure = exit::failure(&error);
        Failure { hint: Some(follow::command(&fan_out, "clean")), ..failure }
    })?;
    Ok((client, fan_out))
}

/// Reads the task; refuses a misspelled subcommand, which would start agents.
fn read_task(args: &RunArgs) -> Result<String> {
    let task = prompt::read(&args.task)?;
    check_prompt(&task)?;
    let is_word = args.task.text.is_some() && !task.contains(char::is_whitespace);
    if let Some(command) = nearest(&task, COMMANDS).filter(|_| is_word) {
        let failure = Failure::new(USAGE, format!("'{task}' is no command of 'nerve fan-out'"));
        return Err(failure.hint(format!("did you mean 'nerve fan-out {command}'?")).into());
    }
    Ok(task)
}

fn warn_of_uncommitted(git: &Git, base: &str) -> Result<()> {
    let uncommitted = git.count_uncommitted()?;
    if uncommitted > 0 {
        let files = if uncommitted == 1 { "1 file".to_string() } else { format!("{uncommitted} files") };
        let base = base.get(..8).unwrap_or(base);
        out::warning(format_args!(
            "uncommitted changes in {files} are not part of the attempts, which start at commit {base}"
        ));
    }
    Ok(())
}

/// Stores the fan-out under the given name, or under the first free one that the task suggests. The name is reserved.
fn claim(
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

/// Creates the worktrees and nodes of all attempts at the same time.
async fn prepare(
    client: &NerveClient,
    git: &Git,
    fan_out: &mut FanOut,
    args: &RunArgs,
    budget: Option<UsageLimits>,
    files: &[PathBuf],
) {
    let mut jobs = JoinSet::new();
    let shell_env = shell_env(client);
    for (index, attempt) in fan_out.attempts.iter().enumerate() {
        let spec = CreateNode {
            session_id: fan_out.session.clone(),
            command: Some(CommandLine::Text(attempt.command.clone())),
            cwd: Some(attempt.worktree.join(&fan_out.subdirectory)),
            shell_env: shell_env.clone(),
            profile: args.profile.clone(),
            budget,
            response_timeout: Seconds::from(args.timeout.0),
            ..CreateNode::new(attempt.node.clone())
        };
        let (client, git, attempt, base) =
            (client.clone(), git.clone(), attempt.clone(), fan_out.base.clone());
        let files = files.to_vec();
        jobs.spawn(async move { (index, prepare_attempt(client, git, attempt, base, files, spec).await) });
    }
    while let Some(result) = jobs.join_next().await {
        // A panic of a job is a defect, which the comparison then shows as an attempt that did not run.
        let Ok((index, Err(error))) = result else { continue };
        let attempt = &mut fan_out.attempts[index];
        let failure = exit::failure(&error);
        out::warning(format_args!("{} cannot start: {}", attempt.label, out::sanitize(&failure.message)));
        if let Some(hint) = &failure.hint {
            out::hint(out::sanitize(hint));
        }
        attempt.outcome = Some(Outcome::failed(failure));
        attempt.is_removed = !attempt.worktree.exists();
    }
}

async fn prepare_attempt(
    client: NerveClient,
    git: Git,
    attempt: Attempt,
    base: String,
    files: Vec<PathBuf>,
    spec: CreateNode,
) -> Result<()> {
    let Attempt { worktree, branch, .. } = attempt;
    let add = {
        let (git, worktree, branch, base) = (git.clone(), worktree.clone(), branch.clone(), base.clone());
        let cwd = spec.cwd.clone().unwrap_or_default();
        move || {
            git.add_worktree(&worktree, &branch, &base)?;
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

/// Forgets a fan-out without a running attempt, and returns its error.
fn none_started(store: &Store, fan_out: &FanOut) -> Failure {
    let outcome = fan_out.attempts.iter().find_map(|attempt| attempt.outcome.as_ref());
    let failure =
        Failure::new(outcome.map_or(FAILED, |outcome| outcome.exit_code), "no attempt could be started");
    if fan_out.attempts.iter().any(|attempt| !attempt.is_removed) {
        let _ = store.save(fan_out);
        return failure.hint(follow::command(fan_out, "clean"));
    }
    let _ = store.remove(fan_out);
    failure.hint("nothing was left behind; see the warnings above")
}

async fn run_graph(
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
