//! Implements the commands.

mod activity_text;
mod ask;
mod attach;
mod branch;
mod config;
mod demo;
mod docs;
mod doctor;
mod engine_error;
mod event_hook;
mod events;
pub(crate) mod exec;
mod extract;
mod graph;
mod hook;
mod host;
mod local_time;
mod mcp;
mod mock;
mod node;
mod notify;
pub(crate) mod pane;
mod pattern;
mod proxy;
mod record;
pub(crate) mod recording;
mod repl;
mod result;
mod screen_support;
pub(crate) mod server;
mod session;
pub(crate) mod show;
mod snapshot;
mod spawn_failure;
mod token;
mod top;
mod viewer;

use std::future::Future;

use anyhow::{Context, Result};
use nerve_client::ClientError;
use nerve_repl::node_command::NodeCommand;
use nerve_server::paths::ServerPaths;

use crate::cli::graph::GraphArgs;
use crate::cli::node::NodeArgs;
use crate::cli::recording::RecordingsCommand;
use crate::cli::server::{ServerArgs, ServerCommand};
use crate::cli::snapshot::SnapshotCommand;
use crate::cli::{Cli, Command};
use crate::exit::{DONE, FAILED, Failure, INTERRUPTED};
use crate::out;

/// Hint for a server that disappeared during a request.
const RECONNECT_HINT: &str = "'nerve server start' recovers its nodes and their running turns; then 'nerve server node wait NODE' and 'read NODE'";

/// Runs the command and returns the exit code.
pub(crate) fn run(cli: Cli) -> Result<u8> {
    // An agent's shell must not write into the output of its commands.
    if !matches!(cli.command, Command::Exec(_)) && ServerPaths::lacks_home(|name| std::env::var_os(name)) {
        let state = ServerPaths::from_env().state;
        out::warning(format_args!("HOME is not set: nerve keeps its state in {}", state.display()));
    }
    match cli.command {
        Command::Demo(args) => run_multi_threaded(demo::run(args))?,
        Command::Ask(args) => run_multi_threaded(ask::run(args))?,
        // The viewer starts its recorder in another process.
        Command::Record(args) if record::shows_viewer(&args) => {
            return run_single_threaded(record::record_in_viewer(&args));
        }
        Command::Record(args) => return run_multi_threaded(record::record(*args)),
        Command::Events(args) => run_single_threaded(interruptible(events::run(args)))?,
        Command::Notify(args) => run_single_threaded(interruptible(notify::run(args)))?,
        Command::Top(args) => return run_single_threaded(top::run(args)),
        Command::Attach(args) => return run_single_threaded(attach::attach(args)),
        Command::Exec(args) => return run_multi_threaded(exec::run(args)),
        Command::ShowSandboxExecution(args) => return show::run(&args),
        Command::Server(ServerArgs { command: ServerCommand::Repl(args) }) => {
            return run_single_threaded(repl::on_server(args));
        }
        Command::Server(args) => run_server(args)?,
        Command::Token(args) => token::run(&args)?,
        Command::Result(args) => run_single_threaded(interruptible(result::run(args)))?,
        Command::Repl(args) => return run_multi_threaded(repl::in_process(args)),
        Command::Config(args) => config::run(args)?,
        Command::Pattern(args) => run_single_threaded(pattern::run(args))?,
        Command::Mcp(args) => mcp::run(&args)?,
        Command::Proxy(args) => run_multi_threaded(proxy::run(*args))?,
        Command::Host(args) => host::run(args)?,
        Command::Snapshot(args) => snapshot::run(*args)?,
        Command::Branch(args) => run_single_threaded(interruptible(branch::command(*args)))?,
        Command::Replay(args) => return recording::replay(&args),
        Command::View(args) => return recording::view(&args),
        Command::BranchPoints(args) => return recording::branch_points(&args),
        Command::Export(args) => return recording::export(&args),
        Command::Import(args) => recording::import(&args)?,
        Command::Inspect(args) => return recording::inspect(&args),
        Command::Recordings(args) => recording::recordings(&args)?,
        Command::Extract(args) => return run_single_threaded(interruptible(extract::run(&args))),
        Command::Parse(args) => {
            out::warning("'nerve parse' is now 'nerve extract'");
            return run_single_threaded(interruptible(extract::run(&args)));
        }
        Command::Tmux(args) => {
            let tmux = pane::Multiplexer::tmux(args.socket.as_deref());
            run_single_threaded(interruptible(pane::run(tmux, args)))?;
        }
        Command::Wezterm(args) => {
            let wezterm = pane::Multiplexer::wezterm(args.socket.as_deref());
            run_single_threaded(interruptible(pane::run(wezterm, args)))?;
        }
        Command::Doctor(args) => run_single_threaded(interruptible(doctor::run(&args)))?,
        Command::MockAgent(args) => return mock::agent(args),
        Command::MockModel(args) => run_single_threaded(mock::model(&args))?,
        Command::Completions(args) => docs::completions(&args)?,
        Command::Man(args) => docs::man(&args)?,
        Command::Hook(args) => hook::run(&args),
        Command::CliReference => docs::reference()?,
        Command::OpenApi => docs::openapi()?,
    }
    Ok(DONE)
}

