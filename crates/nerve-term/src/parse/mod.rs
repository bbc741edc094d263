//! A turn's text to sections, tokens and completeness.
//!
//! Parsers see what a person would see: rows of text taken from the terminal model, never raw bytes. They hold no state.

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

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use claude::ClaudeParser;
pub use codex::CodexParser;
pub use gemini::GeminiParser;
pub use none::NoneParser;
pub use opencode::OpencodeParser;

use crate::screen::Screen;

/// Reads the output of one agent program (seed node-refactoring §3.2).
pub trait Parser: Send + Sync {
    /// Does the screen show the agent waiting for input? Looks only at the live region: composer and status rows.
    fn is_ready(&self, screen: &Screen) -> bool;
    /// Takes a turn apart.
    fn parse(&self, turn: &TurnText<'_>) -> Parsed;
}

/// The rows of one turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnText<'a> {
    /// What was sent; lets a parser find its echo. Empty when unknown.
    pub prompt: &'a str,
    /// Rows from the echo of the prompt (or above it) to the composer (or below it), trailing blanks cut, soft-wrapped rows
    /// already joined.
    pub lines: &'a [String],
}

/// What a parser made of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// In the order they appeared.
    pub sections: Vec<Section>,
    /// Tokens the agent showed, if it did.
    pub tokens: Option<Tokens>,
    /// The turn's end was seen (not merely the end of the text we have).
    pub is_complete: bool,
}

impl Parsed {
    /// The text sections joined by blank lines: what the agent said.
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

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// What it is.
    pub kind: SectionKind,
    /// Its text, common indentation removed.
    pub content: String,
    /// Facts about it, as far as they are known: `tool`, `args`, `id` (transcript only), `duration`, `label`, `status` (`ok`,
    /// `error`, `rejected`, `running`, `waiting`, `asking`, `pending`), `folded` (`true`: only a summary was shown).
    pub metadata: BTreeMap<String, String>,
}

impl Section {
    /// A section without metadata.
    pub fn new(kind: SectionKind, content: impl Into<String>) -> Section {
        Section { kind, content: content.into(), metadata: BTreeMap::new() }
    }

    /// Adds one fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Section {
        self.metadata.insert(key.to_string(), value.into());
        self
    }
}

/// Kinds of sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SectionKind {
    /// What the agent said.
    Text,
    /// What it thought, where it shows that.
    Thinking,
    /// A tool it used: `content` is the result as shown, metadata `tool` and `args`.
    ToolCall,
    /// An error the agent reported (an API error, a refused tool).
    Error,
    /// The turn was interrupted here.
    Interrupted,
}

impl SectionKind {
    /// The name on the wire and in the history.
    pub fn as_str(self) -> &'static str {
        match self {
            SectionKind::Text => "text",
            SectionKind::Thinking => "thinking",
            SectionKind::ToolCall => "tool_call",
            SectionKind::Error => "error",
            SectionKind::Interrupted => "interrupted",
        }
    }
}

/// Token counts, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Tokens of the prompt.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// All, where only a sum is shown.
    pub total: Option<u64>,
}

/// The parsers there are (seed: per-command parsing, default per node).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ParserKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// No structure: the whole text is one section.
    #[default]
    None,
}

impl ParserKind {
    /// All names, for messages and completion.
    pub const NAMES: [&'static str; 5] = ["claude", "codex", "gemini", "opencode", "none"];

    /// The parser itself.
    pub fn parser(self) -> &'static dyn Parser {
        match self {
            ParserKind::Claude => &ClaudeParser,
            ParserKind::Codex => &CodexParser,
            ParserKind::Gemini => &GeminiParser,
            ParserKind::Opencode => &OpencodeParser,
            ParserKind::None => &NoneParser,
        }
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ParserKind::Claude => "claude",
            ParserKind::Codex => "codex",
            ParserKind::Gemini => "gemini",
            ParserKind::Opencode => "opencode",
            ParserKind::None => "none",
        }
    }
}

impl fmt::Display for ParserKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ParserKind {
    type Err = UnknownParser;
    fn from_str(name: &str) -> Result<ParserKind, UnknownParser> {
        match name {
            "claude" => Ok(ParserKind::Claude),
            "codex" => Ok(ParserKind::Codex),
            "gemini" => Ok(ParserKind::Gemini),
            "opencode" => Ok(ParserKind::Opencode),
            "none" => Ok(ParserKind::None),
            _ => Err(UnknownParser(name.to_string())),
        }
    }
}

/// A parser name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown parser '{0}': use claude, codex, gemini, opencode or none")]
pub struct UnknownParser(pub String);
