//! Parser for the screen of Claude Code, in its classic and full-screen renderers.
//!
//! Only column 0 distinguishes markers from text: an answer's own rows are indented by two, so a quoted `● not a
//! bullet` or `esc to interrupt` never matches. [`live_region`] interprets the live region, `turn` parses a turn.

mod live_region;
mod row_kind;
mod turn;

use super::conversation::{Layout, SURE};
use super::echo::{EchoStyle, end_of_last_echo, tail_of_echo};
use super::rows::{compact, is_blank, is_right_aligned, is_rule};
use super::{ParsedTurn, Parser, TurnText};
use live_region::Composer;
use nerve_vt::screen::Screen;
use row_kind::RowKind;

/// Parser for Claude Code 2.x.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeParser;

impl Parser for ClaudeParser {
    /// Returns true if the composer holds the cursor and no busy signal is shown. A draft does not matter. A composer
    /// may be drawn before it accepts input; only the echo of typed text shows that.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows: Vec<&str> = screen.rows.iter().map(|row| row.text.as_str()).collect();
        let Some(composer) = Composer::find(&rows) else { return false };
        composer.holds(screen.cursor.row)
            && !composer.is_busy(&rows)
            && !screen.title.starts_with(live_region::BUSY_TITLES)
    }

    fn parse(&self, turn: &TurnText<'_>) -> ParsedTurn {
        let rows: Vec<&str> = turn.lines.iter().map(String::as_str).collect();
        let composer = Composer::find(&rows);
        if let Some(composer) = &composer
            && !turn.prompt.is_empty()
            && compact(&composer.draft(&rows)) == compact(turn.prompt)
        {
            // Not submitted, or returned by an interrupt before the first byte: the rows above answer another prompt.
            return ParsedTurn::default();
        }
        let start = answer_start(turn, composer.as_ref());
        turn::parse(&rows, start, composer.as_ref())
    }
}

/// The conversation layout of Claude Code.
pub(super) static LAYOUT: Layout = Layout {
    echo: |rows, row| {
        // Below a rule it is the composer.
        let after_rule = row > 0 && is_rule(rows[row - 1], '─');
        if after_rule { None } else { row_kind::prompt(rows[row]) }
    },
    indent: 2,
    ends_echo: |rows, row| match RowKind::of(rows[row]) {
        RowKind::Result(_) => true,
        RowKind::Indented if is_right_aligned(rows[row]) => true,
        RowKind::Indented => is_blank(rows[row - 1]) && row_kind::fold(rows[row].trim_start()).is_some(),
        _ => false,
    },
    is_answer: |row| {
        matches!(
            RowKind::of(row),
            RowKind::Head(_) | RowKind::Thinking(_) | RowKind::Result(_) | RowKind::End
        )
    },
    banner: "Claude Code v",
    live: |rows| Composer::find(rows).map(|composer| composer.top),
    weight: |row| match RowKind::of(row) {
        RowKind::Head(_) | RowKind::End | RowKind::Result(_) => SURE,
        RowKind::Prompt if row.starts_with('❯') => SURE / 2,
        _ => 0,
    },
};

/// Returns the first row after the echo of the prompt, or the first row that can belong to an answer.
fn answer_start(turn: &TurnText<'_>, composer: Option<&Composer>) -> usize {
    let lines = &turn.lines[..composer.map_or(turn.lines.len(), |composer| composer.top)];
    let head = |row: usize| {
        let after_rule = row > 0 && is_rule(&lines[row - 1], '─');
        if after_rule { None } else { row_kind::prompt(&lines[row]) }
    };
    if let Some(end) = end_of_last_echo(lines, turn.prompt, &EchoStyle { head: &head, indent: 2 }) {
        return end;
    }
    match tail_of_echo(lines, turn.prompt, |row| RowKind::of(row).starts_item()) {
        0 => end_of_banner(lines),
        tail => tail,
    }
}

/// Returns the end of the start-up banner if it is still at the top.
fn end_of_banner(lines: &[String]) -> usize {
    match lines.iter().take(8).position(|row| row.contains("Claude Code v")) {
        Some(title) => {
            lines[title..].iter().position(|row| row.is_empty()).map_or(lines.len(), |blank| title + blank)
        }
        None => 0,
    }
}
