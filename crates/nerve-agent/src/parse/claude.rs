//! Parser for the screen of Claude Code, in its classic and full-screen renderers.
//!
//! Only column 0 distinguishes markers from text: an answer's own rows are indented by two, so a quoted `● not a
//! bullet` or `esc to interrupt` never matches. [`live_region`] interprets the live region, `turn` parses a turn.

mod live_region;
mod row_kind;
mod turn;

use nerve_vt::screen::Screen;

use super::echo::{EchoStyle, end_of_last_echo, tail_of_echo};
use super::layout::{Layout, SURE};
use super::rows::{is_blank, is_right_aligned, is_rule};
use super::{ParsedTurn, Parser, SectionKind, TurnText, screen_rows};
use live_region::Composer;
use row_kind::RowKind;

/// Parser for Claude Code 2.x.
pub(super) struct ClaudeParser;

impl Parser for ClaudeParser {
    /// Returns true if the composer holds the cursor and no busy signal is shown. A draft does not matter. A composer
    /// may be drawn before it accepts input; only the echo of typed text shows that.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows = screen_rows(screen);
        let Some(composer) = Composer::find(&rows) else { return false };
        composer.contains_row(screen.cursor.row)
            && !composer.is_busy(&rows)
            && !screen.title.starts_with(live_region::BUSY_TITLES)
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows = turn.rows();
        let composer = Composer::find(&rows);
        if let Some(composer) = &composer
            && turn.is_draft(&composer.draft(&rows))
        {
            // Not submitted, or returned by an interrupt before the first byte.
            return ParsedTurn::default();
        }
        let end = composer.as_ref().map_or(rows.len(), |composer| composer.top);
        let start = answer_start(&rows[..end], turn.prompt);
        let mut parsed = turn::parse(&rows, start, composer.as_ref());
        if turn.prompt.starts_with('/') {
            mark_unknown_command(&mut parsed);
        }
        parsed
    }
}

/// The conversation layout of Claude Code.
pub(super) static LAYOUT: Layout = Layout {
    echo: EchoStyle {
        head: &|rows, row| {
            // Below a rule it is the composer.
            let after_rule = row > 0 && is_rule(rows[row - 1], '─');
            if after_rule { None } else { row_kind::prompt(rows[row]) }
        },
        indent: 2,
    },
    ends_echo: |rows, row| match RowKind::classify(rows[row]) {
        RowKind::Result(_) => true,
        RowKind::Indented if is_right_aligned(rows[row]) => true,
        RowKind::Indented => {
            is_blank(rows[row - 1]) && row_kind::parse_fold(rows[row].trim_start()).is_some()
        }
        _ => false,
    },
    is_wrapped_echo: |rows, row| {
        !is_blank(rows[row - 1]) && matches!(RowKind::classify(rows[row]), RowKind::Unknown)
    },
    is_answer: |row| {
        matches!(
            RowKind::classify(row),
            RowKind::Head(_) | RowKind::Thinking(_) | RowKind::Result(_) | RowKind::End
        )
    },
    banner: "Claude Code v",
    live: |rows| Composer::find(rows).map(|composer| composer.top),
    weight: |row| match RowKind::classify(row) {
        RowKind::Head(_) | RowKind::End | RowKind::Result(_) => SURE,
        RowKind::Prompt if row.starts_with('❯') => SURE / 2,
        _ => 0,
    },
};

/// Turns the answer `Unknown command: /name` into an error, without the repeated arguments.
fn mark_unknown_command(parsed: &mut ParsedTurn) {
    let Some(first) = parsed.sections.first_mut() else { return };
    if first.kind == SectionKind::Text && first.content.starts_with("Unknown command: /") {
        first.kind = SectionKind::Error;
        parsed.sections.retain(|section| !section.content.starts_with("Args from unknown skill: "));
    }
}

/// Returns the first row after the echo of the prompt, or the first row that can belong to an answer.
fn answer_start(rows: &[&str], prompt: &str) -> usize {
    if let Some(end) = end_of_last_echo(rows, prompt, &LAYOUT.echo) {
        // A row that the terminal wrapped is not indented. A blank row separates the answer.
        let below = rows[end.min(rows.len())..].iter().map(|row| RowKind::classify(row));
        let is_wrapped = below.clone().next() == Some(RowKind::Unknown);
        let more = below.take_while(|mark| matches!(mark, RowKind::Unknown | RowKind::Indented));
        return if is_wrapped { end + more.count() } else { end };
    }
    match tail_of_echo(rows, prompt, |row| RowKind::classify(row).starts_item()) {
        0 => end_of_banner(rows),
        tail => tail,
    }
}

/// Returns the end of the start-up banner if it is still at the top.
fn end_of_banner(rows: &[&str]) -> usize {
    match rows.iter().take(8).position(|row| row.contains("Claude Code v")) {
        Some(title) => {
            rows[title..].iter().position(|row| row.is_empty()).map_or(rows.len(), |blank| title + blank)
        }
        None => 0,
    }
}
