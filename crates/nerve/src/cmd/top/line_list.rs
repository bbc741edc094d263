//! `nerve ls --watch --all`: `nerve top` as lines, one for each change of a node.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use nerve_api::reply::NodeProgress;
use nerve_commands::clock::local_time;
use nerve_commands::run_display::group_digits;
use nerve_tui::dashboard::{NodeKey, NodeRow};
use serde_json::json;

use super::server_watch::Update;
use super::{Top, wait_for_socket_change};
use crate::out;

/// Columns of a line. `since`: the time of the last change of the state.
const COLUMNS: [&str; 11] =
    ["since", "server", "session", "node", "state", "queued", "tokens", "cost", "folder", "branch", "last"];
/// Typical cells, which determine the widths of the columns: the cells of the first nodes may be shorter than later ones.
const TYPICAL_CELLS: [&str; 11] = [
    "2026-01-31 10:30:00",
    "default",
    "default",
    "login-1-claude",
    "blocked: permission",
    "1",
    "12,345,678",
    "$10.00",
    "1-claude",
    "nerve/login/1-claude",
    "",
];
/// Columns that are aligned to the right.
const NUMBERS: [&str; 3] = ["queued", "tokens", "cost"];
/// Minimum and maximum characters of the last column, which has the rest of the terminal's width.
const LAST_WIDTH: (usize, usize) = (20, 200);

/// Prints the nodes, and then each one that changes, without end. `server`: the only server to follow. `session`: follows only the
/// sessions of this name.
pub(in crate::cmd) async fn watch(
    server: Option<String>,
    all_machines: bool,
    session: Option<&str>,
    json: bool,
) -> Result<()> {
    let mut top = Top::new(server, all_machines)?;
    let mut list = LineList::new(session, json);
    if !json {
        list.table.print_header()?;
    }
    top.watch_servers();
    loop {
        tokio::select! {
            biased;
            Some(update) = top.updates.recv() => list.apply(update)?,
            () = wait_for_socket_change(&top.watcher) => top.watch_servers(),
        }
    }
}

/// The nodes as they were printed last.
struct LineList<'a> {
    session: Option<&'a str>,
    json: bool,
    table: out::Table<'a>,
    nodes: BTreeMap<NodeKey, PrintedNode>,
    /// Servers that do not respond.
    unreachable: BTreeSet<String>,
}

/// A node, and its cells in [`COLUMNS`].
struct PrintedNode {
    row: NodeRow,
    cells: Vec<String>,
}

