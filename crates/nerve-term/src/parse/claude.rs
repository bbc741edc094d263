//! Claude Code's screen, classic and full-screen renderer: who is drawn where, and when it waits for input.
//!
//! Only column 0 tells markers from text: the answer's own rows are indented by two, so a quoted `● not a bullet` or
//! `esc to interrupt` never reaches the rules. What the live region means is in [`live`], how a turn is taken apart in `turn`.

mod live_region;
mod row_kind;
mod turn;

use super::conversation::{Layout, SURE};
use super::echo::{EchoStyle, end_of_last_echo, tail_of_echo};
use super::rows::{compact, is_blank, is_right_aligned, is_rule};
use super::{Parsed, Parser, TurnText};
use crate::screen::Screen;
use live_region::Composer;
use row_kind::Mark;

/// Reads Claude Code 2.x.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeParser;

impl Parser for ClaudeParser {
    /// The composer is drawn with the cursor in it and nothing says busy. A draft in it does not matter here; and a composer may
    /// be drawn before it takes input, which only the echo of what is typed can tell.
    fn is_ready(&self, screen: &Screen) -> bool {
        let rows: Vec<&str> = screen.rows.iter().map(|row| row.text.as_str()).collect();
        let Some(composer) = Composer::find(&rows) else { return false };
        composer.holds(screen.cursor.row)
            && !composer.is_busy(&rows)
            && !screen.title.starts_with(live_region::BUSY_TITLES)
    }

    fn parse(&self, turn: &TurnText<'_>) -> Parsed {
        let rows: Vec<&str> = turn.lines.iter().map(String::as_str).collect();
        let composer = Composer::find(&rows);
        if let Some(composer) = &composer
            && !turn.prompt.is_empty()
            && compact(&composer.draft(&rows)) == compact(turn.prompt)
        {
            // Not submitted, or given back by an interrupt before the first byte: what is above answers something else.
            return Parsed::default();
        }
        let start = answer_start(turn, composer.as_ref());
        turn::parse(&rows, start, composer.as_ref())
    }
}

/// How a conversation is drawn.
pub(super) static LAYOUT: Layout = Layout {
    echo: |rows, row| {
        // Below a rule it is a composer.
        let after_rule = row > 0 && is_rule(rows[row - 1], '─');
        if after_rule { None } else { row_kind::prompt(rows[row]) }
    },
    indent: 2,
    ends_echo: |rows, row| match Mark::of(rows[row]) {
        Mark::Result(_) => true,
        Mark::Indented if is_right_aligned(rows[row]) => true,
        Mark::Indented => is_blank(rows[row - 1]) && row_kind::fold(rows[row].trim_start()).is_some(),
        _ => false,
    },
    is_answer: |row| matches!(Mark::of(row), Mark::Head(_) | Mark::Thinking(_) | Mark::Result(_) | Mark::End),
    banner: "Claude Code v",
    live: |rows| Composer::find(rows).map(|composer| composer.top),
    weight: |row| match Mark::of(row) {
        Mark::Head(_) | Mark::End | Mark::Result(_) => SURE,
        Mark::Prompt if row.starts_with('❯') => SURE / 2,
        _ => 0,
    },
};

/// The first row after the echo of the prompt, or the first row that can belong to an answer.
fn answer_start(turn: &TurnText<'_>, composer: Option<&Composer>) -> usize {
    let lines = &turn.lines[..composer.map_or(turn.lines.len(), |composer| composer.top)];
    let head = |row: usize| {
        let after_rule = row > 0 && is_rule(&lines[row - 1], '─');
        if after_rule { None } else { row_kind::prompt(&lines[row]) }
    };
    if let Some(end) = end_of_last_echo(lines, turn.prompt, &EchoStyle { head: &head, indent: 2 }) {
        return end;
    }
    match tail_of_echo(lines, turn.prompt, |row| Mark::of(row).starts_something()) {
        0 => end_of_banner(lines),
        tail => tail,
    }
}

/// The start-up banner, when it is still at the top.
fn end_of_banner(lines: &[String]) -> usize {
    match lines.iter().take(8).position(|row| row.contains("Claude Code v")) {
        Some(title) => {
            lines[title..].iter().position(|row| row.is_empty()).map_or(lines.len(), |blank| title + blank)
        }
        None => 0,
    }
}
