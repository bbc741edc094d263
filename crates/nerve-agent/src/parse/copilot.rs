//! Parser for the screen of GitHub Copilot CLI.
//!
//! Column 1 holds markers: `❯` a prompt with its time at the right, `●` a text, a notice or some tools, `✗` an error or a
//! failed tool, `$`, `/` and `○` other tools, `!` a warning. Their rows continue at column 3. A row with the folder, the
//! composer between two lines, and a row that shows activity follow.

use nerve_vt::screen::Screen;

use super::echo::{EchoStyle, answer_start};
use super::rows::{dedent, is_blank, is_rule, join, join_draft};
use super::{ParsedTurn, Parser, Section, SectionKind, TurnText, screen_rows, tool_section};

/// Notices of the program that look like texts.
const NOTICES: [&str; 3] = [
    "MCP Servers reloaded: ",
    "Request failed due to a transient API error. Retrying...",
    "Response was interrupted due to a server error. Retrying...",
];
/// The notice of an interruption.
const CANCELLED: &str = "Operation cancelled by user";

/// Parser for GitHub Copilot CLI 1.0.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopilotParser;

impl Parser for CopilotParser {
    /// Returns true if the composer holds the cursor, and the row below it shows no activity.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let Some(composer) = Composer::find(&rows) else { return false };
        let cursor = usize::from(screen.cursor.row);
        (composer.top + 1..composer.bottom).contains(&cursor) && !composer.is_busy
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let lines: Vec<String> = turn.lines.iter().map(|line| without_scroll_bar(line).to_string()).collect();
        let rows: Vec<&str> = lines.iter().map(String::as_str).collect();
        let composer = Composer::find(&rows);
        if let Some(composer) = &composer
            && turn.is_draft(&composer.draft(&rows))
        {
            return ParsedTurn::default();
        }
        let dialog = rows.iter().rposition(|row| row.starts_with("╭──────")).filter(|_| composer.is_none());
        let end = composer.as_ref().map(|composer| composer.status).or(dialog).unwrap_or(rows.len());
        let echo = EchoStyle { head: &|row| prompt_text(&lines[row]), indent: 3 };
        let is_marker = |row: &str| split_marker(row).is_some();
        let (start, is_truncated) = answer_start(&lines[..end], turn.prompt, &echo, is_marker);
        let is_idle = composer.is_some_and(|composer| !composer.is_busy);
        let mut builder = SectionBuilder { rows: &rows[..end], next_row: start, ..SectionBuilder::default() };
        builder.add_rows();
        let is_over = is_idle || builder.has_ended;
        let sections = builder.finish(is_over);
        let is_cancelled = sections.last().is_some_and(|last| last.kind == SectionKind::Interrupted);
        let is_complete = dialog.is_none() && !sections.is_empty() && (is_over || is_cancelled);
        let is_truncated = is_truncated && !sections.is_empty();
        ParsedTurn { sections, tokens: None, is_complete, is_truncated }
    }
}

/// The composer between two lines, the folder above it and the activity below it.
struct Composer {
    /// The folder, or the upper line.
    status: usize,
    /// The upper line.
    top: usize,
    /// The lower line.
    bottom: usize,
    is_busy: bool,
}

impl Composer {
    fn find(rows: &[&str]) -> Option<Composer> {
        let bottom = rows.iter().rposition(|row| is_rule(row, '─'))?;
        let top = rows[..bottom].iter().rposition(|row| is_rule(row, '─'))?;
        rows.get(top + 1)?.starts_with(['❯', '!']).then_some(())?;
        let status = rows[..top].iter().rposition(|row| is_blank(row)).map_or(top, |blank| blank + 1);
        let is_busy = rows.get(bottom + 1).is_some_and(|row| is_activity(row));
        Some(Composer { status, top, bottom, is_busy })
    }

    fn draft(&self, rows: &[&str]) -> String {
        let draft = &rows[self.top + 1..self.bottom];
        let first = draft.first().map(|row| row.trim_start_matches(['❯', '!'])).unwrap_or_default();
        join_draft(first.trim(), &draft[1.min(draft.len())..])
    }
}

/// Returns true for ` ◎ Working · 10 B esc esc interrupt`.
fn is_activity(row: &str) -> bool {
    let row = row.trim_start();
    row.starts_with(['●', '◉', '◎', '○', '∙', '∘'])
        || ["esc esc ", "esc again to "].iter().any(|keys| {
            row.split_once(keys).is_some_and(|(_, action)| {
                action.starts_with("interrupt") || action.starts_with("edit prompt")
            })
        })
}

