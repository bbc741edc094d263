//! Splits the text of a whole conversation into turns: a saved screen, a scrollback or a log.
//!
//! Unlike a live turn, a text has no byte range. Turns are separated by the echoes of their prompts.

use std::ops::Range;

use super::layout::{Layout, SURE};
use super::rows::{compact, dedent, indent, is_blank, join};
use super::{ParsedTurn, ParserKind, TurnText, claude, codex, gemini};

/// A prompt and its answer within a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The prompt as echoed by the agent: its first row and the indented rows below. Empty if it is not in the text.
    pub prompt: String,
    /// Rows in the text, 0-based. The last turn extends to the end.
    pub rows: Range<usize>,
    /// The answer.
    pub parsed: ParsedTurn,
}

fn layout(kind: ParserKind) -> Option<&'static Layout> {
    match kind {
        ParserKind::Claude => Some(&claude::LAYOUT),
        ParserKind::Codex => Some(&codex::LAYOUT),
        ParserKind::Gemini => Some(&gemini::LAYOUT),
        // Errors or answers look like prompts, so a text alone does not distinguish them. Texts of Qwen Code,
        // GitHub Copilot CLI and Kimi Code are not split.
        ParserKind::Opencode
        | ParserKind::Pi
        | ParserKind::Qwen
        | ParserKind::Copilot
        | ParserKind::Kimi
        | ParserKind::None => None,
    }
}

/// Splits a text into turns, in order. The rows have the form of [`TurnText::lines`].
///
/// A prompt without an answer counts as a turn only at the end; elsewhere it could be a scrolled-off draft. Without a
/// known structure ([`ParserKind::None`]) the whole text is one turn.
pub fn turns(kind: ParserKind, lines: &[String]) -> Vec<Turn> {
    let Some(layout) = layout(kind) else {
        let parsed = super::parser(kind).parse(&TurnText { prompt: "", lines });
        let turn = Turn { prompt: String::new(), rows: 0..lines.len(), parsed };
        return if turn.parsed.sections.is_empty() { Vec::new() } else { vec![turn] };
    };
    let rows: Vec<&str> = lines.iter().map(String::as_str).collect();
    let live = (layout.live)(&rows).unwrap_or(rows.len());
    let echoes: Vec<usize> =
        (0..live).filter(|&row| (layout.echo.head)(&rows[..live], row).is_some()).collect();
    let mut turns = Vec::new();
    let first = echoes.first().copied().unwrap_or(rows.len());
    if has_answer(layout, &rows[..first.min(live)], echoes.is_empty()) {
        let turn = parse(kind, lines, 0..first, String::new());
        turns.extend(Some(turn).filter(|turn| !turn.parsed.sections.is_empty()));
    }
    for (number, &start) in echoes.iter().enumerate() {
        let end = echoes.get(number + 1).copied().unwrap_or(rows.len());
        let turn = parse(kind, lines, start..end, echo(layout, &rows[start..end.min(live)]));
        if end == rows.len() || !turn.parsed.sections.is_empty() {
            turns.push(turn);
        }
    }
    if let Some((_, earlier)) = turns.split_last_mut() {
        // A following prompt proves that the turn is complete.
        earlier.iter_mut().for_each(|turn| turn.parsed.is_complete = true);
    }
    turns
}

/// Returns true if the rows hold the rest of an answer whose prompt has scrolled away. `alone`: no prompt follows, so
/// no marker is required. A banner marks the very beginning.
fn has_answer(layout: &Layout, rows: &[&str], alone: bool) -> bool {
    let banner = rows.iter().rposition(|row| row.contains(layout.banner));
    let start = banner.map_or(0, |banner| banner + 1);
    (alone && banner.is_none()) || rows[start..].iter().any(|row| (layout.is_answer)(row))
}

/// Returns the prompt of an echo, as far as it can be separated from the answer.
fn echo(layout: &Layout, rows: &[&str]) -> String {
    let Some(head) = (layout.echo.head)(rows, 0) else { return String::new() };
    let more = (1..rows.len()).take_while(|&row| {
        let is_inner = is_blank(rows[row]) || indent(rows[row]) >= layout.echo.indent;
        (is_inner && !(layout.ends_echo)(rows, row)) || (layout.is_wrapped_echo)(rows, row)
    });
    let more = more.map(|row| dedent(rows[row], layout.echo.indent));
    let rows: Vec<&str> = std::iter::once(head).chain(more).collect();
    join(&rows).trim_start().to_string()
}

fn parse(kind: ParserKind, lines: &[String], rows: Range<usize>, prompt: String) -> Turn {
    let lines = &lines[rows.clone()];
    let mut parsed = super::parser(kind).parse(&TurnText { prompt: &prompt, lines });
    if parsed.sections.is_empty() && !compact(&prompt).is_empty() {
        // The same prompt may be in the composer again; the answer above still belongs to it.
        parsed = super::parser(kind).parse(&TurnText { prompt: "", lines });
    }
    Turn { prompt, rows, parsed }
}

/// Guesses which agent wrote a text, by rows that only that agent draws. Returns `None` for an unknown text.
pub fn guess(lines: &[String]) -> Option<ParserKind> {
    let weigh = |kind: ParserKind| {
        let layout = layout(kind)?;
        let weight: u32 =
            lines.iter().fold(0, |sum: u32, line| sum.saturating_add((layout.weight)(line.as_str())));
        let banner = lines.iter().any(|line| line.contains(layout.banner));
        Some((weight.saturating_add(if banner { 4 * SURE } else { 0 }), kind))
    };
    let kinds = [ParserKind::Claude, ParserKind::Codex, ParserKind::Gemini];
    let best =
        kinds.into_iter().filter_map(weigh).reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(weight, _)| *weight >= SURE).map(|(_, kind)| kind)
}
