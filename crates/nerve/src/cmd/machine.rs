//! `nerve machine`: the user's other machines. `nerve connect`: through it, they reach a server on this machine.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};
use nerve_cli::machine::{ConnectArgs, MachineArgs, MachineSubcommand};
use nerve_commands::machine_command;
use nerve_commands::node_command::split_node_path;
use nerve_machine::bridge::bridge;
use nerve_server::paths::ServerPaths;

use super::cluster;
use super::server::{machines, not_running};

/// Runs the subcommand.
pub(super) async fn run(args: MachineArgs) -> Result<()> {
    match args.command {
        MachineSubcommand::Remote(command) => {
            machine_command::run(&machines(), command, args.json, env!("CARGO_PKG_VERSION")).await
        }
        MachineSubcommand::Drain(drain) => cluster::drain(&drain, args.json).await,
        MachineSubcommand::Undrain(undrain) => cluster::undrain(&undrain, args.json).await,
    }
}

/// Resolves the address of a node, `[[MACHINE/]SESSION/]NODE`: its machine becomes the server, and its session `session`.
pub(crate) fn resolve_node(
    node: &mut String,
    session: &mut Option<String>,
    server: &mut String,
) -> Result<()> {
    machines().resolve_node(node, server)?;
    Ok(split_node_path(node, session)?)
}

/// Resolves the name of a recording: its machine becomes the server. `None`: no server is needed.
pub(crate) fn resolve_recording(name: Option<&mut String>, server: &mut Option<String>) -> Result<()> {
    let Some(name) = name.filter(|name| !Path::new(name.as_str()).exists()) else { return Ok(()) };
    let mut selected = server.clone().unwrap_or_default();
    machines().resolve_recording(name, &mut selected)?;
    *server = Some(selected).filter(|selected| !selected.is_empty());
    Ok(())
}

/// Runs `nerve connect`.
pub(super) fn connect(args: &ConnectArgs) -> Result<()> {
    let socket = ServerPaths::from_env().socket(&args.server)?;
    let server = UnixStream::connect(&socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(&args.server).into(),
        _ => anyhow::Error::new(error).context(format!("cannot connect to {}", socket.display())),
    })?;
    bridge(server).context("the connection to the server broke")
}
