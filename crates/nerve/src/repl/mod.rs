//! `nerve repl` and `nerve server repl`: an interactive client for nodes and graphs. The server is another process or this
//! one.
//!
//! | module | content |
//! |---|---|
//! | [`input`], [`parser`], [`command`] | parse typed lines into requests; no I/O |
//! | [`completion`] | Tab completion; no I/O |
//! | [`event_format`] | formats events; no I/O |
//! | [`draft`] | the current graph |
//! | [`source`], [`editor`], [`name_lookup`] | where commands come from; the editor thread; names for completion |
//! | [`screen`] | output |
//! | [`shell`], [`nodes`], [`graphs`] | the main loop and the commands |
//! | [`interruption`] | Ctrl-C and termination signals |
//! | [`runs`], [`started_nodes`] | runs and nodes to stop at exit |

mod command;
mod completion;
mod draft;
mod editor;
mod event_format;
mod graphs;
mod help;
mod input;
mod interruption;
mod name_lookup;
mod nodes;
mod parser;
mod runs;
mod screen;
mod shell;
mod source;
mod started_nodes;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use nerve_client::NerveClient;
use nerve_compose::{create_standalone, engine_config};
use nerve_engine::EngineConfig;
use nerve_graph::session::DEFAULT;
use nerve_node::telemetry::Telemetry;
use nerve_server::InProcess;
use nerve_server::paths::{ServerPaths, private_directory};

use self::editor::{Editor, TerminalGuard};
use self::name_lookup::{Lookup, SharedState, with_state};
use self::screen::Screen;
use self::shell::{Exit, Shell};
use self::source::{Source, history_file, is_graph_file};
use crate::cli::repl::{ReplArgs, ReplOptions, ServerReplArgs};
use crate::cmd::server::connect;
use crate::exit::{DONE, Failure, INTERRUPTED, NOT_FOUND};
use crate::out;
use crate::telemetry::TraceExport;

/// Server name in histories and journals of this process.
const SERVER: &str = "repl";
/// Time limit for stopping nodes that no command started, for example those of graphs.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a REPL with nodes in this process. Returns the exit code.
pub(crate) async fn in_process(args: ReplArgs) -> Result<u8> {
    let trace_export = TraceExport::from_env(SERVER, None, |problem| out::warning(problem));
    let (client, server) = start_in_process(trace_export.telemetry)?;
    let code = run(client, None, args.options).await;
    if tokio::time::timeout(STOP_TIMEOUT, server.stop(false)).await.is_err() {
        out::warning(format_args!("some nodes did not stop within {} s", STOP_TIMEOUT.as_secs()));
    }
    trace_export.finish().await;
    code
}

/// Runs a REPL on a server. Returns the exit code.
pub(crate) async fn on_server(args: ServerReplArgs) -> Result<u8> {
    let client = connect(&args.server).await?;
    run(client, Some(args.server), args.options).await
}

fn start_in_process(telemetry: Telemetry) -> Result<(NerveClient, InProcess)> {
    let paths = ServerPaths::from_env();
    let config = EngineConfig { telemetry, ..engine_config(SERVER, &paths, crate::current_exe::path().ok()) };
    let here = create_standalone(config).context("cannot start a server in this process")?;
    Ok(here.into_parts())
}

async fn run(client: NerveClient, server: Option<String>, args: ReplOptions) -> Result<u8> {
    let terminal = TerminalGuard::save();
    let state = SharedState::default();
    if let Some(session) = args.session.filter(|session| session != DEFAULT) {
        client.session(Some(&session)).await?;
        with_state(&state, |state| state.session = Some(session));
    }
    let (graph, commands) = classify_file(args.file)?;
    // On a terminal the REPL becomes interactive after the script. Otherwise standard input is read only without a script.
    let rest = match (screen::is_terminal(), commands.is_some()) {
        (true, _) => Some(Rest::Terminal),
        (false, true) => None,
        (false, false) => Some(Rest::StandardInput),
    };
    let mut shell = Shell::new(client.clone(), server, Screen::plain(), state.clone())?;
    let mut exit = Exit { code: DONE, keep: false };
    let mut is_done = false;
    if let Some(graph) = graph {
        shell.load(&graph)?;
    }
    if let Some(commands) = commands {
        let mut source = Source::file(&commands)?;
        exit = shell.run(&mut source, args.keep_going).await;
        let continues = exit.code == DONE || (args.keep_going && exit.code != INTERRUPTED);
        is_done = shell.has_exited() || !continues;
    }
    if let (false, Some(rest)) = (is_done, rest) {
        let source = match rest {
            Rest::StandardInput => Source::standard_input(),
            Rest::Terminal => interactive_source(&mut shell, client, state).await,
        };
        let mut source = match source {
            Ok(source) => source,
            Err(error) => {
                shell.finish(exit).await;
                return Err(error);
            }
        };
        exit = shell.run(&mut source, args.keep_going).await;
    }
    // A line may still be in the editor.
    drop(terminal);
    Ok(shell.finish(exit).await)
}

enum Rest {
    Terminal,
    StandardInput,
}

/// Switches the shell to interactive mode.
async fn interactive_source(shell: &mut Shell, client: NerveClient, state: SharedState) -> Result<Source> {
    let editor = Editor::start(history(), Lookup::start(client, state)).await?;
    shell.screen = Screen::interactive(editor.printer.clone());
    shell.print_greeting();
    Ok(Source::editor(editor))
}

/// Tells a graph file from a command script. Returns (graph, script).
fn classify_file(file: Option<PathBuf>) -> Result<(Option<PathBuf>, Option<PathBuf>)> {
    match file {
        Some(file) if !file.exists() => {
            Err(Failure::new(NOT_FOUND, format!("file not found: {}", file.display())).into())
        }
        Some(file) if is_graph_file(&file) => Ok((Some(file), None)),
        commands => Ok((None, commands)),
    }
}

/// Returns the history file, if its directory is usable.
fn history() -> Option<PathBuf> {
    let state = ServerPaths::from_env().state;
    private_directory(&state).ok().map(|()| history_file(&state))
}
