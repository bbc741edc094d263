//! A finished turn to a response.

use std::collections::BTreeMap;

use nerve_term::driver::{Delivery, Outcome, Span, TurnEnd};
use nerve_term::parse::{Parsed, Section};
use nerve_term::terminal::{LineIndex, TerminalState};

use crate::command::Response;

/// A response holds at most this much text, and sections with as much in them; of more, the end is kept. The wire has it five
/// times (raw, text and output, sections twice), JSON makes up to six bytes of one, and a line holds 16 MiB.
const TEXT_LIMIT: usize = 512 << 10;
/// A fact about a section holds at most this much; of more (a tool's arguments), the beginning is kept.
const FACT_LIMIT: usize = 64 << 10;
/// What a section takes besides its texts.
const SECTION_COST: usize = 64;

/// The rows of a span, soft wraps joined. On the alternate screen: what is visible.
pub(super) fn turn_lines(terminal: &TerminalState, span: &Span) -> Vec<String> {
    let screen = terminal.screen();
    if screen.modes.alternate {
        return screen.rows.into_iter().map(|row| row.text).collect();
    }
    let mut first = LineIndex(span.lines.0);
    // The rest of a row that began before the turn: the echo of a prompt longer than a row.
    while first.0 > 0 && first.0 < span.lines.1 && terminal.line_wrapped(LineIndex(first.0 - 1)) {
        first.0 += 1;
    }
    let end = LineIndex(span.lines.1.min(terminal.line_count()));
    let Some(col) = span.last_col else { return terminal.text(first..end) };
    // The last row belongs to the turn only up to where the prompt was drawn behind it.
    let last = LineIndex(end.0.saturating_sub(1).max(first.0));
    let mut lines = terminal.text(first..last);
    let tail = terminal.line_text_to(last, col).unwrap_or_default();
    let continues = last > first && terminal.line_wrapped(LineIndex(last.0 - 1));
    match lines.last_mut() {
        Some(line) if continues => line.push_str(&tail),
        _ => lines.push(tail),
    }
    lines
}

/// How long a continuation prompt can be (`...: `, `   ...> `).
const CONTINUATION: usize = 12;

/// Takes the echo of a prompt's further lines out of what a line-based program showed: each stands once, in order, behind a
/// short continuation prompt.
pub(super) fn without_echo(lines: Vec<String>, prompt: &str) -> Vec<String> {
    // A line break at the end and Enter behind it make one more, empty line.
    let last = prompt.ends_with('\n').then_some("");
    let mut echoes = prompt.lines().skip(1).map(str::trim_end).chain(last).peekable();
    let is_echo = |line: &str, echo: &str| {
        let line = line.trim_end();
        let before = line.strip_suffix(echo).filter(|before| before.len() <= CONTINUATION);
        // Of an empty line only the continuation prompt is there.
        before.is_some_and(|before| {
            !echo.is_empty() || !line.is_empty() && before.chars().all(|c| ".>: ".contains(c))
        })
    };
    let keep = |line: &String| echoes.next_if(|echo| is_echo(line, echo)).is_none();
    lines.into_iter().filter(keep).collect()
}

/// Leaves out what would not fit on the wire, and says so in the attributes.
pub(crate) fn fit(response: &mut Response) {
    let left_out = keep_end(&mut response.text, TEXT_LIMIT)
        .max(keep_end(&mut response.raw, TEXT_LIMIT))
        .max(fit_sections(&mut response.sections));
    if left_out > 0 {
        let note = format!("the first {left_out} bytes are left out");
        response.attributes.insert("truncated".to_string(), note);
    }
}

/// How much of a prompt's beginning (blanks not counted) tells its echo.
const ECHO: usize = 24;

/// On the alternate screen only what is visible can be read: where the prompt's echo is not, the beginning of the answer may not be
/// either, and the response says so.
pub(super) fn note_hidden_beginning(response: &mut Response, prompt: &str) {
    let compact = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let start: String = compact(prompt).chars().take(ECHO).collect();
    // Codex keeps the echo in the first row, whatever has scrolled away below it.
    let below = response.raw.split_once('\n').map_or("", |(_, below)| below);
    // A long paste is repeated as a chip.
    if !start.is_empty() && !compact(below).contains(&start) && !below.contains("[Pasted ") {
        let note = "its beginning may have scrolled off the alternate screen: only what was visible at the end is here";
        response.attributes.insert("truncated".to_string(), note.to_string());
    }
}

/// Keeps the end; returns how many bytes were left out.
fn keep_end(text: &mut String, limit: usize) -> usize {
    let least = text.len().saturating_sub(limit);
    let at = (least..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.drain(..at);
    at
}

/// Keeps the last sections that fit, of the first of them the end; returns how many bytes were left out.
fn fit_sections(sections: &mut Vec<Section>) -> usize {
    let (mut room, mut left_out) = (TEXT_LIMIT, 0);
    let mut first = sections.len();
    for (at, section) in sections.iter_mut().enumerate().rev() {
        for fact in section.metadata.values_mut().filter(|fact| fact.len() > FACT_LIMIT) {
            let end = (0..=FACT_LIMIT).rfind(|at| fact.is_char_boundary(*at)).unwrap_or(0);
            left_out += fact.len() - end;
            fact.truncate(end);
        }
        let facts: usize = section.metadata.values().map(String::len).sum();
        let Some(free) = room.checked_sub(facts + SECTION_COST) else { break };
        left_out += keep_end(&mut section.content, free);
        room = free - section.content.len();
        first = at;
    }
    left_out + sections.drain(..first).map(|section| section.content.len()).sum::<usize>()
}

/// The response of a turn as the screen tells it.
pub(super) fn from_screen(
    node: &str,
    parsed: Parsed,
    end: &TurnEnd,
    lines: &[String],
    ready: bool,
) -> Response {
    let mut attributes = BTreeMap::new();
    if let Some(code) = end.exit_code {
        attributes.insert("exit_code".to_string(), code.to_string());
    }
    if end.outcome == Outcome::Interrupted {
        attributes.insert("interrupted".to_string(), "true".to_string());
    }
    let mut response = Response {
        node: node.to_string(),
        turn: end.number,
        raw: lines.join("\n").trim_end().to_string(),
        text: parsed.text(),
        sections: parsed.sections,
        tokens: parsed.tokens,
        usage: None,
        is_complete: parsed.is_complete && end.outcome == Outcome::Done,
        is_ready: ready,
        source: "screen",
        delivery: end.delivery.max(Delivery::Typed).as_str(),
        ended_by: end.evidence.clone(),
        bytes: end.span.bytes,
        time: end.time,
        attributes,
    };
    fit(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn echoes_of_further_lines_are_left_out_and_output_is_not() {
        let shown = lines("...     print(i)\n... \n0\n1\n2");
        assert_eq!(without_echo(shown, "for i in range(3):\n    print(i)\n\n"), lines("0\n1\n2"));
        let shown = lines(">>> time.sleep(1)\n>>> print(\"x\")\nx");
        assert_eq!(without_echo(shown, "import time\ntime.sleep(1)\nprint(\"x\")"), lines("x"));
        assert_eq!(
            without_echo(lines("...  print(i)\n...\n0\n1"), "for i in x:\n  print(i)\n"),
            lines("0\n1")
        );
        assert_eq!(without_echo(lines("a\nb"), "one line"), lines("a\nb"));
    }
}