impl<'a> LineList<'a> {
    fn new(session: Option<&'a str>, json: bool) -> LineList<'a> {
        let typical = TYPICAL_CELLS.map(str::to_string).to_vec();
        let table = out::Table::new(&COLUMNS, &[typical]).align_right(&NUMBERS);
        LineList { session, json, table, nodes: BTreeMap::new(), unreachable: BTreeSet::new() }
    }

    fn apply(&mut self, update: Update) -> Result<()> {
        match update {
            Update::Nodes(server, rows) => {
                self.unreachable.remove(&server);
                let present: BTreeSet<NodeKey> = rows.iter().map(|row| row.key.clone()).collect();
                let gone = self.nodes.keys().filter(|key| key.server == server && !present.contains(*key));
                let gone: Vec<NodeKey> = gone.cloned().collect();
                gone.iter().try_for_each(|key| self.show_removal(key))?;
                rows.into_iter().try_for_each(|row| self.show(row))
            }
            Update::Node(row) => self.show(*row),
            Update::NodeRemoved(key) => self.show_removal(&key),
            Update::Activity(key, text) => match self.nodes.get(&key).map(|printed| printed.row.clone()) {
                Some(row) => self.show(NodeRow { activity: Some(text), ..row }),
                None => Ok(()),
            },
            Update::ServerError(server, error) => {
                self.nodes.retain(|key, _| key.server != server);
                if self.unreachable.insert(server.clone()) {
                    out::warning(format_args!("server '{server}': {error}"));
                }
                Ok(())
            }
            Update::ServerEnded(server) => {
                self.unreachable.remove(&server);
                let before = self.nodes.len();
                self.nodes.retain(|key, _| key.server != server);
                if self.nodes.len() < before {
                    out::note(format_args!("server '{server}' has ended"));
                }
                Ok(())
            }
            Update::Message(_) | Update::Text(..) | Update::Choices(..) => Ok(()),
        }
    }

    /// Prints a node unless its cells are the same as before.
    fn show(&mut self, mut row: NodeRow) -> Result<()> {
        let key = row.key.clone();
        if self.session.is_some_and(|session| session != key.session) {
            return Ok(());
        }
        let old = self.nodes.remove(&key);
        let (old_row, old_cells) = old.map(|old| (old.row, old.cells)).unzip();
        if let Some(old) = old_row.filter(|_| row.activity.is_none()) {
            row.keep_activity(old);
        }
        let cells = cells(&row);
        if old_cells.as_ref() != Some(&cells) {
            self.print(&row, &cells)?;
        }
        self.nodes.insert(key, PrintedNode { row, cells });
        Ok(())
    }

    fn print(&self, row: &NodeRow, cells: &[String]) -> Result<()> {
        if self.json {
            let mut value = serde_json::to_value(&row.info)?;
            value["server_name"] = row.key.server.as_str().into();
            return out::json_line(&value);
        }
        self.print_cells(cells.to_vec())
    }

    fn print_cells(&self, mut cells: Vec<String>) -> Result<()> {
        let (least, most) = LAST_WIDTH;
        let others = self.table.width().saturating_sub(COLUMNS[COLUMNS.len() - 1].len());
        let room = out::window_width().map_or(most, |width| width.saturating_sub(others).clamp(least, most));
        if let Some(last) = cells.last_mut() {
            *last = out::preview(last, room);
        }
        self.table.print_row(&cells)
    }

    /// Prints that a node was removed, if it was printed before.
    fn show_removal(&mut self, key: &NodeKey) -> Result<()> {
        let Some(PrintedNode { mut cells, .. }) = self.nodes.remove(key) else { return Ok(()) };
        if self.json {
            let NodeKey { server, session, node } = key;
            let removal = json!({
                "node_id": node, "session_id": session, "server_name": server, "removed": true,
            });
            return out::json_line(&removal);
        }
        let state = COLUMNS.iter().position(|title| *title == "state").unwrap_or_default();
        cells[state] = "removed".to_string();
        self.print_cells(cells)
    }
}

/// Returns the cells of a node in [`COLUMNS`].
fn cells(row: &NodeRow) -> Vec<String> {
    let NodeKey { server, session, node } = &row.key;
    let NodeProgress { state_changed_at, tokens, .. } = &row.info.progress;
    let metadata = &row.info.metadata;
    let since = state_changed_at.map(|at| local_time(at.0 as f64 / 1e3));
    let folder = metadata.text("cwd").rsplit('/').next().unwrap_or_default();
    vec![
        since.unwrap_or_default(),
        server.clone(),
        session.clone(),
        node.clone(),
        metadata.state_text(row.info.state),
        metadata.display("queued"),
        tokens.map(group_digits).unwrap_or_default(),
        row.info.progress.cost_text(),
        folder.to_string(),
        row.branch.clone().unwrap_or_default(),
        row.summary().to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::{NodeInfo, NodeMetadata};
    use nerve_api::value::NodeState;
    use nerve_types::activity::TsMs;

    use super::*;

    fn row(node: &str, state: NodeState, turn: u64) -> NodeRow {
        let mut metadata = NodeMetadata::new(Some("review".to_string()));
        metadata.set("cwd", "/home/me/shop");
        metadata.set("blocked", "permission");
        let progress = NodeProgress {
            state_changed_at: Some(TsMs(1000)),
            turn_started_at: Some(TsMs(turn)),
            last_prompt: Some("fix it".to_string()),
            tokens: Some(12_345),
            ..NodeProgress::default()
        };
        let info = NodeInfo {
            node_id: node.to_string(),
            kind: "pty".to_string(),
            state,
            persistent: true,
            approximate: false,
            progress,
            metadata,
        };
        NodeRow::new("work", info)
    }

    #[test]
    fn line_has_what_the_dashboard_shows() {
        let cells = cells(&row("me", NodeState::Blocked, 1));
        let expected =
            ["work", "review", "me", "blocked: permission", "", "12,345", "", "shop", "", "fix it"];
        assert_eq!(cells[1..], expected);
    }

    #[test]
    fn activity_stays_while_its_turn_runs() {
        let mut list = LineList::new(Some("review"), true);
        let last = |list: &LineList<'_>| list.nodes.values().next().unwrap().cells[10].clone();
        list.apply(Update::Nodes("work".to_string(), vec![row("me", NodeState::Busy, 1)])).unwrap();
        let key = row("me", NodeState::Busy, 1).key;
        list.apply(Update::Activity(key.clone(), "Bash make".to_string())).unwrap();
        list.apply(Update::Node(Box::new(row("me", NodeState::Blocked, 1)))).unwrap();
        assert_eq!(last(&list), "Bash make");
        list.apply(Update::Node(Box::new(row("me", NodeState::Busy, 2)))).unwrap();
        assert_eq!(last(&list), "fix it");
        list.apply(Update::NodeRemoved(key)).unwrap();
        assert!(list.nodes.is_empty());
        let mut other = LineList::new(Some("other"), true);
        other.apply(Update::Node(Box::new(row("me", NodeState::Busy, 1)))).unwrap();
        assert!(other.nodes.is_empty(), "it is in another session");
    }
}
