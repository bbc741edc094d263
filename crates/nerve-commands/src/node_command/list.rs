//! `nerve ls`: lists the nodes of a session.

use anyhow::Result;
use nerve_api::reply::{NodeInfo, NodeList};
use nerve_api::request::ListNodes;

use super::CommandContext;
use crate::out;

/// Maximum printed length of a command, in characters.
const MAX_COMMAND: usize = 60;
/// Length to which a narrow terminal shortens a command and a working directory, in characters.
const MIN_COMMAND: usize = 16;
const MIN_CWD: usize = 16;
/// Columns of a list of nodes.
pub(super) const COLUMNS: [&str; 6] = ["node", "type", "state", "cost", "command", "cwd"];
/// Index of the column with the state.
pub(super) const STATE: usize = 2;
/// Titles of the columns that are shortened.
const COMMAND: &str = "command";
const CWD: &str = "cwd";
/// Columns that a narrow terminal does without.
const OPTIONAL_COLUMNS: [&str; 4] = ["type", CWD, COMMAND, "cost"];
/// Columns that are aligned to the right.
pub(super) const NUMBERS: [&str; 1] = ["cost"];

/// Lists the nodes of a session.
pub(super) async fn run(context: &CommandContext) -> Result<()> {
    let params = ListNodes { session_id: context.session.clone(), ..ListNodes::default() };
    context
        .request_and_print(&params, |NodeList { nodes_info, stopped, .. }| {
            print_rows(&COLUMNS, nodes_info.iter().chain(&stopped).map(format_row).collect())
        })
        .await
}

/// Prints rows of nodes, as far as the terminal has room. `header`: [`COLUMNS`], with or without others.
pub(super) fn print_rows(header: &[&str], mut rows: Vec<Vec<String>>) -> Result<()> {
    if rows.is_empty() {
        out::note("no nodes; create one with 'nerve new NAME -c COMMAND'");
    }
    let width = out::window_width();
    if let Some(width) = width {
        shorten_rows(header, &mut rows, width);
    }
    let (header, rows) = out::select_columns(header, &rows, width, &OPTIONAL_COLUMNS);
    out::table_with_numbers(&header, &rows, &NUMBERS)
}

/// Shortens the commands, and then the working directories, as far as a terminal of this width requires.
fn shorten_rows(header: &[&str], rows: &mut [Vec<String>], width: usize) {
    // The ellipsis of a preview is not part of its length.
    let preview = |text: &str, most: usize| match text.chars().count() > most {
        true => out::preview(text, most - 1),
        false => text.to_string(),
    };
    let position = |title: &str| header.iter().position(|column| *column == title);
    if let Some(command) = position(COMMAND) {
        out::shorten_column(header, rows, command, width, MIN_COMMAND, preview);
    }
    if let Some(cwd) = position(CWD) {
        out::shorten_column(header, rows, cwd, width, MIN_CWD, out::shorten_middle);
    }
}

/// Returns the row of a node in [`COLUMNS`].
pub(super) fn format_row(node: &NodeInfo) -> Vec<String> {
    let field = |name: &str| node.metadata.text(name).to_string();
    let mut state = node.metadata.state_text(node.state);
    if node.approximate {
        state.push_str(" (approximate)");
    }
    // Chat nodes have a model instead of a command. `info` shows long commands in full.
    let commands = ["requested_command", "command", "model"].map(field);
    let command = commands.into_iter().find(|command| !command.is_empty()).unwrap_or_default();
    let command = out::preview(&command, MAX_COMMAND);
    vec![node.node_id.clone(), node.kind.clone(), state, node.progress.cost_text(), command, field("cwd")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_folders_are_shortened_to_fit() {
        let row =
            |command: &str, cwd: &str| ["me", "pty", "ready", "", command, cwd].map(String::from).to_vec();
        let mut rows = vec![row(&"x".repeat(60), "/home/me/site"), row("bash", "/")];
        shorten_rows(&COLUMNS, &mut rows, 80);
        assert_eq!(out::Table::new(&COLUMNS, &rows).width(), 80);
        assert!(rows[0][4].ends_with('…') && rows[1][4] == "bash");
        assert_eq!(rows[0][5], "/home/me/site");
        shorten_rows(&COLUMNS, &mut rows, 20);
        assert_eq!(rows[0][4].chars().count(), MIN_COMMAND);

        let mut rows = vec![row("claude", &format!("/home/me/{}/site", "x".repeat(90)))];
        shorten_rows(&COLUMNS, &mut rows, 80);
        assert_eq!(out::Table::new(&COLUMNS, &rows).width(), 80);
        let (header, rows) = out::select_columns(&COLUMNS, &rows, Some(80), &OPTIONAL_COLUMNS);
        assert!(header.contains(&"cwd"), "{header:?}");
        let cwd = rows[0].last().unwrap();
        assert!(cwd.starts_with("/home/me/") && cwd.contains('…') && cwd.ends_with("/site"), "{cwd}");
    }

    #[test]
    fn cost_is_left_out_of_narrow_terminal() {
        let rows = [["cl", "pty", "ready", "$0.03", "claude", "/home/me"].map(String::from).to_vec()];
        let titles = |width| out::select_columns(&COLUMNS, &rows, Some(width), &OPTIONAL_COLUMNS).0;
        assert_eq!(titles(20), ["node", "state", "cost"]);
        assert_eq!(titles(17), ["node", "state"]);
    }
}