/// Returns true if the command prints its errors as JSON.
pub(crate) fn prints_json(cli: &Cli) -> bool {
    match &cli.command {
        Command::Demo(args) => args.json,
        Command::Ask(args) => args.json,
        Command::Snapshot(args) => match &args.command {
            None => args.take.json,
            Some(SnapshotCommand::Restore(args)) => args.json,
            Some(SnapshotCommand::List(args)) => args.json,
        },
        Command::Branch(args) => args.server.json,
        Command::Replay(args) => args.json,
        Command::BranchPoints(args) => args.json,
        Command::Import(args) => args.json,
        Command::Inspect(args) => args.json,
        Command::Recordings(args) => match &args.command {
            RecordingsCommand::List(args) => args.json,
            RecordingsCommand::Prune(args) => args.json,
            RecordingsCommand::Branches(args) => args.json,
            RecordingsCommand::Repair(args) => args.json,
        },
        Command::Config(args) => {
            matches!(&args.command, crate::cli::config::ConfigCommand::Show(args) if args.json)
        }
        Command::Pattern(args) => args.server.json,
        Command::Mcp(args) => args.listen.json,
        Command::Proxy(args) => args.prints_json(),
        Command::Token(args) => args.json,
        Command::Events(args) => args.server.json,
        Command::Result(args) => args.server.json,
        Command::Extract(args) | Command::Parse(args) => args.json,
        Command::Tmux(args) | Command::Wezterm(args) => args.json,
        Command::Doctor(args) => args.json,
        Command::Server(args) => match &args.command {
            ServerCommand::Start(_) => false,
            ServerCommand::Stop(args) => args.json,
            ServerCommand::Status(args) => args.json,
            ServerCommand::List(args) => args.json,
            ServerCommand::Node(args) | ServerCommand::Channel(args) => args.server.json,
            ServerCommand::Session(args) => args.server.json,
            ServerCommand::Graph(args) | ServerCommand::Dag(args) => args.server.json,
            ServerCommand::Repl(_) => false,
        },
        _ => false,
    }
}

fn run_server(args: ServerArgs) -> Result<()> {
    match args.command {
        ServerCommand::Start(args) if args.foreground => {
            run_multi_threaded(server::start::in_foreground(&args))
        }
        ServerCommand::Start(args) => run_single_threaded(interruptible(server::start::in_background(&args))),
        ServerCommand::Stop(args) => run_single_threaded(interruptible(server::stop::run(&args))),
        ServerCommand::Status(args) => run_single_threaded(interruptible(server::status::run(&args))),
        ServerCommand::List(args) => run_single_threaded(interruptible(server::status::list(&args))),
        ServerCommand::Node(args) => run_node(args, "node"),
        ServerCommand::Channel(args) => run_node(args, "channel"),
        ServerCommand::Session(args) => run_single_threaded(interruptible(session::run(args))),
        ServerCommand::Graph(args) => run_graph(args, "graph"),
        ServerCommand::Dag(args) => run_graph(args, "dag"),
        // Handled by `run`, because it has its own exit code.
        ServerCommand::Repl(_) => Ok(()),
    }
}

fn run_node(args: NodeArgs, group: &str) -> Result<()> {
    let (used, today) = match &args.command {
        NodeCommand::Send(_) => (Some("send"), "execute"),
        NodeCommand::Delete(_) => (Some("delete"), "stop"),
        NodeCommand::Close(_) => (Some("close"), "stop"),
        _ => (None, "…"),
    };
    if group != "node" || used.is_some() {
        let used = used.unwrap_or("…");
        out::warning(format_args!("'nerve server {group} {used}' is now 'nerve server node {today}'"));
    }
    let detached_hint = match &args.command {
        NodeCommand::Execute(args) | NodeCommand::Send(args) if !args.talk.is_async => Some(format!(
            "the turn continues, and the history records its end; interrupt it with 'nerve server node interrupt {}'",
            args.node
        )),
        _ => None,
    };
    let server = args.server.server.clone();
    run_single_threaded(async move {
        interruptible(node::run(args)).await.map_err(|error| {
            match (error.downcast::<Failure>(), detached_hint) {
                (Ok(failure), Some(hint)) if failure.code == INTERRUPTED => failure.hint(hint).into(),
                (Ok(failure), _) => failure.into(),
                (Err(error), _) if matches!(error.downcast_ref(), Some(ClientError::Closed(_))) => {
                    let message = format!("server '{server}' closed the connection before it replied");
                    Failure::new(FAILED, message).hint(RECONNECT_HINT).into()
                }
                (Err(error), _) => error,
            }
        })
    })
}

fn run_graph(args: GraphArgs, group: &str) -> Result<()> {
    if group != "graph" {
        let command = args.command.name();
        out::warning(format_args!("'nerve server {group} {command}' is now 'nerve server graph {command}'"));
    }
    // A command that follows a run handles Ctrl+C itself.
    match args.command.follows_run() {
        true => run_single_threaded(graph::run(args)),
        false => run_single_threaded(interruptible(graph::run(args))),
    }
}

/// Cancels the command on Ctrl+C. Work that a server has started continues.
async fn interruptible<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    // `biased` installs the Ctrl+C handler before the command starts.
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(Failure::new(INTERRUPTED, "interrupted").into()),
        done = command => done,
    }
}

/// Runs a command on one thread, which starts faster and suffices for a client.
fn run_single_threaded<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(command)
}

fn run_multi_threaded<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(command)
}
