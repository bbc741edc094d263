//! Parses a turn's text into sections, tokens and completeness.
//!
//! Parsers see rows of text from the terminal model, as a person would, and never raw bytes. They are stateless.

pub mod conversation;
pub mod opencode_session;
pub mod session_files;
pub mod transcript;
pub mod turn_list;
pub mod usage;

mod claude;
mod codex;
mod composer;
mod copilot;
pub(crate) mod copilot_events;
mod echo;
pub(crate) mod entry;
mod gemini;
pub(crate) mod gemini_chat;
pub(crate) mod kimi;
mod layout;
pub(crate) mod line_decoder;
mod none;
mod opencode;
mod pi;
pub(crate) mod pi_session;
mod qwen;
pub(crate) mod qwen_chat;
pub(crate) mod rollout;
mod rows;
mod section_builder;
mod transcript_turn;
mod usage_list;

pub use entry::ResponseUsage;

use nerve_types::TsNs;
pub use nerve_types::{ParserKind, Section, SectionKind, Tokens, UnknownParser};
use nerve_vt::screen::Screen;

use crate::profile::TranscriptKind;
use copilot_events::CopilotDecoder;
use gemini_chat::ChatDecoder;
use kimi::wire::WireDecoder;
use line_decoder::parse_turn;
use pi_session::PiDecoder;
use qwen_chat::QwenDecoder;
use rollout::RolloutDecoder;
use rows::compact;
use transcript::TranscriptTurn;

/// A parser for the output of one agent program.
///
/// Parsers of agents read a turn in the same steps. They find the live region (`composer`), and return nothing if the prompt is
/// still in the composer. They find the first row of the answer below the prompt's echo (`echo`). The rows from there to the live
/// region become sections (`section_builder`).
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

impl<'a> TurnText<'a> {
    /// Returns the rows.
    fn rows(&self) -> Vec<&'a str> {
        self.lines.iter().map(String::as_str).collect()
    }

    /// Returns true if the prompt is still in the composer, whose text is `draft`: the rows above answer another prompt.
    fn is_draft(&self, draft: &str) -> bool {
        !self.prompt.is_empty() && compact(draft) == compact(self.prompt)
    }
}

/// Returns the rows of a screen.
fn screen_rows(screen: &Screen) -> Vec<&str> {
    screen.rows.iter().map(|row| row.text.as_str()).collect()
}

/// Creates the section of a tool call. `status`: the state of the call, if it is known.
fn tool_section(name: &str, args: &str, status: Option<&str>, result: String) -> Section {
    let section = Section::new(SectionKind::ToolCall, result).with("tool", name);
    let section = if args.is_empty() { section } else { section.with("args", args) };
    match status {
        Some(status) => section.with("status", status),
        None => section,
    }
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
    /// The beginning of the answer is missing: it has scrolled away. Only for a known prompt, and for agents that draw
    /// on the alternate screen or erase their scrollback (Codex, Gemini CLI, opencode, Kilo, pi).
    pub is_truncated: bool,
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

    /// Returns the error that ended the turn, even if text precedes it: the stream broke off.
    pub fn final_error(&self) -> Option<&str> {
        final_error(&self.sections)
    }
}

/// Returns the text of the last section if it is an error.
pub fn final_error(sections: &[Section]) -> Option<&str> {
    let last = sections.last().filter(|last| last.kind == SectionKind::Error)?;
    Some(&last.content)
}

/// Returns the parser of a kind.
pub fn parser(kind: ParserKind) -> &'static dyn Parser {
    match kind {
        ParserKind::Claude => &claude::ClaudeParser,
        ParserKind::Codex => &codex::CodexParser,
        ParserKind::Gemini => &gemini::GeminiParser,
        ParserKind::Opencode => &opencode::OpencodeParser,
        ParserKind::Pi => &pi::PiParser,
        ParserKind::Qwen => &qwen::QwenParser,
        ParserKind::Copilot => &copilot::CopilotParser,
        ParserKind::Kimi => &kimi::KimiParser,
        ParserKind::None => &none::NoneParser,
    }
}

/// Finds the last prompt that equals `prompt` in the lines of a session file, and collects the answer to it.
///
/// Ignores whitespace and control characters. Prompts stamped before `since` (compared in milliseconds) do not match,
/// because the same prompt may have been sent before. An empty prompt matches nothing, but in Claude Code's transcript the
/// last prompt. opencode and Kilo have no such file: see [`opencode_session::parse_session`].
pub fn parse_session_file<'a>(
    kind: TranscriptKind,
    lines: impl Iterator<Item = &'a str>,
    prompt: &str,
    since: Option<TsNs>,
) -> TranscriptTurn {
    match kind {
        TranscriptKind::Claude => transcript::parse_turn(lines, prompt, since),
        TranscriptKind::Codex => parse_turn::<RolloutDecoder>(lines, prompt, since),
        TranscriptKind::Gemini => parse_turn::<ChatDecoder>(lines, prompt, since),
        TranscriptKind::Pi => parse_turn::<PiDecoder>(lines, prompt, since),
        TranscriptKind::Qwen => parse_turn::<QwenDecoder>(lines, prompt, since),
        TranscriptKind::Copilot => parse_turn::<CopilotDecoder>(lines, prompt, since),
        TranscriptKind::Kimi => parse_turn::<WireDecoder>(lines, prompt, since),
        TranscriptKind::Opencode | TranscriptKind::Kilo => TranscriptTurn::default(),
    }
}
