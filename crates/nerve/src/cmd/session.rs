//! `nerve session`: named groups of nodes.

use anyhow::Result;
use nerve_api::reply::{NodeFailure, NodesChanged, SessionInfo, SessionList};
use nerve_api::request::{CreateSession, DeleteSession, GetSession, ListSessions, StartSession};

use super::server::connect;
use crate::exit::{FAILED, Failure};
use crate::out;
use nerve_cli::session::{SessionArgs, SessionCommand};

/// Runs the subcommand.
pub(crate) async fn run(args: SessionArgs) -> Result<()> {
    let json = args.server.json;
    let client = connect(&args.server.server).await?;
    match args.command {
        SessionCommand::List => {
            let data: SessionList = client.request(&ListSessions::default()).await?;
            if json {
                return out::json(&data);
            }
            let rows: Vec<Vec<String>> = data.sessions.iter().map(row).collect();
            out::table(&["name", "nodes", "tags", "description"], &rows)
        }
        SessionCommand::Create(args) => {
            let (name, description, tags) = (args.name, args.description, args.tags);
            let params = CreateSession { name, description, tags, budget: args.budget.limits()? };
            let session: SessionInfo = client.request(&params).await?;
            if json {
                return out::json(&session);
            }
            out::line(format_args!("session '{}' created", session.name))
        }
        SessionCommand::Info(args) => {
            let session: SessionInfo = client.request(&GetSession::new(Some(args.name))).await?;
            if json {
                return out::json(&session);
            }
            out::fields(&[
                ("name", session.name.clone()),
                ("description", session.description.clone()),
                ("tags", session.tags.join(", ")),
                ("nodes", session.nodes.join(", ")),
                ("graphs", session.graphs.join(", ")),
            ])
        }
        SessionCommand::Start(args) => {
            let request = StartSession { all: args.all, ..StartSession::new(Some(args.session.name)) };
            lifecycle(client.request(&request).await?, "started", json)
        }
        SessionCommand::Stop(args) => lifecycle(client.stop_session(&args.name).await?, "stopped", json),
        SessionCommand::Delete(args) => {
            let name = args.name.clone();
            let done = client.request_json(&DeleteSession::new(Some(args.name))).await?;
            if json {
                return out::json(&done);
            }
            out::line(format_args!("session '{name}' deleted"))
        }
    }
}

/// Prints the started or stopped nodes. Fails if one could not be.
fn lifecycle(done: NodesChanged, verb: &str, as_json: bool) -> Result<()> {
    if as_json {
        out::json(&done)?;
    } else {
        for node in &done.nodes {
            out::line(format_args!("node '{node}' {verb}"))?;
        }
        if done.nodes.is_empty() && done.failed.is_empty() {
            out::note(format_args!("no nodes to be {verb}"));
        }
    }
    if done.failed.is_empty() {
        return Ok(());
    }
    let describe =
        |node: &NodeFailure| describe_failure(&node.node_id, "", &node.error, node.hint.as_deref());
    Err(failed_nodes(verb, done.failed.iter().map(describe).collect()).into())
}

/// Describes in a line why a node could not be started or stopped. `place`: words after its name, such as its session.
pub(super) fn describe_failure(node: &str, place: &str, error: &str, hint: Option<&str>) -> String {
    let name = format!("node '{node}'");
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    // Most errors name the node.
    match error.strip_prefix(&name) {
        Some(rest) => format!("{name}{place}{rest}{hint}"),
        None => format!("{name}{place}: {error}{hint}"),
    }
}

/// Creates the error about nodes that could not be started or stopped, with a line for each.
pub(super) fn failed_nodes(verb: &str, lines: Vec<String>) -> Failure {
    let nodes = if lines.len() == 1 { "1 node".to_string() } else { format!("{} nodes", lines.len()) };
    Failure::new(FAILED, format!("{nodes} could not be {verb}:\n  {}", lines.join("\n  ")))
}

fn row(session: &SessionInfo) -> Vec<String> {
    let nodes = session.nodes.len().to_string();
    vec![session.name.clone(), nodes, session.tags.join(", "), session.description.clone()]
}
