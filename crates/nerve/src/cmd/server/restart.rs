//! `nerve server restart`: stops a server without its nodes, and starts it again with the same options.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::NodeInfo;
use nerve_api::value::NodeState;
use nerve_server::daemon::{Holder, NameStatus, addresses, holder};
use nerve_server::paths::ServerPaths;
use nerve_types::os;
use tokio::time::timeout;

use super::status::PING_TIMEOUT;
use super::{listen, start, stop};
use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::server::{RestartArgs, ServerCommand, StartArgs};
use nerve_cli::{Cli, Command};

/// Restarts a server, or starts it if it does not run.
pub(crate) async fn run(args: &RestartArgs) -> Result<()> {
    let paths = ServerPaths::from_env();
    let name = args.name.get();
    let (listen_args, dir) = match holder(&paths, &name)? {
        NameStatus::Free => (Vec::new(), None),
        NameStatus::Held(Some(holder)) => {
            let (start_args, dir) = command_line_of(&name, &holder)?;
            let mut config = listen::config(name.clone(), paths.clone(), &start_args.listen)?;
            // Clients know the ports that the system has chosen.
            let running = addresses(&paths, &name)?;
            (config.tcp, config.http) = (running.tcp, running.http);
            (listen::daemon_args(&config), Some(dir))
        }
        NameStatus::Held(None) => {
            let message = format!("cannot restart server '{name}': its process is unknown");
            return Err(Failure::new(FAILED, message).hint("try again in a moment").into());
        }
    };
    let was_running = dir.is_some();
    let mut nodes = None;
    if was_running {
        nodes = running_nodes(&name).await;
        stop::stop(&paths, &name, args.timeout.0, false, true).await?;
    }
    let server = start::launch(&name, &paths, &listen_args, dir.as_deref()).await?;
    if let Some(nodes) = nodes.filter(|nodes| !nodes.is_empty())
        && let Some(remaining) = running_nodes(&name).await
    {
        let ended: Vec<&str> = nodes.difference(&remaining).map(String::as_str).collect();
        if !ended.is_empty() {
            out::warning(format_args!(
                "nodes that have no host, or whose programs exited, ended: {}",
                ended.join(", ")
            ));
        }
    }
    if args.json {
        let mut document = server.as_json();
        document["was_running"] = was_running.into();
        return out::json(&document);
    }
    server.print()
}

/// Returns the nodes of a server that run, as `SESSION/NODE` outside of the default session; `None` if it does not respond.
async fn running_nodes(server: &str) -> Option<BTreeSet<String>> {
    let nodes = async { super::connect(server).await.ok()?.list_all_nodes().await.ok() };
    let nodes = timeout(PING_TIMEOUT, nodes).await.ok().flatten()?;
    let running = nodes.into_iter().filter(|node| node.state != NodeState::Stopped);
    let path = |node: NodeInfo| match node.metadata.session_id.as_str() {
        DEFAULT_SESSION => node.node_id,
        session => format!("{session}/{}", node.node_id),
    };
    Some(running.map(path).collect())
}

/// Returns the command line and the working directory of a server in the background.
fn command_line_of(name: &str, holder: &Holder) -> Result<(StartArgs, PathBuf)> {
    let unreadable = || format!("cannot read how server '{name}' was started");
    let dir = os::current_dir(holder.pid).with_context(unreadable)?;
    let words = os::command_line(holder.pid).with_context(unreadable)?;
    match <Cli as clap::Parser>::try_parse_from(words) {
        Ok(Cli { command: Command::Server(server), .. }) => match server.command {
            ServerCommand::Start(args) if args.daemon => Ok((args, dir)),
            _ => Err(foreground_error(name)),
        },
        _ => Err(foreground_error(name)),
    }
}

fn foreground_error(name: &str) -> anyhow::Error {
    Failure::new(FAILED, format!("cannot restart server '{name}': it was not started in the background"))
        .hint(format!(
            "stop it with 'nerve server stop {name} --keep-nodes', and start it where it was started"
        ))
        .into()
}
