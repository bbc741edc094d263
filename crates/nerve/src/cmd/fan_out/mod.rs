//! `nerve fan-out`: one task for several agents, each in its own git worktree.
//!
//! The nodes belong to a server, and the work is a run of a graph there. Worktrees, branches and the state file are on
//! this machine, so all subcommands work after a crash or a reboot.

mod comparison;
mod follow;
mod pick;
mod prune;
mod removal_report;
mod start;

use std::time::Instant;

use anyhow::Result;
use nerve_client::NerveClient;
use nerve_fan_out::changes::{count_all_changes, count_changes};
use nerve_fan_out::fan_out::FanOut;
use nerve_fan_out::git::Git;
use nerve_fan_out::removal::{self, RemovalReport};
use nerve_fan_out::select::{Selection, select, select_fan_out};
use nerve_fan_out::store::Store;
use nerve_server::paths::ServerPaths;
use serde_json::{Value, json};

pub(super) use self::prune::{PrunedWorktrees, prune};
use super::server::connect;
use crate::exit::{self, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::fan_out::{
    CleanArgs, DiffArgs, FanOutArgs, FanOutCommand, NameArg, PickArgs, RemovalOptions, RunArgs,
};

/// Runs the subcommand, or a fan-out.
pub(super) async fn run(args: FanOutArgs) -> Result<()> {
    let json = args.server.json;
    match args.command {
        None => fan_out(&args.server.server, &args.run, json).await,
        Some(FanOutCommand::List) => list(json).await,
        Some(FanOutCommand::Wait(args)) => wait(&args, json).await,
        Some(FanOutCommand::Diff(args)) => diff(&args, json).await,
        Some(FanOutCommand::Pick(args)) => pick_attempt(&args, json).await,
        Some(FanOutCommand::Clean(args)) => clean(&args, json).await,
    }
}

/// Returns the names of all fan-outs, with their tasks, for completion.
pub(super) fn names() -> Vec<(String, String)> {
    open_store().list(|_, _| ()).into_iter().map(|fan_out| (fan_out.name.clone(), fan_out.title())).collect()
}

/// Opens the state files of the user.
fn open_store() -> Store {
    Store::open(&ServerPaths::from_env().state)
}

async fn fan_out(server: &str, args: &RunArgs, json: bool) -> Result<()> {
    let (started, store) = (Instant::now(), open_store());
    let (client, mut fan_out) = start::start(server, args, &store).await?;
    if args.no_wait {
        if json {
            return out::json(&comparison::to_json(&fan_out, &vec![None; fan_out.attempts.len()], None));
        }
        out::note(fan_out.wait_hint());
        return out::line(&fan_out.name);
    }
    out::note(format_args!("fan-out '{}'; Ctrl+C leaves its agents running:", fan_out.name));
    let options = fan_out.node_options();
    for attempt in fan_out.open_attempts() {
        out::note(format_args!("  nerve attach{options} {}", attempt.node));
    }
    follow::follow(&client, &store, &mut fan_out).await?;
    comparison::print(&fan_out, Some(started.elapsed()), json)?;
    Ok(comparison::check(&fan_out)?)
}

/// Returns the fan-outs of the repository of the current directory; outside a repository, all.
fn fan_outs_here(store: &Store) -> Result<Vec<FanOut>> {
    let mut fan_outs = store.list(|path, error| {
        out::warning(format_args!("cannot read {}: {error:#}", path.display()));
    });
    let here = std::env::current_dir()?;
    // Outside of a repository, and also without git, all are meant.
    if let Ok(common_dir) = Git::find(&here).and_then(|git| git.common_dir()) {
        fan_outs.retain(|fan_out| fan_out.common_dir == common_dir);
    }
    Ok(fan_outs)
}

/// Returns the selected fan-out of this repository.
fn find(store: &Store, name: Option<&str>) -> Result<FanOut> {
    let mut fan_outs = fan_outs_here(store)?;
    let index = select_fan_out(&fan_outs, name)?;
    Ok(fan_outs.swap_remove(index))
}

/// Like [`find`], but requires the whole name, so that the name of a removed fan-out selects no other one.
fn find_exact(store: &Store, name: Option<&str>) -> Result<FanOut> {
    let fan_out = find(store, name)?;
    match name.filter(|name| *name != fan_out.name) {
        None => Ok(fan_out),
        Some(name) => {
            let failure = Failure::new(NOT_FOUND, format!("no fan-out '{name}'"));
            Err(failure.hint(format!("did you mean '{}'?", fan_out.name)).into())
        }
    }
}

async fn list(as_json: bool) -> Result<()> {
    let store = open_store();
    let mut fan_outs = fan_outs_here(&store)?;
    for fan_out in &mut fan_outs {
        follow::refresh(&store, fan_out).await;
    }
    if as_json {
        let item = |fan_out: &FanOut| comparison::to_json(fan_out, &count_all_changes(fan_out), None);
        let fan_outs: Vec<Value> = fan_outs.iter().map(item).collect();
        return out::json(&json!({ "fan_outs": fan_outs }));
    }
    if fan_outs.is_empty() {
        out::note("no fan-outs");
    }
    let mut rows = Vec::new();
    for fan_out in &fan_outs {
        for attempt in &fan_out.attempts {
            let state = match attempt {
                _ if attempt.is_removed => "removed",
                _ if !attempt.worktree.is_dir() => "missing",
                _ => comparison::state_of(attempt),
            };
            let changes = count_changes(fan_out, attempt).ok().flatten();
            let changes = changes.map(|changes| changes.to_string()).unwrap_or_default();
            rows.push(vec![
                format!("{}/{}", fan_out.name, attempt.label),
                state.to_string(),
                changes,
                fan_out.title(),
            ]);
        }
    }
    out::table(&["attempt", "state", "changes", "task"], &rows)
}

async fn wait(args: &NameArg, json: bool) -> Result<()> {
    let store = open_store();
    let mut fan_out = find(&store, args.name.as_deref())?;
    if fan_out.open_attempts().next().is_some() {
        let client = connect(&fan_out.server).await?;
        follow::follow(&client, &store, &mut fan_out).await?;
    }
    comparison::print(&fan_out, None, json)?;
    Ok(comparison::check(&fan_out)?)
}

async fn diff(args: &DiffArgs, json: bool) -> Result<()> {
    let store = open_store();
    let mut fan_outs = fan_outs_here(&store)?;
    let selection = match &args.attempt {
        None => Selection { fan_out: select_fan_out(&fan_outs, None)?, attempt: None },
        Some(text) => select(&fan_outs, text)?,
    };
    let fan_out = &mut fan_outs[selection.fan_out];
    let Some(index) = selection.attempt else {
        follow::refresh(&store, fan_out).await;
        return comparison::print(fan_out, None, json);
    };
    let attempt = &fan_out.attempts[index];
    if json {
        let changes = count_changes(fan_out, attempt)?;
        return out::json(&json!({
            "name": fan_out.name, "label": attempt.label, "node_id": attempt.node, "changes": changes,
        }));
    }
    if attempt.worktree.is_dir() {
        return Git::at(&attempt.worktree).print_diff(&fan_out.base);
    }
    let git = Git::at(&fan_out.common_dir);
    match git.resolve_branch(&attempt.branch)? {
        Some(commit) => git.print_diff_between(&fan_out.base, &commit),
        None => {
            let message =
                format!("{} has no changes to show: its worktree and its branch were deleted", attempt.label);
            Err(Failure::new(NOT_FOUND, message).into())
        }
    }
}

async fn pick_attempt(args: &PickArgs, json: bool) -> Result<()> {
    let store = open_store();
    let mut fan_outs = fan_outs_here(&store)?;
    let selection = select(&fan_outs, &args.attempt)?;
    let fan_out = &mut fan_outs[selection.fan_out];
    let fan_out_name = args.attempt.split_once('/').map(|(name, _)| name);
    if let Some(name) = fan_out_name.filter(|name| fan_out.name.starts_with(*name) && *name != fan_out.name) {
        let failure = Failure::new(NOT_FOUND, format!("no fan-out '{name}'"));
        return Err(failure.hint(format!("did you mean '{}'?", fan_out.name)).into());
    }
    let Some(index) = selection.attempt else {
        let labels = fan_out.attempts.iter().map(|attempt| format!("{}/{}", fan_out.name, attempt.label));
        let hint = format!("candidates: {}", labels.collect::<Vec<_>>().join(", "));
        let message = format!("'{}' is a fan-out: which attempt is to be merged?", fan_out.name);
        return Err(Failure::new(USAGE, message).hint(hint).into());
    };
    let _reserved = store.reserve_current(fan_out)?;
    follow::refresh(&store, fan_out).await;
    let client = connect_if_running(&fan_out.server).await?;
    pick::pick(client.as_ref(), &store, fan_out, index, args.removal, json).await
}

async fn clean(args: &CleanArgs, json: bool) -> Result<()> {
    let store = open_store();
    let fan_outs = match args.all {
        true => {
            // Outside of a repository, --all would select those of every repository.
            Git::find(&std::env::current_dir()?)?;
            fan_outs_here(&store)?
        }
        false => vec![find_exact(&store, args.name.as_deref())?],
    };
    if fan_outs.is_empty() {
        out::note("no fan-outs");
    }
    let mut documents = Vec::new();
    let mut result = Ok(());
    for mut fan_out in fan_outs {
        let report = match clean_one(&store, &mut fan_out, args.removal).await {
            Err(error) if args.all => RemovalReport::refused(&fan_out, &exit::failure(&error).message),
            report => report?,
        };
        result = result.and(removal_report::print(&report));
        documents.push(json!({
            "name": fan_out.name, "removed": report.removed, "kept": removal_report::failed_to_json(&report),
            "branches": report.kept_branches,
        }));
    }
    if json {
        out::json(&json!({ "fan_outs": documents }))?;
    }
    Ok(result?)
}

/// Removes all attempts of a fan-out.
async fn clean_one(store: &Store, fan_out: &mut FanOut, options: RemovalOptions) -> Result<RemovalReport> {
    let _reserved = store.reserve_current(fan_out)?;
    follow::refresh(store, fan_out).await;
    let client = connect_if_running(&fan_out.server).await?;
    let attempts: Vec<usize> = (0..fan_out.attempts.len()).collect();
    if !options.force {
        removal::check_idle(client.as_ref(), fan_out).await?;
    }
    removal::remove(client.as_ref(), store, fan_out, &attempts, options.discard).await
}

/// Connects to the server of a fan-out. Without it, nodes are not removed.
async fn connect_if_running(server: &str) -> Result<Option<NerveClient>> {
    match connect(server).await {
        Ok(client) => Ok(Some(client)),
        Err(error) if exit::failure(&error).code == NOT_FOUND => {
            out::warning(format_args!(
                "server '{server}' is not running: the nodes stay in its list; remove them later with 'nerve rm NODE'"
            ));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
