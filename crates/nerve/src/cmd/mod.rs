//! Implements the commands.

mod acp;
mod ask;
mod attach;
mod branch;
mod cluster;
pub(crate) mod completion;
mod config;
mod demo;
mod docs;
mod doctor;
mod engine_error;
mod event_hook;
mod events;
pub(crate) mod exec;
mod extract;
mod fan_out;
mod graph;
pub(crate) mod hook;
mod host;
mod machine;
mod mcp;
mod mock;
mod node;
mod notify;
pub(crate) mod pane;
mod pattern;
mod profile;
mod proxy;
mod prune;
mod record;
pub(crate) mod recording;
mod repl;
mod result;
mod screen_support;
mod search;
pub(crate) mod server;
mod service;
mod session;
pub(crate) mod show;
mod since;
mod snapshot;
mod spawn_failure;
mod token;
mod top;
mod transcript;
mod usage;
mod viewer;
mod web;

use std::future::Future;

use anyhow::{Context, Result};
use nerve_client::ClientError;
use nerve_commands::node_command::NodeCommand;
use nerve_host::process::handle_file_size_limit;
use nerve_server::paths::ServerPaths;

use crate::exit::{DONE, FAILED, Failure};
use crate::out;
use nerve_cli::graph::GraphArgs;
use nerve_cli::node::NodeArgs;
use nerve_cli::recording::RecordingFileCommand;
use nerve_cli::server::{ServerArgs, ServerCommand};
use nerve_cli::{Cli, Command};

/// Words of the groups that have more than one spelling.
const NODE: &str = "node";
const CHANNEL: &str = "server channel";
const GRAPH: &str = "graph";
const DAG: &str = "server dag";
/// Hint for a server that disappeared during a request.
const RECONNECT_HINT: &str = "'nerve server start' recovers its nodes and their running turns; then 'nerve wait NODE' and 'nerve node read NODE'";

/// Runs the command and returns the exit code.
pub(crate) fn run(cli: Cli) -> Result<u8> {
    // An agent's shell must not write into the output of its commands.
    if !matches!(cli.command, Command::Exec(_)) && ServerPaths::lacks_home(|name| std::env::var_os(name)) {
        let state = ServerPaths::from_env().state;
        out::warning(format_args!("HOME is not set: nerve keeps its state in {}", state.display()));
    }
    match cli.command {
        Command::New(args) => run_node(args.expand(NodeCommand::Create), NODE)?,
        Command::Send(args) => run_node(args.expand(NodeCommand::Execute), NODE)?,
        Command::Ls(args) => run_node(args.expand(NodeCommand::List), NODE)?,
        Command::Attach(args) => return run_single_threaded(attach::attach(args)),
        Command::Wait(args) => run_node(args.expand(NodeCommand::Wait), NODE)?,
        Command::Answer(args) => run_node(args.expand(NodeCommand::Answer), NODE)?,
        Command::Stop(args) => run_node(args.expand(NodeCommand::Stop), NODE)?,
        Command::Start(args) => run_node(args.expand(NodeCommand::Start), NODE)?,
        Command::Rm(args) => run_node(args.expand(NodeCommand::Remove), NODE)?,
        Command::Prune(args) => run_single_threaded(interruptible(prune::run(args)))?,
        Command::Budget(args) => run_node(args.expand(NodeCommand::Budget), NODE)?,
        Command::Logs(args) => run_node(args.expand(NodeCommand::History), NODE)?,
        Command::Ask(args) => run_multi_threaded(ask::run(args))?,
        Command::FanOut(args) => run_single_threaded(fan_out::run(*args))?,
        Command::Node(args) => run_node(args, NODE)?,
        Command::Graph(args) => run_graph(args, GRAPH)?,
        Command::Session(args) => run_single_threaded(interruptible(session::run(args)))?,
        Command::Recording(args) => return recording::run(&args.command),
        Command::Server(ServerArgs { command: ServerCommand::Repl(args) }) => {
            return run_single_threaded(repl::on_server(args));
        }
        Command::Server(args) => run_server(args)?,
        Command::Host(args) => host::run(args)?,
        Command::Profile(args) => return profile::run(&args.command),
        Command::Result(args) => run_single_threaded(interruptible(result::run(args)))?,
        // The viewer starts its recorder in another process.
        Command::Record(args) if record::shows_viewer(&args) => {
            return run_single_threaded(record::record_in_viewer(&args));
        }
        Command::Record(args) => return run_multi_threaded(record::record(*args)),
        Command::Events(args) => run_single_threaded(interruptible(events::run(args)))?,
        Command::Notify(args) => run_single_threaded(interruptible(notify::run(args)))?,
        Command::Search(args) => return search::run(&args),
        Command::Usage(args) => usage::run(&args)?,
        Command::Transcript(args) => run_single_threaded(interruptible(transcript::run(args)))?,
        Command::Top(args) => return run_single_threaded(top::run(args)),
        Command::Web(args) => run_single_threaded(interruptible(web::run(args)))?,
        Command::Share(args) => run_single_threaded(interruptible(web::share(args)))?,
        Command::RecordingFile(command) => return recording::run_on_file(&command),
        Command::Parse(args) => {
            out::warning("'nerve parse' is now 'nerve recording extract'");
            return recording::run_on_file(&RecordingFileCommand::Extract(args));
        }
        Command::Snapshot(args) => snapshot::run(*args)?,
        Command::Branch(args) => run_single_threaded(interruptible(branch::command(*args)))?,
        Command::Exec(args) => return run_multi_threaded(exec::run(args)),
        Command::Tools(args) => return show::run(&args),
        Command::Repl(args) => return run_multi_threaded(repl::in_process(args)),
        Command::Pattern(args) => run_single_threaded(pattern::run(args))?,
        Command::Mcp(args) => mcp::run(&args)?,
        Command::Acp(args) => acp::run(args)?,
        Command::Proxy(args) => run_multi_threaded(proxy::run(*args))?,
        Command::Tmux(args) => {
            let tmux = pane::Multiplexer::tmux(args.socket.as_deref());
            run_single_threaded(interruptible(pane::run(tmux, args)))?;
        }
        Command::Wezterm(args) => {
            let wezterm = pane::Multiplexer::wezterm(args.socket.as_deref());
            run_single_threaded(interruptible(pane::run(wezterm, args)))?;
        }
        Command::MockAgent(args) => return mock::agent(args),
        Command::MockModel(args) => run_single_threaded(mock::model(&args))?,
        Command::Demo(args) => run_multi_threaded(demo::run(args))?,
        Command::Doctor(args) => run_single_threaded(interruptible(doctor::run(&args)))?,
        Command::Config(args) => config::run(args)?,
        Command::Token(args) => token::run(&args)?,
        Command::Machine(args) => run_single_threaded(interruptible(machine::run(args)))?,
        Command::Cluster(args) => run_single_threaded(interruptible(cluster::run(args)))?,
        Command::Connect(args) => machine::connect(&args)?,
        Command::Service(args) => service::run(&args)?,
        Command::Completions(args) => completion::print_script(&args)?,
        Command::Man(args) => docs::man(&args)?,
        Command::Hook(args) => hook::run(&args),
        Command::CliReference => docs::reference()?,
        Command::OpenApi => docs::openapi()?,
    }
    Ok(DONE)
}