/// Returns the row without the scroll bar in the last column.
fn without_scroll_bar(row: &str) -> &str {
    let row = row.trim_end();
    // `█` is the part that shows the position.
    row.strip_suffix(['┃', '█']).unwrap_or(row).trim_end()
}

/// Splits a row with a marker at column 1 into the marker and the text after it.
fn split_marker(row: &str) -> Option<(char, &str)> {
    let row = row.strip_prefix(' ')?;
    let marker = row.chars().next().filter(|c| "❯●✗$/○◎!".contains(*c))?;
    row[marker.len_utf8()..].strip_prefix(' ').map(|text| (marker, text))
}

/// Returns the prompt in the first row of an echo.
fn prompt_text(row: &str) -> Option<&str> {
    split_marker(row).filter(|(marker, _)| *marker == '❯').map(|(_, text)| without_time(text))
}

/// Returns the text without the time at its end, such as `  11:47`.
fn without_time(text: &str) -> &str {
    let Some((before, time)) = text.rsplit_once(' ') else { return text };
    let is_time = time.split_once(':').is_some_and(|(hours, minutes)| {
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        (1..=2).contains(&hours.len()) && minutes.len() == 2 && is_number(hours) && is_number(minutes)
    });
    if is_time { before.trim_end() } else { text }
}

/// Builds the sections of an answer from its rows.
#[derive(Default)]
struct SectionBuilder<'a> {
    rows: &'a [&'a str],
    /// Index of the row to read next.
    next_row: usize,
    sections: Vec<Section>,
    /// The text of the last section, if that is an error or a failed tool.
    failure: Option<String>,
    /// True if the next prompt follows the answer.
    has_ended: bool,
}

impl<'a> SectionBuilder<'a> {
    /// Reads the rows up to the next prompt.
    fn add_rows(&mut self) {
        while let Some(&row) = self.rows.get(self.next_row) {
            match split_marker(row) {
                _ if is_blank(row) => self.next_row += 1,
                Some(('❯', _)) => {
                    self.has_ended = true;
                    return;
                }
                Some((marker, first)) => self.add_item(marker, first),
                // The rest of an item whose beginning has scrolled away.
                None => {
                    let text = self.take_text(dedent(row, 3));
                    self.push(SectionKind::Text, text);
                }
            }
        }
    }

    /// Adds a marked item. `first`: the text behind its marker.
    fn add_item(&mut self, marker: char, first: &'a str) {
        let text = self.take_text(first);
        match marker {
            '!' => {}
            '●' if NOTICES.iter().any(|notice| text.starts_with(notice)) => {}
            '●' if text == CANCELLED => self.push(SectionKind::Interrupted, text),
            '●' => self.push(SectionKind::Text, text),
            _ => self.add_tool(marker, &text),
        }
    }

    /// Adds a tool. `text` has its name and arguments, and below them its result.
    fn add_tool(&mut self, marker: char, text: &str) {
        let (head, result) = text.split_once('\n').unwrap_or((text, ""));
        let (name, args) = head.split_once(' ').unwrap_or((head, ""));
        let has_failed = marker == '✗';
        self.sections.push(tool_section(
            name,
            args.trim(),
            has_failed.then_some("error"),
            result.to_string(),
        ));
        self.failure = has_failed.then(|| text.to_string());
    }

    /// Takes the rows of an item, whose first one has this text.
    fn take_text(&mut self, first: &'a str) -> String {
        let mut text = vec![first];
        self.next_row += 1;
        while let Some(&row) = self.rows.get(self.next_row)
            && split_marker(row).is_none()
        {
            text.push(dedent(row, 3));
            self.next_row += 1;
        }
        join(&text)
    }

    fn push(&mut self, kind: SectionKind, content: String) {
        if !content.is_empty() {
            self.failure = None;
            self.sections.push(Section::new(kind, content));
        }
    }

    /// Returns the sections. The model answers a failed tool, so a failure at the end of a turn is an error.
    fn finish(mut self, is_over: bool) -> Vec<Section> {
        if let Some(error) = self.failure.take().filter(|_| is_over) {
            self.sections.pop();
            self.push(SectionKind::Error, error);
        }
        self.sections
    }
}
