//! `nerve node`: nodes and their turns. An audit log is read from its file if its server is not running.

use std::io::IsTerminal;

use anyhow::Result;
use nerve_api::reply::NodeHistory;
use nerve_client::{ClientError, NerveClient};
use nerve_commands::node_command::{
    CommandContext, HistoryArgs, NodeCommand, all_machines, all_nodes, history, perform,
};
use nerve_record::history::{Filter, HistoryError, HistoryReader};
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use super::machine::resolve_node;
use super::server::{connect, is_remote, machines, running_servers};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;
use nerve_cli::node::{NodeArgs, NodeTarget, ServerOption};

/// Runs the subcommand.
pub(super) async fn run(args: NodeArgs) -> Result<()> {
    let NodeArgs {
        target: NodeTarget { server: ServerOption { mut server, json }, mut session },
        mut command,
    } = args;
    if let NodeCommand::Create(args) = &command {
        machines().check_new_node(&args.name)?;
    }
    if let Some(node) = command.node_mut() {
        resolve_node(node, &mut session, &mut server)?;
    }
    let server = &server;
    if let NodeCommand::History(history_args) = &command
        && !is_remote(server)
    {
        let history = history_of(server, session.as_deref(), history_args, json).await?;
        return history::print(&history, history_args, server, json);
    }
    if let NodeCommand::List(args) = &command
        && args.watch
        && (args.all || args.all_machines)
    {
        let server = is_remote(server).then(|| server.clone());
        return super::top::line_list::watch(server, args.all_machines, session.as_deref(), json).await;
    }
    if let NodeCommand::List(args) = &command
        && args.all_machines
    {
        return all_machines::print(&machines(), &running_servers().await, session.as_deref(), json).await;
    }
    if let NodeCommand::List(args) = &command
        && args.all
    {
        let servers = match is_remote(server) {
            true => vec![(server.clone(), connect(server).await?)],
            false => running_servers().await,
        };
        return all_nodes::print(&servers, session.as_deref(), json).await;
    }
    let is_list = matches!(&command, NodeCommand::List(args) if !args.watch && !json);
    let has_hint = is_list && std::io::stderr().is_terminal() && !is_remote(server);
    let client = connect(server).await?;
    let context = CommandContext { client, session, json };
    perform(&context, command).await?;
    if has_hint {
        all_nodes::print_hint(&running_servers().await, server, context.session.as_deref()).await;
    }
    Ok(())
}

/// Returns the selected entries from a server on this machine, or from the file if it is not running.
async fn history_of(
    server: &str,
    session: Option<&str>,
    args: &HistoryArgs,
    json: bool,
) -> Result<NodeHistory> {
    let paths = ServerPaths::from_env();
    match NerveClient::connect(&paths.socket(server)?).await {
        Ok(client) => match history::request(&client, session, args, json).await {
            Err(error) if is_in_old_directory(&paths, server, session, args) => {
                read_history_file(&paths, server, session, args, json).map_err(|_| error)
            }
            reply => reply,
        },
        Err(ClientError::NotRunning { .. }) => read_history_file(&paths, server, session, args, json),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if only an older version's log of the node exists, in the current directory.
fn is_in_old_directory(paths: &ServerPaths, server: &str, session: Option<&str>, args: &HistoryArgs) -> bool {
    let open = |base| HistoryReader::open_in_session(base, server, session, &args.node);
    open(&paths.data.history).is_err() && open(&paths.old_history).is_ok()
}

fn read_history_file(
    paths: &ServerPaths,
    server: &str,
    session: Option<&str>,
    args: &HistoryArgs,
    json: bool,
) -> Result<NodeHistory> {
    let is_old = is_in_old_directory(paths, server, session, args);
    let base = if is_old { &paths.old_history } else { &paths.data.history };
    let filter = Filter {
        last: args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX)),
        op: args.op,
        seq: args.seq,
        inputs_only: args.inputs_only,
        without_reads: history::omits_reads(args, json),
        max_bytes: None,
    };
    let reader = HistoryReader::open_in_session(base, server, session, &args.node);
    let (path, page) = reader
        .and_then(|reader| Ok((reader.path().to_path_buf(), reader.query(&filter)?)))
        .map_err(|error| failure(&error, server))?;
    let reason = if is_old { "an older version's log" } else { "server not running" };
    out::note(format_args!("{reason}: read from {}", path.display()));
    if page.malformed > 0 {
        out::warning(format_args!("skipped {} malformed lines", page.malformed));
    }
    let parse = |entry: &String| serde_json::from_str(entry).unwrap_or_else(|_| Value::from(entry.as_str()));
    Ok(NodeHistory {
        node_id: args.node.clone(),
        server_name: server.to_string(),
        entries: page.entries.iter().map(parse).collect(),
        total: page.total,
        ..NodeHistory::default()
    })
}

fn failure(error: &HistoryError, server: &str) -> Failure {
    let code = match error {
        HistoryError::NotFound { .. } => NOT_FOUND,
        HistoryError::Name(_) | HistoryError::Ambiguous { .. } => USAGE,
        _ => FAILED,
    };
    let failure = Failure::new(code, error.to_string());
    match error {
        HistoryError::NotFound { .. } => {
            failure.hint(format!("server '{server}' is not running, so only log files are searched"))
        }
        HistoryError::Ambiguous { .. } => failure.hint("select one with --session"),
        _ => failure,
    }
}
