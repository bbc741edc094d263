//! Parser for the screen of Qwen Code.
//!
//! Column 2 holds markers: `>` a prompt, `◆` a text, `✕` an error, `●` a notice, and the state of a tool. Their rows
//! continue at column 4. A spinner and the composer between two lines follow.

use nerve_vt::screen::Screen;

use super::composer::Composer;
use super::echo::{EchoStyle, answer_start, end_of_own_echo};
use super::rows::{dedent, indent, is_blank};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, SectionKind, TurnText, screen_rows, tool_section};

/// Parser for Qwen Code 0.24.
pub(super) struct QwenParser;

impl Parser for QwenParser {
    /// Returns true if the composer holds the cursor, and neither the spinner nor the title signals work.
    fn is_ready(&self, screen: &Screen) -> bool {
        let composer = find_composer(&screen_rows(screen));
        composer.is_some_and(|composer| composer.is_ready(screen))
            && !screen.title.starts_with(['◐', '◓', '◑', '◒', '✳'])
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = find_composer(&rows);
        let rows = &rows[..composer.as_ref().map_or(rows.len(), |composer| composer.start)];
        // An interrupted prompt returns to the composer; its answer stays below its echo.
        if composer.as_ref().is_some_and(|composer| turn.is_draft(&composer.draft))
            && end_of_own_echo(rows, turn.prompt, &ECHO).is_none()
        {
            return ParsedTurn::default();
        }
        let (start, is_truncated) = answer_start(rows, turn.prompt, &ECHO, |row| split_marker(row).is_some());
        let mut builder = SectionBuilder::new(rows, start);
        add_rows(&mut builder);
        builder.finish(composer.is_some_and(|composer| !composer.is_busy), is_truncated)
    }
}

/// The echoes of prompts.
const ECHO: EchoStyle<'_> = EchoStyle { head: &|rows, row| prompt_text(rows[row]), indent: 4 };

/// Finds the composer and the spinner above it.
fn find_composer(rows: &[&str]) -> Option<Composer> {
    let composer = Composer::find_between_lines(rows, &['>', '*', '!'])?;
    let above = rows[..composer.start].iter().rposition(|row| !is_blank(row));
    Some(match above.filter(|&above| is_spinner(rows[above])) {
        Some(spinner) => Composer { start: spinner, is_busy: true, ..composer },
        None => composer,
    })
}

/// Returns true for `  ⠋ Thinking… (2s · esc to cancel)`.
fn is_spinner(row: &str) -> bool {
    row.trim_start().starts_with(|c: char| ('\u{2801}'..='\u{28ff}').contains(&c))
}

/// Splits a row with a marker at column 2 into the marker and the text after it.
fn split_marker(row: &str) -> Option<(char, &str)> {
    let row = row.strip_prefix("  ")?;
    let marker = row.chars().next().filter(|c| ">◆✕✓✗?●⊷⊶-ox⚠ℹ".contains(*c))?;
    // A variation selector may follow, which asks for text instead of an emoji.
    let rest = row[marker.len_utf8()..].trim_start_matches('\u{fe0e}');
    rest.strip_prefix(' ').or(rest.is_empty().then_some(rest)).map(|rest| (marker, rest))
}

/// Returns the prompt in the first row of an echo.
fn prompt_text(row: &str) -> Option<&str> {
    split_marker(row).filter(|(marker, _)| *marker == '>').map(|(_, text)| text)
}

/// Reads the rows up to the next prompt.
fn add_rows(builder: &mut SectionBuilder<'_>) {
    while let Some(row) = builder.row() {
        match split_marker(row) {
            _ if is_blank(row) || is_spinner(row) => builder.next_row += 1,
            Some(('>', _)) => {
                builder.has_ended = true;
                return;
            }
            Some((marker, first)) => add_item(builder, marker, first),
            // The rest of an item whose beginning has scrolled away.
            None => {
                let text = take_text(builder, dedent(row, 4));
                builder.push(SectionKind::Text, text);
            }
        }
    }
}

/// Adds a marked item. `first`: the text behind its marker.
fn add_item(builder: &mut SectionBuilder<'_>, marker: char, first: &str) {
    let kind = match marker {
        '◆' => SectionKind::Text,
        '✕' if first.starts_with('[') => SectionKind::Error,
        '●' | 'ℹ' | '⚠' => SectionKind::Interrupted,
        icon => return add_tool(builder, icon, first),
    };
    let text = take_text(builder, first);
    // Other notices come from the program, not from the answer.
    if kind != SectionKind::Interrupted || text.starts_with("Request cancelled") {
        builder.push(kind, text);
    }
}

/// Adds a tool. `icon` shows its state; `first` has its name and arguments.
fn add_tool(builder: &mut SectionBuilder<'_>, icon: char, first: &str) {
    let (name, args) = first.trim().split_once(' ').unwrap_or((first.trim(), ""));
    let status = match icon {
        '✓' => "ok",
        '✕' | '✗' | 'x' => "error",
        '?' => "asking",
        '-' => "rejected",
        _ => "running",
    };
    let result = take_text(builder, "");
    builder.has_dialog |= icon == '?';
    // The rows of a dialog are its choices.
    let result = if icon == '?' { String::new() } else { result };
    builder.add(tool_section(name, args.trim_end_matches('←').trim(), Some(status), result));
}

/// Moves past the rows of an item and returns their text. `first`: the text of the first row.
fn take_text(builder: &mut SectionBuilder<'_>, first: &str) -> String {
    builder.take_text(first, 4, |row| {
        is_blank(row) || (split_marker(row).is_none() && !is_spinner(row) && indent(row) >= 2)
    })
}
