//! Starts a fan-out: worktrees, nodes and the run of its graph.

use std::path::Path;

use anyhow::{Context, Result};
use nerve_client::NerveClient;
use nerve_commands::prompt;
use nerve_fan_out::fan_out::{Attempt, FanOut};
use nerve_fan_out::git::Git;
use nerve_fan_out::include;
use nerve_fan_out::plan::{plan, split_commands};
use nerve_fan_out::start::{NodeSettings, create, none_started, prepare, run_graph};
use nerve_fan_out::store::Store;
use nerve_node::terminal::check_prompt;
use nerve_types::suggestion::nearest;

use crate::cmd::server::{connect, is_remote};
use crate::exit::{self, Failure, USAGE};
use crate::out;
use nerve_cli::fan_out::{MAX_ATTEMPTS, RunArgs};

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
    let (mut fan_out, _reserved) = create(
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
    let settings = NodeSettings { profile: args.profile.clone(), budget: each, turn_timeout: args.timeout.0 };
    prepare(&client, &git, &mut fan_out, &settings, &files, warn_of_failure).await;
    if fan_out.open_attempts().next().is_none() {
        return Err(none_started(store, &fan_out).into());
    }
    run_graph(&client, store, &mut fan_out, args.timeout.0, total).await.map_err(|error| {
        let failure = exit::failure(&error);
        Failure { hint: Some(fan_out.clean_hint()), ..failure }
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

fn warn_of_failure(attempt: &Attempt, failure: &Failure) {
    out::warning(format_args!("{} cannot start: {}", attempt.label, out::sanitize(&failure.message)));
    if let Some(hint) = &failure.hint {
        out::hint(out::sanitize(hint));
    }
}
