//! `nerve ls`: lists the nodes of a session, once or with their changes.

use anyhow::Result;
use nerve_api::reply::{NodeInfo, NodeList};
use nerve_api::request::ListNodes;
use nerve_api::value::NodeState;
use nerve_types::ExitStatus;

use super::Target;
use super::inspect::format_state;
use super::node_watcher::NodeWatcher;
use crate::out;

/// Maximum and minimum printed length of a command, in characters.
const MAX_COMMAND: usize = 60;
const MIN_COMMAND: usize = 16;
/// Columns of a list of nodes.
pub(super) const COLUMNS: [&str; 6] = ["node", "type", "state", "cost", "command", "cwd"];
/// Position of the command in [`COLUMNS`].
const COMMAND: usize = 4;
/// Columns that a narrow terminal does without.
const OPTIONAL_COLUMNS: [&str; 3] = ["type", "cwd", "command"];
/// Columns that are aligned to the right.
pub(super) const NUMBERS: [&str; 1] = ["cost"];

/// Lists the nodes of a session, and follows their changes if `watch` is set.
pub(super) async fn run(target: &Target, watch: bool) -> Result<()> {
    if watch {
        return NodeWatcher::run(target).await;
    }
    let params = ListNodes { session_id: target.session.clone(), ..ListNodes::default() };
    let data = target.request(&params).await?;
    if target.json {
        return out::json(&data);
    }
    let NodeList { nodes_info, stopped, .. } = serde_json::from_value(data)?;
    let mut rows: Vec<Vec<String>> = nodes_info.iter().chain(&stopped).map(format_row).collect();
    if rows.is_empty() {
        out::note("no nodes; create one with 'nerve new NAME -c COMMAND'");
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
pub(super) fn format_row(node: &NodeInfo) -> Vec<String> {
    let field = |name: &str| node.metadata.text(name).to_string();
    let exit_code = match node.metadata.exit() {
        Some(ExitStatus::Code(code)) => Some(code),
        _ => None,
    };
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
    vec![node.node_id.clone(), node.kind.clone(), state, node.progress.cost_text(), command, field("cwd")]
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
