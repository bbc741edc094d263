//! `nerve machine drain` and `undrain`.

use std::time::Duration;

use anyhow::Result;
use nerve_cli::machine::{DrainArgs, UndrainArgs};
use nerve_commands::failure::{FAILED, Failure, TIMED_OUT};
use nerve_commands::node_command::DurationArg;
use nerve_commands::out;
use nerve_member::Membership;
use nerve_server::paths::ServerPaths;
use serde_json::json;

use crate::{failure, membership};

/// Drains a machine, and waits until no step runs there.
///
/// # Errors
/// [`Failure`] with an exit code and a hint, also if the machine is away: its steps may run.
pub async fn drain(args: &DrainArgs, as_json: bool) -> Result<()> {
    let commands = membership::commands(&ServerPaths::from_env());
    let name = commands.set_drained(args.name.as_deref(), true).await.map_err(failure)?;
    if args.no_wait {
        if as_json {
            return out::json(&json!({ "machine_name": name, "drain": "requested" }));
        }
        out::note("see the steps that run: nerve cluster status");
        return out::line(format_args!("machine '{name}' begins no more steps"));
    }
    let is_present = wait(&commands, &name, args.timeout.map(|DurationArg(limit)| limit)).await?;
    if as_json {
        let state = if is_present { "drained" } else { "requested" };
        out::json(&json!({ "machine_name": name, "drain": state, "present": is_present }))?;
    } else if is_present {
        out::line(format_args!("machine '{name}' is drained"))?;
    }
    if is_present {
        return Ok(());
    }
    let hint = format!("it begins no more steps; once it is back, run 'nerve machine drain {name}' again");
    Err(Failure::new(FAILED, format!("machine '{name}' is away: its steps may run")).hint(hint).into())
}

/// Ends the drain of a machine.
///
/// # Errors
/// [`Failure`] with an exit code and a hint.
pub async fn undrain(args: &UndrainArgs, as_json: bool) -> Result<()> {
    let commands = membership::commands(&ServerPaths::from_env());
    let name = commands.set_drained(args.name.as_deref(), false).await.map_err(failure)?;
    if as_json {
        return out::json(&json!({ "machine_name": name, "drain": null }));
    }
    out::line(format_args!("machine '{name}' begins steps again"))
}

/// Waits until a machine executes no step. Returns false if it is away.
async fn wait(commands: &Membership, name: &str, limit: Option<Duration>) -> Result<bool, Failure> {
    let waiting = out::progress("draining", commands.wait_until_drained(name));
    let found = match limit {
        None => waiting.await,
        Some(limit) => tokio::time::timeout(limit, waiting).await.map_err(|_| {
            let message =
                format!("machine '{name}' is not drained yet: steps run there, or it has not replied");
            Failure::new(TIMED_OUT, message)
                .hint(format!("it begins no more steps; wait again with 'nerve machine drain {name}'"))
        })?,
    };
    Ok(found.map_err(failure)?.is_some())
}
