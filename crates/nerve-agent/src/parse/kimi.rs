//! Parser for the screen of Kimi Code.
//!
//! Column 1 holds markers: `✨` a prompt, `●` a text or a tool, `✗` a failed tool. Their rows continue at column 3, those of a
//! prompt at column 4. A spinner and the composer in a frame follow. An error or an interruption has no marker.

pub(crate) mod wire;

use nerve_vt::screen::Screen;

use super::composer::Composer;
use super::echo::{EchoStyle, answer_start};
use super::rows::{dedent, is_blank, join_draft};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, SectionKind, TurnText, screen_rows, tool_section};

/// Indentation of text.
const INDENT: usize = 3;
/// The row below an interrupted answer.
const INTERRUPTED: &str = "   Interrupted by user";
/// The beginning of the row below an answer that failed.
const ERROR: &str = "   Error: ";
/// The beginnings of rows below a tool that had to be allowed.
const DECISIONS: [&str; 3] = ["   Approved: ", "   Approved for session: ", "   Rejected: "];

/// Parser for Kimi Code 2.1.
pub(super) struct KimiParser;

impl Parser for KimiParser {
    /// Returns true if the composer holds the cursor, and no spinner is above it.
    fn is_ready(&self, screen: &Screen) -> bool {
        find_composer(&screen_rows(screen)).is_some_and(|composer| composer.is_ready(screen))
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = find_composer(&rows);
        if composer.as_ref().is_some_and(|composer| turn.is_draft(&composer.draft)) {
            return ParsedTurn::default();
        }
        let dialog = dialog_row(&rows).filter(|_| composer.is_none());
        let end = composer.as_ref().map(|composer| composer.start).or(dialog).unwrap_or(rows.len());
        let rows = &rows[..end];
        let (start, is_truncated) = answer_start(rows, turn.prompt, &ECHO, |row| split_marker(row).is_some());
        let mut builder = SectionBuilder::new(rows, start);
        builder.has_dialog = dialog.is_some();
        add_rows(&mut builder);
        builder.has_ended &= !builder.sections.is_empty();
        builder.finish(composer.is_some_and(|composer| !composer.is_busy), is_truncated)
    }
}

/// The echoes of prompts.
const ECHO: EchoStyle<'_> = EchoStyle { head: &|rows, row| prompt_text(rows[row]), indent: 4 };

/// Finds the composer in its frame, and the spinner above it.
fn find_composer(rows: &[&str]) -> Option<Composer> {
    let bottom = rows.iter().rposition(|row| row.starts_with(" ╰──"))?;
    let top = rows[..bottom].iter().rposition(|row| row.starts_with(" ╭"))?;
    rows.get(top + 1)?.strip_prefix(" │ ")?.starts_with(['>', '!']).then_some(())?;
    // Below the spinner may be the reason of a repeated request.
    let block = rows[..top].iter().rposition(|row| is_blank(row)).map_or(0, |blank| blank + 1);
    let start = (block..top).find(|&row| is_spinner(rows[row])).unwrap_or(top);
    let draft: Vec<&str> = rows[top + 1..bottom].iter().map(|row| inside_frame(row)).collect();
    let (first, further) = draft.split_first()?;
    let draft = join_draft(first.trim_start_matches(['>', '!']).trim(), further);
    Some(Composer { start, input: top + 1..bottom, draft, is_busy: start < top })
}

/// Returns the line above a dialog's title.
fn dialog_row(rows: &[&str]) -> Option<usize> {
    rows.windows(2).rposition(|pair| pair[0].starts_with(" ────") && pair[1].starts_with("   ▶ "))
}

/// Returns the text of a row of the composer.
fn inside_frame(row: &str) -> &str {
    let row = row.trim().trim_start_matches('│');
    row.strip_suffix('│').unwrap_or(row).trim()
}

/// Returns true for `  ⠼ Working…`, and for `  🌕 · Tip: …`, whose sign is a phase of the moon.
fn is_spinner(row: &str) -> bool {
    let is_sign = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c) || ('🌑'..='🌘').contains(&c);
    row.strip_prefix("  ").is_some_and(|row| row.starts_with(is_sign))
}

