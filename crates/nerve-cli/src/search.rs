//! `nerve search`.

use clap::Args;
use nerve_api::value::DocumentKind;

const EXAMPLES: &str = "\
EXAMPLES
  nerve search 'rate limit'
  nerve search --since yesterday --in prompts 'fix the'
  nerve search --node me '/E0[0-9]{3}/'
  nerve search --all-machines 'rate limit'";

/// Arguments of `nerve search`.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Searches prompts, answers, tools and screens of all nodes and recordings on this machine, newest first.

TEXT matches words in this order; case, accents and punctuation do not matter. With fewer hits than the limit, the last word may continue. /REGEX/ is a regular expression.

The index is built at the first search, and updated at each. It is in 'search' in the state directory; if it is deleted, the next search builds it again.",
    after_long_help = EXAMPLES
)]
pub struct SearchArgs {
    /// Text, or regular expression between slashes
    #[arg(value_name = "TEXT|/REGEX/")]
    pub pattern: String,
    /// Search only this node: NODE, SESSION/NODE or MACHINE/SESSION/NODE
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Search on this machine and on all others in the list
    #[arg(long)]
    pub all_machines: bool,
    /// Search only the nodes of this session
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Search only what is newer: today, yesterday, 12h, 30d, 2026-01-31 or a time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Search only these, separated by commas [default: all]
    #[arg(long = "in", value_name = "PARTS", value_delimiter = ',')]
    pub parts: Vec<SearchPart>,
    /// Maximum number of hits
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub lines: u32,
    /// Print as JSON
    #[arg(short, long)]
    pub json: bool,
}

/// Part of the conversations and recordings to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SearchPart {
    /// Prompts
    Prompts,
    /// Texts of answers
    Answers,
    /// Tools with their arguments and results
    Tools,
    /// Everything shown on the screen
    Screen,
}

impl SearchPart {
    /// Returns the kind of the texts.
    pub fn kind(self) -> DocumentKind {
        match self {
            SearchPart::Prompts => DocumentKind::Prompt,
            SearchPart::Answers => DocumentKind::Answer,
            SearchPart::Tools => DocumentKind::Tool,
            SearchPart::Screen => DocumentKind::Screen,
        }
    }
}
