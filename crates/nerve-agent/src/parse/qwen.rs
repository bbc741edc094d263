//! Parser for the screen of Qwen Code.
//!
//! Column 2 holds markers: `>` a prompt, `◆` a text, `✕` an error, `●` a notice, and the state of a tool. Their rows
//! continue at column 4. A spinner and the composer between two lines follow.

use nerve_vt::screen::Screen;

use super::echo::{EchoStyle, answer_start, end_of_own_echo};
use super::rows::{dedent, indent, is_blank, is_rule, join, join_draft};
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText, screen_rows, tool_section};

/// Parser for Qwen Code 0.24.
#[derive(Debug, Clone, Copy, Default)]
pub struct QwenParser;

impl Parser for QwenParser {
    /// Returns true if the composer holds the cursor, and neither the spinner nor the title signals work.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let Some(composer) = Composer::find(&rows) else { return false };
        let cursor = usize::from(screen.cursor.row);
        (composer.top + 1..composer.bottom).contains(&cursor)
            && !composer.is_busy()
            && !screen.title.starts_with(['◐', '◓', '◑', '◒', '✳'])
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = Composer::find(&rows);
        let end = composer.as_ref().map_or(rows.len(), |composer| composer.status);
        let lines = &turn.lines[..end];
        let echo = EchoStyle { head: &|row| prompt_text(&lines[row]), indent: 4 };
        // An interrupted prompt returns to the composer; its answer stays below its echo.
        if let Some(composer) = &composer
            && turn.is_draft(&composer.draft(&rows))
            && end_of_own_echo(lines, turn.prompt, &echo).is_none()
        {
            return ParsedTurn::default();
        }
        let (start, is_truncated) =
            answer_start(lines, turn.prompt, &echo, |row| split_marker(row).is_some());
        let mut builder = SectionBuilder { rows: &rows[..end], next_row: start, ..SectionBuilder::default() };
        builder.add_rows();
        let sections = builder.sections;
        let is_aborted = sections
            .last()
            .is_some_and(|last| matches!(last.kind, SectionKind::Interrupted | SectionKind::Error));
        let is_idle = composer.is_some_and(|composer| !composer.is_busy()) && !sections.is_empty();
        let is_complete = !builder.has_dialog && (is_idle || is_aborted || builder.has_ended);
        let is_truncated = is_truncated && !sections.is_empty();
        ParsedTurn { sections, tokens: None, is_complete, is_truncated }
    }
}

/// The composer between two lines, and the spinner above it.
struct Composer {
    /// The spinner, or the upper line.
    status: usize,
    /// The upper line.
    top: usize,
    /// The lower line.
    bottom: usize,
}

impl Composer {
    fn find(rows: &[&str]) -> Option<Composer> {
        let bottom = rows.iter().rposition(|row| is_rule(row, '─'))?;
        let top = rows[..bottom].iter().rposition(|row| is_rule(row, '─'))?;
        rows.get(top + 1)?.starts_with(['>', '*', '!']).then_some(())?;
        let above = rows[..top].iter().rposition(|row| !is_blank(row));
        let status = above.filter(|&above| is_spinner(rows[above])).unwrap_or(top);
        Some(Composer { status, top, bottom })
    }

    fn is_busy(&self) -> bool {
        self.status < self.top
    }

    fn draft(&self, rows: &[&str]) -> String {
        let draft = &rows[self.top + 1..self.bottom];
        let first = draft.first().and_then(|row| row.get(1..)).unwrap_or_default();
        join_draft(first.trim_end_matches(['\u{200b}', ' ']), &draft[1.min(draft.len())..])
    }
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

/// Builds the sections of an answer from its rows.
#[derive(Default)]
struct SectionBuilder<'a> {
    rows: &'a [&'a str],
    /// Index of the row to read next.
    next_row: usize,
    sections: Vec<Section>,
    /// True if the next prompt follows the answer.
    has_ended: bool,
    /// True if a tool asks for permission.
    has_dialog: bool,
}

impl<'a> SectionBuilder<'a> {
    /// Reads the rows up to the next prompt.
    fn add_rows(&mut self) {
        while let Some(&row) = self.rows.get(self.next_row) {
            match split_marker(row) {
                _ if is_blank(row) || is_spinner(row) => self.next_row += 1,
                Some(('>', _)) => {
                    self.has_ended = true;
                    return;
                }
                Some((marker, first)) => self.add_item(marker, first),
                // The rest of an item whose beginning has scrolled away.
                None => {
                    let text = self.take_text(dedent(row, 4));
                    self.push(SectionKind::Text, text);
                }
            }
        }
    }

    /// Adds a marked item. `first`: the text behind its marker.
    fn add_item(&mut self, marker: char, first: &'a str) {
        match marker {
            '◆' => {
                let text = self.take_text(first);
                self.push(SectionKind::Text, text);
            }
            '✕' if first.starts_with('[') => {
                let text = self.take_text(first);
                self.push(SectionKind::Error, text);
            }
            '●' | 'ℹ' | '⚠' => {
                // Other notices come from the program, not from the answer.
                let text = self.take_text(first);
                if text.starts_with("Request cancelled") {
                    self.push(SectionKind::Interrupted, text);
                }
            }
            icon => self.add_tool(icon, first),
        }
    }

    /// Adds a tool. `icon` shows its state; `first` has its name and arguments.
    fn add_tool(&mut self, icon: char, first: &'a str) {
        let (name, args) = first.trim().split_once(' ').unwrap_or((first.trim(), ""));
        let (name, args) = (name.to_string(), args.trim_end_matches('←').trim().to_string());
        let status = match icon {
            '✓' => "ok",
            '✕' | '✗' | 'x' => "error",
            '?' => "asking",
            '-' => "rejected",
            _ => "running",
        };
        let result = self.take_text("");
        self.has_dialog |= icon == '?';
        // The rows of a dialog are its choices.
        let result = if icon == '?' { String::new() } else { result };
        self.sections.push(tool_section(&name, &args, Some(status), result));
    }

    /// Moves past the rows of an item and returns their text. `first`: the text of the first row.
    fn take_text(&mut self, first: &'a str) -> String {
        let mut text = vec![first];
        self.next_row += 1;
        while let Some(&row) = self.rows.get(self.next_row)
            && (is_blank(row) || (split_marker(row).is_none() && !is_spinner(row) && indent(row) >= 2))
        {
            text.push(dedent(row, 4));
            self.next_row += 1;
        }
        join(&text)
    }

    /// Adds a section unless it is empty.
    fn push(&mut self, kind: SectionKind, content: String) {
        if !content.is_empty() {
            self.sections.push(Section::new(kind, content));
        }
    }
}
