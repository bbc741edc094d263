//! `nerve repl` and `nerve server repl`: nodes and graphs, line by line. One program over a client: the server is another process,
//! or this one.
//!
//! | module | what it is |
//! |---|---|
//! | [`input`], [`parser`], [`command`] | from what is typed to what is asked for; pure |
//! | [`completion`] | what the Tab key offers; pure |
//! | [`event_format`] | an event as a line; pure |
//! | [`draft`] | the current graph |
//! | [`source`], [`editor`], [`name_lookup`] | where commands come from; the thread of the editor, and what it asks |
//! | [`screen`] | what is shown |
//! | [`shell`], [`nodes`], [`graphs`] | the program, and what its commands do |
//! | [`interruption`] | what Ctrl-C does |
//! | [`runs`], [`started_nodes`] | what was begun here, and is to be stopped |

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
use nerve_core::engine::EngineConfig;
use nerve_core::session::DEFAULT;
use nerve_core::telemetry::Telemetry;
use nerve_server::InProcess;
use nerve_server::paths::{Places, private_directory};

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

/// What histories and journals call the server in this process.
const SERVER: &str = "repl";
/// Nodes that were not started by a command (of a graph that keeps them, say) get this long to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A REPL with nodes in this process. Gives the exit code.
pub(crate) async fn in_process(args: ReplArgs) -> Result<u8> {
    let trace_export = TraceExport::from_env(SERVER, |problem| out::warning(problem));
    let (client, server) = start_in_process(trace_export.telemetry.clone())?;
    let code = run(client, None, args.options).await;
    if tokio::time::timeout(STOP_TIMEOUT, server.stop(false)).await.is_err() {
        out::warning(format_args!("some nodes did not end within {} s", STOP_TIMEOUT.as_secs()));
    }
    trace_export.finish().await;
    code
}

/// A REPL against a server. Gives the exit code.
pub(crate) async fn on_server(args: ServerReplArgs) -> Result<u8> {
    let client = connect(&args.server).await?;
    run(client, Some(args.server), args.options).await
}

fn start_in_process(telemetry: Telemetry) -> Result<(NerveClient, InProcess)> {
    let places = Places::from_env();
    let config =
        EngineConfig { telemetry, ..engine_config(SERVER, &places, crate::current_exe::path().ok()) };
    let here = create_standalone(config).context("cannot talk to the server in this process")?;
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
    // A person goes on after a file of commands; without one, standard input is read only if there is no such file.
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
    // The editor may be in the middle of a line.
    drop(terminal);
    Ok(shell.finish(exit).await)
}

enum Rest {
    Terminal,
    StandardInput,
}

/// Somebody at the terminal, from now on.
async fn interactive_source(shell: &mut Shell, client: NerveClient, state: SharedState) -> Result<Source> {
    let editor = Editor::start(history(), Lookup::start(client, state)).await?;
    shell.screen = Screen::interactive(editor.printer.clone());
    shell.print_greeting();
    Ok(Source::editor(editor))
}

/// A graph to begin with, or commands to do first.
fn classify_file(file: Option<PathBuf>) -> Result<(Option<PathBuf>, Option<PathBuf>)> {
    match file {
        Some(file) if !file.exists() => {
            Err(Failure::new(NOT_FOUND, format!("there is no file {}", file.display())).into())
        }
        Some(file) if is_graph_file(&file) => Ok((Some(file), None)),
        commands => Ok((None, commands)),
    }
}

/// Where lines are kept; nowhere if there is no folder for it.
fn history() -> Option<PathBuf> {
    let state = Places::from_env().state;
    private_directory(&state).ok().map(|()| history_file(&state))
}