/// Splits a row with a marker at column 1 into the marker and the text after it.
fn split_marker(row: &str) -> Option<(char, &str)> {
    let row = row.strip_prefix(' ')?;
    let marker = row.chars().next().filter(|c| "✨●✗".contains(*c))?;
    row[marker.len_utf8()..].strip_prefix(' ').map(|text| (marker, text))
}

/// Returns the prompt in the first row of an echo.
fn prompt_text(row: &str) -> Option<&str> {
    split_marker(row).filter(|(marker, _)| *marker == '✨').map(|(_, text)| text)
}

/// A tool in the row of its marker.
struct ToolHead<'a> {
    name: &'a str,
    args: &'a str,
    is_running: bool,
}

impl<'a> ToolHead<'a> {
    /// Reads `Used Read (notes.txt) · 2 lines` or `Ran a command · $ ls`.
    fn read(text: &'a str) -> Option<ToolHead<'a>> {
        for (words, is_running) in [("Ran a command", false), ("Running a command", true)] {
            if let Some(args) = text.strip_prefix(words).and_then(|rest| rest.strip_prefix(" · $ ")) {
                return Some(ToolHead { name: "Bash", args, is_running });
            }
        }
        let (word, rest) = text.split_once(' ')?;
        let is_running = word == "Using";
        let (name, rest) = rest.split_once([' ', '(']).unwrap_or((rest, ""));
        let is_name = name.starts_with(|c: char| c.is_ascii_uppercase()) || name.starts_with("mcp__");
        let is_tool =
            (is_running || word == "Used") && is_name && (rest.is_empty() || rest.starts_with(['(', '·']));
        let args = rest.strip_prefix('(').and_then(|rest| Some(rest.rsplit_once(')')?.0)).unwrap_or_default();
        is_tool.then_some(ToolHead { name, args, is_running })
    }
}

/// Reads the rows up to the next prompt.
fn add_rows(builder: &mut SectionBuilder<'_>) {
    while let Some(row) = builder.row() {
        match split_marker(row) {
            Some(('✨', _)) => {
                builder.has_ended = true;
                return;
            }
            Some((marker, first)) => add_item(builder, marker, first),
            None if is_blank(row) || DECISIONS.iter().any(|begin| row.starts_with(begin)) => {
                builder.next_row += 1;
            }
            None if row == INTERRUPTED => {
                builder.next_row += 1;
                builder.push(SectionKind::Interrupted, row.trim().to_string());
            }
            None if row.starts_with(ERROR) => {
                let text = take_text(builder, row.trim_start());
                let text = text.split("\nIf this persists, ").next().unwrap_or_default();
                builder.push(SectionKind::Error, text.trim_start_matches("Error: ").to_string());
            }
            // The rest of an item whose beginning has scrolled away.
            None => {
                let text = take_text(builder, dedent(row, INDENT));
                builder.push(SectionKind::Text, text);
            }
        }
    }
}

/// Adds a marked item. `first`: the text behind its marker.
fn add_item(builder: &mut SectionBuilder<'_>, marker: char, first: &str) {
    let Some(tool) = ToolHead::read(first) else {
        let text = take_text(builder, first);
        return builder.push(SectionKind::Text, text);
    };
    let status = match marker {
        '✗' => "error",
        _ if tool.is_running => "running",
        _ => "ok",
    };
    let result = take_text(builder, "");
    builder.add(tool_section(tool.name, tool.args, Some(status), result));
}

/// Moves past the rows of an item and returns their text. `first`: the text of the first row.
fn take_text(builder: &mut SectionBuilder<'_>, first: &str) -> String {
    builder.take_text(first, INDENT, |row| !is_new_item(row))
}

/// Returns true for a row that does not continue an item.
fn is_new_item(row: &str) -> bool {
    let begins = |begin: &&str| row.starts_with(*begin);
    split_marker(row).is_some()
        || row == INTERRUPTED
        || row.starts_with(ERROR)
        || DECISIONS.iter().any(begins)
}
