//! `nerve ls --all`: the nodes of all sessions of several servers, and the number of nodes in other sessions.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use nerve_api::DEFAULT_SESSION;
use nerve_api::reply::{NodeInfo, NodeList};
use nerve_api::request::ListNodes;
use nerve_client::{ClientError, NerveClient};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::list::{COLUMNS, format_row, print_rows};
use crate::out;

/// Time limit for a server's list.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a server's sessions: the hint must not delay `nerve ls`.
const HINT_TIMEOUT: Duration = Duration::from_millis(300);

/// A connection to a server, with its name.
pub type NamedServer = (String, NerveClient);

/// The nodes of a server.
pub(super) struct ServerNodes {
    /// Name of the server, if known.
    pub(super) server: Option<String>,
    pub(super) running: Vec<NodeInfo>,
    pub(super) stopped: Vec<NodeInfo>,
}

/// Prints the nodes of all servers. `session`: prints only nodes of sessions with this name.
///
/// # Errors
/// Standard output cannot be written. A server that does not list its nodes only causes a warning.
pub async fn print(servers: &[NamedServer], session: Option<&str>, is_json: bool) -> Result<()> {
    let all = list_all(servers, session).await;
    if is_json {
        let collect = |pick: fn(&ServerNodes) -> &Vec<NodeInfo>| -> Result<Vec<Value>> {
            let nodes = all.iter().flat_map(|server| {
                pick(server).iter().map(move |node| as_value(server.server.as_deref(), node))
            });
            nodes.collect()
        };
        let (running, stopped) = (collect(|server| &server.running)?, collect(|server| &server.stopped)?);
        return out::json(&json!({ "nodes_info": running, "stopped": stopped }));
    }
    let mut rows = Vec::new();
    for server in &all {
        for node in server.running.iter().chain(&server.stopped) {
            let location = vec![server.server.clone().unwrap_or_default(), node.metadata.session_id.clone()];
            rows.push([location, format_row(node)].concat());
        }
    }
    print_rows(&[&["server", "session"][..], &COLUMNS].concat(), rows)
}

/// Lists the nodes of all servers, which are queried in parallel. A server that does not list its nodes causes a warning.
pub(super) async fn list_all(servers: &[NamedServer], session: Option<&str>) -> Vec<ServerNodes> {
    let lists = servers.iter().map(|(name, client)| timeout(LIST_TIMEOUT, list(Some(name), client, session)));
    let mut all = Vec::new();
    for ((name, _), outcome) in servers.iter().zip(join_all(lists).await) {
        match outcome {
            Ok(Ok(nodes)) => all.push(nodes),
            Ok(Err(error)) => out::warning(format_args!("server '{name}' is not listed: {error}")),
            Err(_) => out::warning(format_args!("server '{name}' is not listed: it does not respond")),
        }
    }
    all
}

/// Prints to stderr the number of nodes outside of `session` of `server`.
pub async fn print_hint(servers: &[NamedServer], server: &str, session: Option<&str>) {
    let session = session.unwrap_or(DEFAULT_SESSION);
    let mut count = 0;
    for (name, client) in servers {
        let Ok(Ok(sessions)) = timeout(HINT_TIMEOUT, client.sessions()).await else { continue };
        let others = sessions.iter().filter(|other| name != server || other.name != session);
        count += others.map(|other| other.nodes.len() + other.stopped.len()).sum::<usize>();
    }
    match count {
        0 => {}
        1 => out::note("1 more node in other sessions: nerve ls --all"),
        _ => out::note(format_args!("{count} more nodes in other sessions: nerve ls --all")),
    }
}

/// Lists the nodes of a server. `only`: lists only the nodes of this session.
pub(super) async fn list(
    server: Option<&str>,
    client: &NerveClient,
    only: Option<&str>,
) -> Result<ServerNodes, ClientError> {
    let mut nodes =
        ServerNodes { server: server.map(str::to_string), running: Vec::new(), stopped: Vec::new() };
    for session in client.sessions().await?.into_iter().map(|session| session.name) {
        if only.is_some_and(|only| only != session) {
            continue;
        }
        let request = ListNodes { session_id: Some(session), ..ListNodes::default() };
        let NodeList { nodes_info, stopped, .. } = client.request(&request).await?;
        nodes.running.extend(nodes_info);
        nodes.stopped.extend(stopped);
    }
    Ok(nodes)
}

pub(super) fn as_value(server: Option<&str>, node: &NodeInfo) -> Result<Value> {
    let mut value = serde_json::to_value(node)?;
    value["server_name"] = server.into();
    Ok(value)
}
