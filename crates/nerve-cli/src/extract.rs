//! `nerve recording extract`: parses an agent's answers out of terminal text.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use nerve_api::value::ParserKind;

use nerve_commands::node_command::{COLS, ROWS, one_of};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Reads terminal text: a log, a saved screen, a recording (as for 'nerve view'), a tmux or WezTerm pane, or standard input. Escape sequences
are interpreted. The text is split into turns at the agent's prompts, and each answer into sections. From the recording of a full-screen
program, only the last screen is available.

Exits with 3 if the source does not exist or contains no turn.

EXAMPLES
  nerve recording extract session.log
  nerve recording extract 0195e3a1-77aa --last
  tmux capture-pane -p -S - | nerve recording extract --json
  nerve recording extract --pane %3 --full
  nerve recording extract --list-panes
  nerve recording extract screen.txt --parser none --raw")]
pub struct ExtractArgs {
    /// Text file or recording; '-' reads standard input [default: -]
    #[arg(value_name = "FILE|RECORDING", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Answer parser [default: detected from the text]
    #[arg(short, long, value_parser = one_of::<ParserKind>(ParserKind::names()))]
    pub parser: Option<ParserKind>,
    /// Pane to read: '%3' or 'session:window.pane' in tmux, a number in WezTerm
    #[arg(long, value_name = "PANE", conflicts_with_all = ["file", "cols", "rows"])]
    pub pane: Option<String>,
    /// Multiplexer server: socket path, or name as for 'tmux -L'
    #[arg(short = 'L', long, value_name = "SOCKET")]
    pub socket: Option<String>,
    /// List the panes and read nothing
    #[arg(long, conflicts_with_all = ["file", "pane", "parser", "raw", "last", "full"])]
    pub list_panes: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
    /// Print the text unparsed
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Print only the last answer: its text, or its actions if it has none
    #[arg(long)]
    pub last: bool,
    /// Include a pane's scrollback; other sources are always read completely
    #[arg(long)]
    pub full: bool,
    /// Columns of the original terminal [default: detected from the text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(COLS))]
    pub cols: Option<u16>,
    /// Rows of the original terminal, for text that moves the cursor
    #[arg(long, value_name = "N", default_value = "40", value_parser = clap::value_parser!(u16).range(ROWS))]
    pub rows: u16,
}
