//! `nerve server stop`: requests a shutdown and waits until the server's name is free.

use std::time::Duration;

use anyhow::{Context, Result};
use nerve_server::daemon::{Holder, NameStatus, holder, missing_files};
use nerve_server::paths::ServerPaths;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::exit::{FAILED, Failure, TIMED_OUT};
use crate::out;
use nerve_cli::server::StopArgs;

/// Poll interval for the lock, whose release cannot be awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time that a process gets to end after a signal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Stops one server, or all concurrently.
pub(crate) async fn run(args: &StopArgs) -> Result<()> {
    let paths = ServerPaths::from_env();
    let names =
        if args.all { super::status::running(&paths).await } else { running_name(&paths, &args.name.get())? };
    let mut stops = tokio::task::JoinSet::new();
    for name in names.clone() {
        let (paths, timeout) = (paths.clone(), args.timeout.0);
        let (force, keep_nodes) = (args.force, args.keep_nodes);
        stops.spawn(async move { stop(&paths, &name, timeout, force, keep_nodes).await });
    }
    let stopped = out::progress("stopping", stops.join_all()).await;
    let failed = stopped.into_iter().find_map(Result::err);
    if let Some(error) = failed {
        return Err(error);
    }
    if args.json {
        return out::json(&json!({ "stopped": names }));
    }
    for name in &names {
        out::line(format_args!("server '{name}' stopped"))?;
    }
    if names.is_empty() && args.all {
        out::note("no server is running");
    }
    Ok(())
}

/// Returns the name if the server runs; otherwise prints that it does not.
///
/// # Errors
/// Exit code 3 if no server ever had the name.
fn running_name(paths: &ServerPaths, name: &str) -> Result<Vec<String>> {
    if holder(paths, name)? != NameStatus::Free {
        return Ok(vec![name.to_string()]);
    }
    if !super::is_known(paths, name)? {
        return Err(super::not_running(name).into());
    }
    out::note(format_args!("server '{name}' is not running"));
    Ok(Vec::new())
}

/// Stops one server and waits until its name is free.
pub(super) async fn stop(
    paths: &ServerPaths,
    name: &str,
    limit: Duration,
    force: bool,
    keep_nodes: bool,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    let held = holder(paths, name)?;
    let request = timeout_at(deadline, request_shutdown(paths, name, held, keep_nodes)).await;
    match (request, held) {
        (Ok(Err(error)), NameStatus::Free) => return Err(error),
        (Ok(Ok(())), _) if wait_until_free(paths, name, deadline).await? => return Ok(()),
        (_, NameStatus::Held(Some(holder))) if force => return kill(paths, name, holder).await,
        (Ok(Err(error)), _) => {
            return Err(error).context(format!("cannot stop server '{name}'"));
        }
        _ => {}
    }
    let message = format!("server '{name}' did not stop within {} s", limit.as_secs_f64());
    Err(Failure::new(TIMED_OUT, message).hint("kill it with --force").into())
}

/// Requests the shutdown over the socket. A server whose socket was deleted creates it again first. If it cannot, a signal
/// has the same effect, but keeps no nodes.
async fn request_shutdown(paths: &ServerPaths, name: &str, held: NameStatus, keep_nodes: bool) -> Result<()> {
    if !missing_files(paths, name)?.is_empty()
        && let Err(error) = super::repair::repair(paths, name).await
    {
        return match held {
            NameStatus::Held(Some(holder)) if !keep_nodes => Ok(holder.signal(Signal::TERM)?),
            _ => Err(error),
        };
    }
    Ok(super::connect(name).await?.shutdown(keep_nodes).await?)
}

/// Kills the process that holds the lock, and no other process if its pid was reused.
async fn kill(paths: &ServerPaths, name: &str, holder: Holder) -> Result<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        // Fails if the process has just ended; the lock decides.
        let _ = holder.signal(signal);
        if wait_until_free(paths, name, Instant::now() + SIGNAL_TIMEOUT).await? {
            return Ok(());
        }
    }
    Err(Failure::new(FAILED, format!("cannot kill server '{name}', pid {}", holder.pid)).into())
}

async fn wait_until_free(paths: &ServerPaths, name: &str, deadline: Instant) -> Result<bool> {
    loop {
        if holder(paths, name)? == NameStatus::Free {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep_until(Instant::now() + POLL_INTERVAL).await;
    }
}
