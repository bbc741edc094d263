//! A whole conversation as text, to turns: a saved screen, a scrollback, a log that somebody kept.
//!
//! A live turn is known by its bytes. Of a text nothing is known but how its agent draws the prompts it was given: a turn goes from one
//! of them to the next.

use std::ops::Range;

use super::rows::{compact, indent, is_blank, join};
use super::{Parsed, ParserKind, TurnText, claude, codex, gemini};

/// A prompt and its answer, as a text shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The prompt as the agent repeats it: its first row and those indented below it. Empty when it is not in the text.
    pub prompt: String,
    /// Its rows in the text, 0-based; those of the last turn go on to the end.
    pub rows: Range<usize>,
    /// The answer.
    pub parsed: Parsed,
}

/// How an agent draws a conversation.
pub(super) struct Layout {
    /// The text of the prompt whose echo starts in this row, if one does.
    pub(super) echo: for<'a> fn(&[&'a str], usize) -> Option<&'a str>,
    /// Columns by which the other rows of an echo are indented.
    pub(super) indent: usize,
    /// A row that ends an echo although it is blank or indented.
    pub(super) ends_echo: fn(&[&str], usize) -> bool,
    /// A row that only answers have.
    pub(super) is_answer: fn(&str) -> bool,
    /// What the program says of itself when it starts.
    pub(super) banner: &'static str,
    /// The first row of the composer, or of the dialog in its place.
    pub(super) live: fn(&[&str]) -> Option<usize>,
    /// How sure a row makes that it is this agent's: 0 not at all, from [`SURE`] on it needs no other.
    pub(super) weight: fn(&str) -> u32,
}

/// Rows of less weight together are no evidence.
pub(super) const SURE: u32 = 10;

fn layout(kind: ParserKind) -> Option<&'static Layout> {
    match kind {
        ParserKind::Claude => Some(&claude::LAYOUT),
        ParserKind::Codex => Some(&codex::LAYOUT),
        ParserKind::Gemini => Some(&gemini::LAYOUT),
        // Its errors are drawn as its prompts are: a text alone does not tell them apart.
        ParserKind::Opencode | ParserKind::None => None,
    }
}

/// Splits a text into turns, in the order in which they are there. Rows as [`TurnText::lines`] has them.
///
/// A prompt that nothing answers is a turn only at the end: elsewhere it cannot be told from a draft that the terminal scrolled away.
/// Without structure ([`ParserKind::None`]) the whole text is one turn.
pub fn turns(kind: ParserKind, lines: &[String]) -> Vec<Turn> {
    let Some(layout) = layout(kind) else {
        let parsed = kind.parser().parse(&TurnText { prompt: "", lines });
        let turn = Turn { prompt: String::new(), rows: 0..lines.len(), parsed };
        return if turn.parsed.sections.is_empty() { Vec::new() } else { vec![turn] };
    };
    let rows: Vec<&str> = lines.iter().map(String::as_str).collect();
    let live = (layout.live)(&rows).unwrap_or(rows.len());
    let echoes: Vec<usize> = (0..live).filter(|&row| (layout.echo)(&rows[..live], row).is_some()).collect();
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
        // The next prompt says so, whatever the rows say.
        earlier.iter_mut().for_each(|turn| turn.parsed.is_complete = true);
    }
    turns
}

/// The prompt has scrolled away: these rows have what is left of its answer, though nothing marks its middle (`alone`: nothing follows
/// them). A banner would be the very beginning.
fn has_answer(layout: &Layout, rows: &[&str], alone: bool) -> bool {
    let banner = rows.iter().rposition(|row| row.contains(layout.banner));
    let start = banner.map_or(0, |banner| banner + 1);
    (alone && banner.is_none()) || rows[start..].iter().any(|row| (layout.is_answer)(row))
}

/// The prompt, as far as its echo is told from the answer.
fn echo(layout: &Layout, rows: &[&str]) -> String {
    let Some(head) = (layout.echo)(rows, 0) else { return String::new() };
    let more = (1..rows.len()).take_while(|&row| {
        (is_blank(rows[row]) || indent(rows[row]) >= layout.indent) && !(layout.ends_echo)(rows, row)
    });
    let more = more.map(|row| rows[row].get(layout.indent..).unwrap_or(""));
    let rows: Vec<&str> = std::iter::once(head).chain(more).collect();
    join(&rows).trim_start().to_string()
}

fn parse(kind: ParserKind, lines: &[String], rows: Range<usize>, prompt: String) -> Turn {
    let lines = &lines[rows.clone()];
    let mut parsed = kind.parser().parse(&TurnText { prompt: &prompt, lines });
    if parsed.sections.is_empty() && !compact(&prompt).is_empty() {
        // The same prompt may stand in the composer again: the answer above is still its answer.
        parsed = kind.parser().parse(&TurnText { prompt: "", lines });
    }
    Turn { prompt, rows, parsed }
}

/// Whose conversation a text is, by what only that agent draws. `None`: nobody's that we know.
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
