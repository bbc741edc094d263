//! `nerve transcript`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::node::ServerOption;

const EXAMPLES: &str = "\
EXAMPLES
  nerve transcript me                      the conversation of a node
  nerve transcript me --turn 3             one turn
  nerve transcript me --format html -o me.html
                                         one page for a browser
  nerve transcript session.ahr --format json
                                         of a recording";

/// Arguments of `nerve transcript`.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Prints the prompts and answers of a node, also after it was stopped, or of a recording: text, tools with their results, and dialogs with who answered them.

The turns come from the agent's own session file if there is one, which also has what was typed into the terminal by hand. Otherwise they come from the node's history, or from the recorded screen.",
    after_long_help = EXAMPLES
)]
pub struct TranscriptArgs {
    /// Node, SESSION/NODE, MACHINE/SESSION/NODE, or a recording: NODE@N, a file, an id or its beginning
    #[arg(value_name = "NODE|RECORDING", value_hint = ValueHint::AnyPath)]
    pub source: String,
    /// Format of the output
    // `-f` means `--follow` in every help; as `-f md` it is what people type.
    #[arg(long, short_alias = 'f', value_name = "FORMAT", default_value = "txt")]
    pub format: TranscriptFormat,
    /// Print only this turn, from 1
    #[arg(long, value_name = "N")]
    pub turn: Option<u64>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Session of the node [default: the one of its newest recording]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    #[command(flatten)]
    pub server: ServerOption,
}

impl TranscriptArgs {
    /// Returns true if the output is JSON.
    pub fn prints_json(&self) -> bool {
        self.server.json || self.format == TranscriptFormat::Json
    }
}

/// Formats of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TranscriptFormat {
    /// Markdown
    Md,
    /// One self-contained page
    Html,
    /// JSON, as in the reply to GET_TRANSCRIPT
    Json,
    /// Plain text
    Txt,
}
