//! `node history`: prints the audit log of a node, from the server or, if it is not running, from its file.

use anyhow::Result;
use nerve_api::reply::NodeHistory;
use nerve_api::request::GetHistory;
use nerve_client::{ClientError, NerveClient};
use nerve_record::history::{Filter, HistoryError, HistoryReader};
use nerve_server::paths::ServerPaths;
use serde_json::Value;

use super::{Target, entries};
use crate::cli::node::{HistoryArgs, ServerOption, name_of};
use crate::cmd::server::{connect, is_remote};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// Prints the selected entries.
pub(super) async fn run(server: &ServerOption, session: Option<&str>, args: &HistoryArgs) -> Result<()> {
    if is_remote(&server.server) {
        let history = from_server(&connect(&server.server).await?, session, args).await?;
        return print(&history, args, &history.server_name, server.json);
    }
    let paths = ServerPaths::from_env();
    let history = match NerveClient::connect(&paths.socket(&server.server)?).await {
        Ok(client) => from_server(&client, session, args).await?,
        Err(ClientError::NotRunning { .. }) => from_file(&paths, &server.server, session, args)?,
        Err(error) => return Err(error.into()),
    };
    print(&history, args, &server.server, server.json)
}

/// Prints the selected entries over an existing connection.
pub(super) async fn run_connected(target: &Target, args: &HistoryArgs) -> Result<()> {
    let history = from_server(&target.client, target.session.as_deref(), args).await?;
    print(&history, args, &history.server_name, target.json)
}

fn print(history: &NodeHistory, args: &HistoryArgs, server: &str, as_json: bool) -> Result<()> {
    if let Some(seq) = args.seq.filter(|_| history.entries.is_empty()) {
        return Err(Failure::new(NOT_FOUND, format!("node '{}' has no entry {seq}", args.node)).into());
    }
    if args.summary {
        return entries::print_summary(&args.node, server, &history.entries, as_json);
    }
    if as_json {
        // A plain list, for compatibility.
        return out::json(&Value::Array(history.entries.clone()));
    }
    if let Some(note) = &history.note {
        out::note(note);
    }
    entries::print(&history.entries)
}

async fn from_server(client: &NerveClient, session: Option<&str>, args: &HistoryArgs) -> Result<NodeHistory> {
    let params = GetHistory {
        node_id: args.node.clone(),
        session_id: session.map(str::to_string),
        server_name: None,
        last: args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX)),
        op: args.op.map(name_of),
        seq: args.seq,
        inputs_only: args.inputs_only,
    };
    Ok(client.request(&params).await?)
}

fn from_file(
    paths: &ServerPaths,
    server: &str,
    session: Option<&str>,
    args: &HistoryArgs,
) -> Result<NodeHistory> {
    let base = &paths.history;
    let filter = Filter {
        last: args.last.map(|last| usize::try_from(last).unwrap_or(usize::MAX)),
        op: args.op.map(name_of),
        seq: args.seq,
        inputs_only: args.inputs_only,
        max_bytes: None,
    };
    let reader = HistoryReader::open_in_session(base, server, session, &args.node);
    let (path, page) = reader
        .and_then(|reader| Ok((reader.path().to_path_buf(), reader.query(&filter)?)))
        .map_err(|error| failure(&error, server))?;
    out::note(format_args!("server '{server}' is not running; read from {}", path.display()));
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
        HistoryError::NotFound { .. } => failure
            .hint(format!("server '{server}' is not running, so only files in this directory are searched")),
        HistoryError::Ambiguous { .. } => failure.hint("select one with --session"),
        _ => failure,
    }
}