fn run_server(args: ServerArgs) -> Result<()> {
    match args.command {
        ServerCommand::Start(args) if args.foreground => run_multi_threaded(server::foreground::run(&args)),
        ServerCommand::Start(args) => run_single_threaded(interruptible(server::start::in_background(&args))),
        ServerCommand::Stop(args) => run_single_threaded(interruptible(server::stop::run(&args))),
        ServerCommand::Restart(args) => run_single_threaded(interruptible(server::restart::run(&args))),
        ServerCommand::Logs(args) => run_single_threaded(interruptible(server::logs::run(&args))),
        ServerCommand::Status(args) => run_single_threaded(interruptible(server::status::run(&args))),
        ServerCommand::List(args) => run_single_threaded(interruptible(server::status::list(&args))),
        ServerCommand::Node(args) => run_node(args, "server node"),
        ServerCommand::Channel(args) => run_node(args, CHANNEL),
        ServerCommand::Session(args) => run_single_threaded(interruptible(session::run(args))),
        ServerCommand::Graph(args) => run_graph(args, GRAPH),
        ServerCommand::Dag(args) => run_graph(args, DAG),
        // Handled by `run`, because it has its own exit code.
        ServerCommand::Repl(_) => Ok(()),
    }
}

/// Runs a command of `nerve node`. Warns if its name, or the words before it (`group`), are deprecated.
fn run_node(args: NodeArgs, group: &str) -> Result<()> {
    let outdated = match &args.command {
        NodeCommand::Delete(_) => Some(("delete", "stop")),
        NodeCommand::Close(_) => Some(("close", "stop")),
        NodeCommand::Send(_) if group != NODE => Some(("send", "send")),
        _ if group == CHANNEL => Some(("…", "node …")),
        _ => None,
    };
    if let Some((old_name, new_name)) = outdated {
        out::warning(format_args!("'nerve {group} {old_name}' is now 'nerve {new_name}'"));
    }
    let detached_hint = match &args.command {
        NodeCommand::Execute(args) | NodeCommand::Send(args) if !args.turn_options.is_async => Some(format!(
            "the turn continues, and the history records its end; interrupt it with 'nerve node interrupt {}'",
            args.node
        )),
        _ => None,
    };
    let server = args.target.server.server.clone();
    run_single_threaded(async move {
        let failure = Failure { hint: detached_hint, ..Failure::interrupted() };
        interruptible_with(failure, node::run(args)).await.map_err(|error| {
            if matches!(error.downcast_ref(), Some(ClientError::Closed(_))) {
                let message = format!("server '{server}' closed the connection before it replied");
                return Failure::new(FAILED, message).hint(RECONNECT_HINT).into();
            }
            error
        })
    })
}

fn run_graph(args: GraphArgs, group: &str) -> Result<()> {
    if group == DAG {
        let command = args.command.name();
        out::warning(format_args!("'nerve {group} {command}' is now 'nerve graph {command}'"));
    }
    // A command that follows a run handles Ctrl+C itself.
    match args.command.follows_run() {
        true => run_single_threaded(graph::run(args)),
        false => run_single_threaded(interruptible(graph::run(args))),
    }
}

/// Cancels the command on Ctrl+C. Work that a server has started continues.
async fn interruptible<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    interruptible_with(Failure::interrupted(), command).await
}

/// Runs a command until it ends or Ctrl+C ends it with `failure`.
async fn interruptible_with<T>(failure: Failure, command: impl Future<Output = Result<T>>) -> Result<T> {
    // `biased` installs the Ctrl+C handler before the command starts.
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(failure.into()),
        done = command => done,
    }
}

/// Runs a command on one thread, which starts faster and suffices for a client.
fn run_single_threaded<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(command)
}

/// Runs a server, or another command that works in parallel. A write beyond the limit of file sizes is an error of that write.
fn run_multi_threaded<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        handle_file_size_limit();
        command.await
    })
}
