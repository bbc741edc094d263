//! Parser for the screen of GitHub Copilot CLI.
//!
//! Column 1 holds markers: `❯` a prompt with its time at the right, `●` a text, a notice or some tools, `✗` an error or a
//! failed tool, `$`, `/` and `○` other tools, `!` a warning. Their rows continue at column 3. A row with the folder, the
//! composer between two lines, and a row that shows activity follow.

use nerve_vt::screen::Screen;

use super::composer::Composer;
use super::echo::{EchoStyle, answer_start};
use super::rows::{dedent, is_blank};
use super::section_builder::SectionBuilder;
use super::{ParsedTurn, Parser, SectionKind, TurnText, screen_rows, tool_section};

/// Notices of the program that look like texts.
const NOTICES: [&str; 3] = [
    "MCP Servers reloaded: ",
    "Request failed due to a transient API error. Retrying...",
    "Response was interrupted due to a server error. Retrying...",
];
/// The notice of an interruption.
const CANCELLED: &str = "Operation cancelled by user";

/// Parser for GitHub Copilot CLI 1.0.
pub(super) struct CopilotParser;

impl Parser for CopilotParser {
    /// Returns true if the composer holds the cursor, and the row below it shows no activity.
    fn is_ready(&self, screen: &Screen) -> bool {
        find_composer(&screen_rows(screen)).is_some_and(|composer| composer.is_ready(screen))
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows: Vec<&str> = turn.rows().into_iter().map(without_scroll_bar).collect();
        let composer = find_composer(&rows);
        if composer.as_ref().is_some_and(|composer| turn.is_draft(&composer.draft)) {
            return ParsedTurn::default();
        }
        let dialog = rows.iter().rposition(|row| row.starts_with("╭──────")).filter(|_| composer.is_none());
        let end = composer.as_ref().map(|composer| composer.start).or(dialog).unwrap_or(rows.len());
        let rows = &rows[..end];
        let (start, is_truncated) = answer_start(rows, turn.prompt, &ECHO, |row| split_marker(row).is_some());
        let is_idle = composer.is_some_and(|composer| !composer.is_busy);
        let mut builder = SectionBuilder::new(rows, start);
        builder.has_dialog = dialog.is_some();
        let failure = add_rows(&mut builder);
        // The model answers a failed tool, so a failure at the end of a turn is an error.
        if let Some(error) = failure.filter(|_| is_idle || builder.has_ended) {
            builder.sections.pop();
            builder.push(SectionKind::Error, error);
        }
        builder.has_ended &= !builder.sections.is_empty();
        builder.finish(is_idle, is_truncated)
    }
}

/// The echoes of prompts.
const ECHO: EchoStyle<'_> = EchoStyle { head: &|rows, row| prompt_text(rows[row]), indent: 3 };

/// Finds the composer. The row above it has the folder, and the row below it the activity.
fn find_composer(rows: &[&str]) -> Option<Composer> {
    let composer = Composer::find_between_lines(rows, &['❯', '!'])?;
    let start = rows[..composer.start].iter().rposition(|row| is_blank(row));
    let is_busy = rows.get(composer.input.end + 1).is_some_and(|row| is_activity(row));
    Some(Composer { start: start.map_or(composer.start, |blank| blank + 1), is_busy, ..composer })
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

/// Reads the rows up to the next prompt. Returns the text of the last section if that is a failed tool.
fn add_rows(builder: &mut SectionBuilder<'_>) -> Option<String> {
    let mut failure = None;
    while let Some(row) = builder.row() {
        if is_blank(row) {
            builder.next_row += 1;
            continue;
        }
        // Rows without a marker are the rest of an item whose beginning has scrolled away.
        let (marker, first) = split_marker(row).unwrap_or((' ', dedent(row, 3)));
        if marker == '❯' {
            builder.has_ended = true;
            break;
        }
        let count = builder.sections.len();
        let text = builder.take_text(first, 3, |row| split_marker(row).is_none());
        add_item(builder, marker, &text);
        if builder.sections.len() > count {
            failure = (marker == '✗').then_some(text);
        }
    }
    failure
}

/// Adds an item. The text of a tool has its name and arguments, and below them its result.
fn add_item(builder: &mut SectionBuilder<'_>, marker: char, text: &str) {
    match marker {
        '!' => {}
        '●' if NOTICES.iter().any(|notice| text.starts_with(notice)) => {}
        '●' if text == CANCELLED => builder.push(SectionKind::Interrupted, text.to_string()),
        '●' | ' ' => builder.push(SectionKind::Text, text.to_string()),
        _ => {
            let (head, result) = text.split_once('\n').unwrap_or((text, ""));
            let (name, args) = head.split_once(' ').unwrap_or((head, ""));
            let status = (marker == '✗').then_some("error");
            builder.add(tool_section(name, args.trim(), status, result.to_string()));
        }
    }
}
