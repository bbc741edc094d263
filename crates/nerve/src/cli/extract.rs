//! `nerve extract`: what an agent said, out of a text that shows it.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::node::ParserName;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Reads what a terminal showed: a log, a saved screen, a recording (a file, an id or the beginning of one), a pane of tmux or WezTerm, or
standard input. Escape sequences in it are understood. The text is split into turns at the prompts that the agent repeats, and each answer
is taken apart into sections. Of a full-screen program only its last screen is left in a recording.

Exits with 3 when there is no such thing to read, or no turn in it.

EXAMPLES
  nerve extract session.log
  nerve extract 0195e3a1-77aa --last
  tmux capture-pane -p -S - | nerve extract --json
  nerve extract --pane %3 --full
  nerve extract --list-panes
  nerve extract screen.txt --parser none --raw")]
pub(crate) struct ExtractArgs {
    /// A text, a recording or its id; '-' or nothing reads standard input
    #[arg(value_name = "FILE|ID", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// How answers are taken apart; guessed from the text if not given
    #[arg(short, long, value_enum)]
    pub(crate) parser: Option<ParserName>,
    /// Read a pane: '%3' or 'session:window.pane' of tmux, a number of WezTerm
    #[arg(long, value_name = "PANE", conflicts_with_all = ["file", "cols", "rows"])]
    pub(crate) pane: Option<String>,
    /// The multiplexer's own server: a socket's path, or a name as 'tmux -L' takes it
    #[arg(short = 'L', long, value_name = "SOCKET")]
    pub(crate) socket: Option<String>,
    /// List the panes there are, and read nothing
    #[arg(long, conflicts_with_all = ["file", "pane", "parser", "raw", "last", "full"])]
    pub(crate) list_panes: bool,
    /// Print as JSON
    #[arg(short, long)]
    pub(crate) json: bool,
    /// Print the text as it was shown, and take nothing apart
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Only the last answer: what the agent said, or if it said nothing, what it did
    #[arg(long)]
    pub(crate) last: bool,
    /// Of a pane, its scrollback too; all else is always read whole
    #[arg(long)]
    pub(crate) full: bool,
    /// Columns of the terminal that showed the text; found from the text if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) cols: Option<u16>,
    /// Rows of the terminal that showed the text, where it moves its cursor
    #[arg(long, value_name = "N", default_value = "40", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) rows: u16,
}
