//! A finished turn to a response.

use std::collections::BTreeMap;

use nerve_term::driver::{Delivery, Outcome, Span, TurnEnd};
use nerve_term::parse::{ParserKind, TurnText};
use nerve_term::terminal::{LineIndex, TerminalState};

use crate::command::Response;

/// A response holds at most this much text; of more, the end is kept. Three copies of it (raw, text, sections) have to fit
/// into one line of the wire.
const TEXT_LIMIT: usize = 4 << 20;

/// The rows of a span, soft wraps joined. On the alternate screen: what is visible.
pub(super) fn turn_lines(terminal: &TerminalState, span: &Span) -> Vec<String> {
    let screen = terminal.screen();
    if screen.modes.alternate {
        return screen.rows.into_iter().map(|row| row.text).collect();
    }
    let (first, end) = (LineIndex(span.lines.0), LineIndex(span.lines.1.min(terminal.line_count())));
    let Some(col) = span.last_col else { return terminal.text(first..end) };
    // The last row belongs to the turn only up to where the prompt was drawn behind it.
    let last = LineIndex(end.0.saturating_sub(1).max(first.0));
    let mut lines = terminal.text(first..last);
    let tail: String = terminal.line_text(last).unwrap_or_default().chars().take(col as usize).collect();
    let continues = last > first && terminal.line_wrapped(LineIndex(last.0 - 1));
    match lines.last_mut() {
        Some(line) if continues => line.push_str(&tail),
        _ => lines.push(tail),
    }
    lines
}

/// Takes the end of what would not fit.
fn bounded(text: String, attributes: &mut BTreeMap<String, String>) -> String {
    if text.len() <= TEXT_LIMIT {
        return text;
    }
    attributes
        .insert("truncated".into(), format!("the first {} bytes are left out", text.len() - TEXT_LIMIT));
    let start =
        (text.len() - TEXT_LIMIT..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[start..].to_string()
}

/// The response of a turn as the screen tells it.
pub(super) fn from_screen(
    node: &str,
    prompt: &str,
    parser: ParserKind,
    end: &TurnEnd,
    lines: &[String],
    ready: bool,
) -> Response {
    let parsed = parser.parser().parse(&TurnText { prompt, lines });
    let mut attributes = BTreeMap::new();
    if let Some(code) = end.exit_code {
        attributes.insert("exit_code".to_string(), code.to_string());
    }
    if end.outcome == Outcome::Interrupted {
        attributes.insert("interrupted".to_string(), "true".to_string());
    }
    let raw = bounded(lines.join("\n").trim_end().to_string(), &mut attributes);
    let mut sections = parsed.sections.clone();
    for section in &mut sections {
        section.content = bounded(std::mem::take(&mut section.content), &mut attributes);
    }
    Response {
        node: node.to_string(),
        turn: end.number,
        raw,
        text: bounded(parsed.text(), &mut attributes),
        sections,
        tokens: parsed.tokens,
        is_complete: parsed.is_complete && end.outcome == Outcome::Done,
        is_ready: ready,
        source: "screen",
        delivery: end.delivery.max(Delivery::Typed).as_str(),
        ended_by: end.evidence.clone(),
        bytes: end.span.bytes,
        time: end.time,
        attributes,
    }
}
