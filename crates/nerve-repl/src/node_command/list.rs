//! `nerve ls`: lists the nodes of a session, once or with their changes.

use std::collections::BTreeMap;

use anyhow::Result;
use nerve_api::reply::{NodeInfo, NodeList};
use nerve_api::request::{GetNode, ListNodes, Subscribe};
use nerve_api::value::NodeState;
use nerve_api::{DEFAULT_SESSION, ErrorKind, EventType};
use nerve_client::{ClientError, EventStream};

use super::Target;
use super::inspect::format_state;
use crate::out;

/// Maximum and minimum printed length of a command, in characters.
const MAX_COMMAND: usize = 60;
const MIN_COMMAND: usize = 16;
/// Columns of a list of nodes.
const COLUMNS: [&str; 6] = ["node", "type", "state", "cost", "command", "cwd"];
/// Position of the command in [`COLUMNS`].
const COMMAND: usize = 4;
/// Columns that a narrow terminal does without.
const OPTIONAL_COLUMNS: [&str; 3] = ["type", "cwd", "command"];
/// Columns that are aligned to the right.
const NUMBERS: [&str; 1] = ["cost"];

/// Lists the nodes of a session, and follows their changes if `watch` is set.
pub(super) async fn run(target: &Target, watch: bool) -> Result<()> {
    // Subscribed before the list is read, so that no change is missed.
    let watcher = if watch { Some(NodeWatcher::subscribe(target).await?) } else { None };
    let params = ListNodes { session_id: target.session.clone(), ..ListNodes::default() };
    let data = target.request(&params).await?;
    if target.json && !watch {
        return out::json(&data);
    }
    let NodeList { nodes_info, stopped, .. } = serde_json::from_value(data)?;
    let nodes: Vec<NodeInfo> = nodes_info.into_iter().chain(stopped).collect();
    if nodes.is_empty() && !watch {
        out::note("no nodes; create one with 'nerve new NAME -c COMMAND'");
    }
    let mut rows: Vec<Vec<String>> = nodes.iter().map(format_row).collect();
    if let Some(watcher) = watcher {
        return watcher.run(target, &nodes, &out::Table::new(&COLUMNS, &rows).align_right(&NUMBERS)).await;
    }
    let width = out::window_width();
    if let Some(width) = width {
        shorten_commands(&mut rows, width);
    }
    let (header, rows) = out::select_columns(&COLUMNS, &rows, width, &OPTIONAL_COLUMNS);
    out::table_with_numbers(&header, &rows, &NUMBERS)
}

/// Shortens the commands as far as a terminal of this width requires.
fn shorten_commands(rows: &mut [Vec<String>], width: usize) {
    let excess = out::Table::new(&COLUMNS, rows).width().saturating_sub(width);
    let longest = rows.iter().map(|row| row[COMMAND].chars().count()).max().unwrap_or(0);
    let most = longest.saturating_sub(excess + 1).max(MIN_COMMAND);
    for row in rows {
        row[COMMAND] = out::preview(&row[COMMAND], most);
    }
}

/// Returns the row of a node in [`COLUMNS`].
fn format_row(node: &NodeInfo) -> Vec<String> {
    let field = |name: &str| node.metadata.text(name).to_string();
    let exit_code = field("exit").strip_prefix("exit code ").map(str::to_string);
    let has_exited = node.state == NodeState::Stopped && field("end") != "requested";
    let mut state = match exit_code.filter(|_| has_exited) {
        Some(code) => format!("exited {code}"),
        None => format_state(node.state, &node.metadata),
    };
    if node.approximate {
        state.push_str(" (approximate)");
    }
    // Chat nodes have a model instead of a command. `info` shows long commands in full.
    let command =
        Some(field("command")).filter(|command| !command.is_empty()).unwrap_or_else(|| field("model"));
    let command = out::preview(&command, MAX_COMMAND);
    vec![node.id.clone(), node.kind.clone(), state, node.progress.cost_text(), command, field("cwd")]
}

/// Prints the nodes of a session whenever one changes.
struct NodeWatcher {
    events: EventStream,
}

impl NodeWatcher {
    async fn subscribe(target: &Target) -> Result<NodeWatcher> {
        let types = EventType::STATE_CHANGES.iter().map(ToString::to_string).collect();
        let session_id = Some(target.session.clone().unwrap_or_else(|| DEFAULT_SESSION.to_string()));
        let filter = Subscribe { types: Some(types), session_id, ..Subscribe::default() };
        Ok(NodeWatcher { events: target.client.subscribe(&filter).await? })
    }

    /// Prints the nodes, and then each node that differs from its last row. Returns when the server ends.
    async fn run(mut self, target: &Target, nodes: &[NodeInfo], table: &out::Table<'_>) -> Result<()> {
        let mut shown: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if !target.json {
            table.print_header()?;
        }
        for node in nodes {
            show_changed(node, target, table, &mut shown)?;
        }
        while let Some(event) = self.events.next().await {
            if event.kind() == Some(EventType::ServerShutdown) {
                break;
            }
            let changed = match &event.node_id {
                Some(node) => vec![node.clone()],
                // Events were dropped.
                None => {
                    let nodes = target.client.list_nodes(target.session.as_deref()).await?;
                    nodes.into_iter().map(|node| node.id).chain(shown.keys().cloned()).collect()
                }
            };
            for node_id in changed {
                let request = GetNode::new(node_id, target.session.clone());
                match target.client.node_info(&request).await {
                    Ok(node) => show_changed(&node, target, table, &mut shown)?,
                    // It was removed after the event.
                    Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                        shown.remove(&request.node_id);
                    }
                    Err(ClientError::Server(error)) => out::warning(error.message),
                    // The connection ends with the server.
                    Err(_) => break,
                }
            }
        }
        out::note("the server has ended");
        Ok(())
    }
}

/// Prints a node unless its row is the same as before.
fn show_changed(
    node: &NodeInfo,
    target: &Target,
    table: &out::Table<'_>,
    shown: &mut BTreeMap<String, Vec<String>>,
) -> Result<()> {
    let row = format_row(node);
    if shown.get(&node.id) == Some(&row) {
        return Ok(());
    }
    if target.json {
        out::json_line(node)?;
    } else {
        table.print_row(&row)?;
    }
    shown.insert(node.id.clone(), row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shortened_to_fit() {
        let row =
            |command: &str| ["me", "pty", "ready", "", command, "/home/me/site"].map(String::from).to_vec();
        let mut rows = vec![row(&"x".repeat(60)), row("bash")];
        shorten_commands(&mut rows, 80);
        assert_eq!(out::Table::new(&COLUMNS, &rows).width(), 80);
        assert!(rows[0][COMMAND].ends_with('…') && rows[1][COMMAND] == "bash");
        shorten_commands(&mut rows, 20);
        assert_eq!(rows[0][COMMAND].chars().count(), MIN_COMMAND + 1);
    }
}
