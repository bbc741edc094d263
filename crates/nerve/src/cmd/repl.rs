//! `nerve repl` and `nerve server repl`: an interactive client. The server is this process or another one.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_client::NerveClient;
use nerve_compose::{create_standalone, engine_config};
use nerve_engine::EngineConfig;
use nerve_node::telemetry::Telemetry;
use nerve_server::InProcessServer;
use nerve_server::paths::{ServerPaths, private_directory};
use nerve_telemetry::TraceExport;
use nerve_types::name::check;

use super::server::connect;
use crate::out;
use nerve_cli::repl::{ReplArgs, ReplOptions, ServerReplArgs};

/// Server name in histories and journals of this process.
const SERVER: &str = "repl";
/// Time limit for stopping nodes that no command started, for example those of graphs.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a REPL with nodes in this process. Returns the exit code.
pub(super) async fn in_process(args: ReplArgs) -> Result<u8> {
    let trace_export = TraceExport::from_env(SERVER, None, |problem| out::warning(problem));
    let (client, server) = start_in_process(trace_export.telemetry)?;
    let code = nerve_repl::run(client, options(None, args.options)).await;
    if tokio::time::timeout(STOP_TIMEOUT, server.stop(false)).await.is_err() {
        out::warning(format_args!("some nodes did not stop within {} s", STOP_TIMEOUT.as_secs()));
    }
    trace_export.finish().await;
    code
}

/// Runs a REPL on a server. Returns the exit code.
pub(super) async fn on_server(mut args: ServerReplArgs) -> Result<u8> {
    if let Some(name) = args.options.file.as_deref().and_then(server_name) {
        args.server = name.to_string();
        args.options.file = None;
    }
    let client = connect(&args.server).await?;
    nerve_repl::run(client, options(Some(args.server), args.options)).await
}

/// Returns the argument if it is the name of a server: a valid name, and no file.
fn server_name(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|name| check("server", name).is_ok() && !argument.exists())
}

fn options(server: Option<String>, args: ReplOptions) -> nerve_repl::Options {
    let ReplOptions { file, keep_going, session } = args;
    nerve_repl::Options { server, file, keep_going, session, history: editor_history() }
}

/// Returns the history file of the editor, if there is one and its directory is usable.
fn editor_history() -> Option<PathBuf> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let state = is_terminal.then(|| ServerPaths::from_env().state)?;
    private_directory(&state).ok().map(|()| state.join("repl_history"))
}

fn start_in_process(telemetry: Telemetry) -> Result<(NerveClient, InProcessServer)> {
    let paths = ServerPaths::from_env();
    let config = EngineConfig { telemetry, ..engine_config(SERVER, &paths, crate::current_exe::path().ok()) };
    let standalone = create_standalone(config).context("cannot start a server in this process")?;
    Ok(standalone.into_parts())
}
