//! Parses a turn's text into sections, tokens and completeness.
//!
//! Parsers see rows of text from the terminal model, as a person would, and never raw bytes. They are stateless.

pub mod conversation;
pub mod session_files;
pub mod transcript;

mod claude;
mod codex;
mod echo;
mod gemini;
mod none;
mod opencode;
mod rows;

pub use claude::ClaudeParser;
pub use codex::CodexParser;
pub use gemini::GeminiParser;
pub use none::NoneParser;
pub use opencode::OpencodeParser;

pub use nerve_types::{ParserKind, Section, SectionKind, Tokens, UnknownParser};
use nerve_vt::screen::Screen;

/// A parser for the output of one agent program.
pub trait Parser: Send + Sync {
    /// Returns true if the screen shows the agent waiting for input. Inspects only the live region: composer and status
    /// rows.
    fn is_ready(&self, screen: &Screen) -> bool;
    /// Parses a turn.
    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn;
}

/// The text of one turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnText<'a> {
    /// The prompt, used to find its echo; empty if unknown.
    pub prompt: &'a str,
    /// Rows from the echo of the prompt (or above) to the composer (or below), without trailing blanks, soft-wrapped
    /// rows joined.
    pub lines: &'a [String],
}

/// The result of parsing a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedTurn {
    /// The sections in order.
    pub sections: Vec<Section>,
    /// Token counts, if the agent showed them.
    pub tokens: Option<Tokens>,
    /// The turn's end was seen, not merely the end of the available text.
    pub is_complete: bool,
}

impl ParsedTurn {
    /// Returns the text sections joined by blank lines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .sections
            .iter()
            .filter(|section| section.kind == SectionKind::Text)
            .map(|section| section.content.as_str())
            .collect();
        texts.join("\n\n")
    }
}

/// Returns the parser of a kind.
pub fn parser(kind: ParserKind) -> &'static dyn Parser {
    match kind {
        ParserKind::Claude => &ClaudeParser,
        ParserKind::Codex => &CodexParser,
        ParserKind::Gemini => &GeminiParser,
        ParserKind::Opencode => &OpencodeParser,
        ParserKind::None => &NoneParser,
    }
}
