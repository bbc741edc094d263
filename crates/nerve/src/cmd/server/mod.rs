//! `nerve server`: start, stop, restart, status, list, logs; and connecting to a server.

pub(crate) mod foreground;
pub(crate) mod listen;
mod local_server;
mod log_file;
pub(crate) mod logs;
mod remote_server;
pub(crate) mod repair;
pub(crate) mod restart;
pub(crate) mod start;
mod start_report;
pub(crate) mod status;
pub(crate) mod stop;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nerve_client::{ClientError, NerveClient, Reconnect};
use nerve_machine::Machines;
use nerve_machine::address::is_on_machine;
use nerve_machine::connect::CONNECT_TIMEOUT as MACHINE_TIMEOUT;
use nerve_server::daemon::missing_files;
use nerve_server::paths::ServerPaths;

pub(crate) use self::local_server::LocalServer;
use self::remote_server::NetworkAddress;
use crate::exit::{FAILED, Failure, NOT_FOUND};

/// Time limit for connecting to one of several servers.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);

/// Connects to a server by its name, or by `tcp://HOST:PORT`, `tls://HOST:PORT`, `ssh://HOST` or `machine://NAME`.
///
/// # Errors
/// Exit code 3 if the server is not running.
pub(crate) async fn connect(server: &str) -> Result<NerveClient> {
    if let Some(address) = NetworkAddress::parse(server) {
        return remote_server::connect(address).await;
    }
    if let Some(machine) = machines().find_server(server)? {
        return Ok(machines().connect(&machine, MACHINE_TIMEOUT).await?);
    }
    let paths = ServerPaths::from_env();
    let socket = paths.socket(server)?;
    match NerveClient::connect(&socket).await {
        Ok(client) => Ok(client.reconnect(Reconnect::Never)),
        Err(ClientError::NotRunning { .. }) => match missing_files(&paths, server)?.as_slice() {
            [] => Err(not_running(server).into()),
            _ => Err(unreachable(server, &socket).into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Returns the user's list of machines.
pub(crate) fn machines() -> Machines {
    let paths = ServerPaths::from_env();
    Machines::new(&paths.config, &paths.state).share_logins(&paths.runtime)
}

/// Connects to the servers that run on this machine.
pub(crate) async fn running_servers() -> Vec<(String, NerveClient)> {
    let paths = ServerPaths::from_env();
    let mut connected = Vec::new();
    for name in paths.servers() {
        let Ok(socket) = paths.socket(&name) else { continue };
        if let Ok(Ok(client)) = tokio::time::timeout(CONNECT_TIMEOUT, NerveClient::connect(&socket)).await {
            connected.push((name, client));
        }
    }
    connected
}

/// Returns true if the server is addressed over the network or through ssh, so its files are not local.
pub(crate) fn is_remote(server: &str) -> bool {
    NetworkAddress::parse(server).is_some() || is_on_machine(server)
}

fn unreachable(server: &str, socket: &Path) -> Failure {
    Failure::new(FAILED, format!("server '{server}' is running, but {} was deleted", socket.display()))
        .hint("make it create its socket again with 'nerve doctor --fix'")
}

/// Returns true if a server of this name has run before.
fn is_known(paths: &ServerPaths, server: &str) -> Result<bool> {
    Ok(paths.lock(server)?.exists() || paths.log(server)?.exists())
}

pub(super) fn not_running(server: &str) -> Failure {
    let start = if server == "default" { String::new() } else { format!(" {server}") };
    Failure::new(NOT_FOUND, format!("server '{server}' is not running"))
        .hint(format!("start it with 'nerve server start{start}'"))
}
