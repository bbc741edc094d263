//! `nerve machine`: the user's other machines. `nerve connect`: through it, they reach a server on this machine.

use std::io;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use nerve_cli::machine::{ConnectArgs, MachineArgs};
use nerve_machine::bridge::bridge;
use nerve_repl::machine_command;
use nerve_server::paths::ServerPaths;

use super::server::{machines, not_running};

/// Runs the subcommand.
pub(super) async fn run(args: MachineArgs) -> Result<()> {
    machine_command::run(&machines(), args.command, args.json, env!("CARGO_PKG_VERSION")).await
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
