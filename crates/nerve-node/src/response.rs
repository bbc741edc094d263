//! Builds the response of a finished turn.

use std::borrow::Cow;

use nerve_agent::driver::{Delivery, Outcome, Span, TurnEnd};
use nerve_agent::parse::{ParsedTurn, Section, SectionKind};
use nerve_api::value::ResponseSource;
use nerve_transcript::source::letters_and_digits;
use nerve_vt::terminal::{LineIndex, TerminalState};
use serde_json::Map;

use crate::command::Response;

/// Maximum text of a response in bytes, and maximum text of its sections. Longer text is cut at its beginning. On the wire, a
/// response has five copies of it (raw, text, output, sections twice). JSON can turn one byte into six, and a line holds 16 MiB.
const TEXT_LIMIT: usize = 512 << 10;
/// Maximum size of a metadata value of a section, in bytes. A longer value, such as a tool's arguments, is cut at its end.
const METADATA_LIMIT: usize = 64 << 10;
/// Overhead of a section in addition to its texts, in bytes.
const SECTION_COST: usize = 64;

/// Returns the lines of a span with soft wraps joined. On the alternate screen, returns the visible rows.
pub(super) fn turn_lines(terminal: &TerminalState, span: &Span) -> Vec<String> {
    let screen = terminal.screen();
    if screen.modes.alternate {
        return screen.rows.into_iter().map(|row| row.text).collect();
    }
    let mut first = LineIndex(span.lines.start);
    // Skip the rest of a row that began before the turn: the echo of a prompt longer than a row.
    while first.0 > 0 && first.0 < span.lines.end && terminal.is_line_wrapped(LineIndex(first.0 - 1)) {
        first.0 += 1;
    }
    let end = LineIndex(span.lines.end.min(terminal.line_count()));
    let Some(col) = span.last_col else { return terminal.text(first..end) };
    // Of the last row, only the part before the next prompt belongs to the turn.
    let last = LineIndex(end.0.saturating_sub(1).max(first.0));
    let mut lines = terminal.text(first..last);
    let tail = terminal.line_text_to(last, col).unwrap_or_default();
    let continues = last > first && terminal.is_line_wrapped(LineIndex(last.0 - 1));
    match lines.last_mut() {
        Some(line) if continues => line.push_str(&tail),
        _ => lines.push(tail),
    }
    lines
}

/// Minimum number of bytes at a prompt's beginning, without blanks, that identify its echo at the end of a wrapped row.
const MIN_ECHO: usize = 4;

/// Returns true if the row above line `start` contains the prompt's first line or, if that row is wrapped, ends with its beginning.
/// Otherwise the program of a polled pane has overwritten the prompt, and output above `start` may be missing.
pub(super) fn shows_prompt_above(terminal: &TerminalState, start: u64, prompt: &str) -> bool {
    let Some(line) = start.checked_sub(1).map(LineIndex) else { return false };
    let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let typed = squeeze(prompt.trim_start().lines().next().unwrap_or_default());
    let row = squeeze(&terminal.line_text(line).unwrap_or_default());
    let begins = || {
        let mut ends = MIN_ECHO.min(typed.len())..=typed.len();
        ends.any(|end| typed.get(..end).is_some_and(|part| row.ends_with(part)))
    };
    row.contains(&typed) || terminal.is_line_wrapped(line) && begins()
}

/// Distance of tab stops in columns.
pub(super) const TAB_WIDTH: usize = 8;

/// Removes the echo of a prompt's second and later lines from the output of a line-based program. Each is echoed once, in order,
/// after a prompt of the program. A line discipline instead echoes all of them at once, before the program reads them.
pub(super) fn remove_echo(
    mut lines: Vec<String>,
    prompt: &str,
    is_prompt: impl Fn(&str) -> bool,
) -> Vec<String> {
    // A trailing line break followed by Enter makes one more, empty line.
    let last = prompt.ends_with('\n').then_some("");
    let echoes: Vec<&str> = prompt.lines().skip(1).map(str::trim_end).chain(last).collect();
    let is_echo = |line: &str, echo: &str| {
        // The width of a tab depends on the column where the echo begins.
        (0..TAB_WIDTH).any(|col| {
            let before = line.trim_end().strip_suffix(&*expand_tabs(echo, col));
            before.is_some_and(|before| before.chars().count() % TAB_WIDTH == col && is_prompt(before))
        })
    };
    let mut missing = echoes.iter().peekable();
    let is_kept: Vec<bool> =
        lines.iter().map(|line| missing.next_if(|echo| is_echo(line, echo)).is_none()).collect();
    let is_block = || {
        let shown = lines.iter().map(|line| line.trim_end());
        lines.len() >= echoes.len() && shown.zip(&echoes).all(|(line, echo)| line == expand_tabs(echo, 0))
    };
    if missing.peek().is_some() && is_block() {
        return lines.split_off(echoes.len());
    }
    lines.into_iter().zip(is_kept).filter_map(|(line, is_kept)| is_kept.then_some(line)).collect()
}

/// Replaces tabs by blanks up to the next tab stop in a text that begins at `col`.
fn expand_tabs(text: &str, col: usize) -> Cow<'_, str> {
    if !text.contains('\t') {
        return text.into();
    }
    let (mut expanded, mut width) = (String::new(), col);
    for c in text.chars() {
        let (cell, cells) = if c == '\t' { (' ', TAB_WIDTH - width % TAB_WIDTH) } else { (c, 1) };
        expanded.extend(std::iter::repeat_n(cell, cells));
        width += cells;
    }
    expanded.into()
}

/// Adds the screen's texts before the error of an answer without text. Agents do not write the text before an error to their session
/// files.
pub(crate) fn keep_text_before_error(sections: &mut Vec<Section>, screen: &[Section]) {
    let is_text = |section: &&Section| section.kind == SectionKind::Text;
    let ends_with_error = sections.last().is_some_and(|last| last.kind == SectionKind::Error);
    if ends_with_error && !sections.iter().any(|section| is_text(&section)) {
        let error = sections.len() - 1;
        sections.splice(error..error, screen.iter().filter(is_text).cloned());
    }
}

/// Truncates a response to what fits on the wire, and notes that in its attributes. A truncated text is incomplete.
pub fn truncate_to_limits(response: &mut Response) {
    let missing = keep_end(&mut response.text, TEXT_LIMIT);
    if missing > 0 {
        response.incomplete = Some(format!("its first {missing} bytes are left out"));
    }
    let left_out =
        missing.max(keep_end(&mut response.raw, TEXT_LIMIT)).max(truncate_sections(&mut response.sections));
    if left_out > 0 {
        let note = format!("the first {left_out} bytes are left out");
        response.attributes.insert("truncated".to_string(), note.into());
    }
}

/// Number of alphanumeric characters at a prompt's beginning that identify its echo.
const ECHO_CHARS: usize = 24;

/// Notes in the response if its beginning may be missing. On the alternate screen only visible rows can be read. If the prompt's
/// echo is not among them, the beginning of the answer may have scrolled off too.
pub(super) fn note_hidden_start(response: &mut Response, prompt: &str) {
    let start: String = letters_and_digits(prompt).take(ECHO_CHARS).collect();
    // Codex keeps the echo in the first row, even if the rows below it have scrolled.
    let below = response.raw.split_once('\n').map_or("", |(_, below)| below);
    // A long paste is echoed as a placeholder.
    if !start.is_empty()
        && !letters_and_digits(below).collect::<String>().contains(&start)
        && !below.contains("[Pasted ")
    {
        let note = "the beginning may have scrolled off the alternate screen: only what was visible at the end is included";
        response.attributes.insert("truncated".to_string(), note.into());
        response.incomplete = Some(note.to_string());
    }
}

/// Returns the end of a text that fits on the wire.
pub(super) fn truncate_text(mut text: String) -> String {
    keep_end(&mut text, TEXT_LIMIT);
    text
}

/// Keeps the end of a text and returns the number of bytes removed.
fn keep_end(text: &mut String, limit: usize) -> usize {
    let at = text.ceil_char_boundary(text.len().saturating_sub(limit));
    text.drain(..at);
    at
}

/// Keeps the last sections that fit, and the end of the first of them. Returns the number of bytes removed.
fn truncate_sections(sections: &mut Vec<Section>) -> usize {
    let (mut room, mut left_out) = (TEXT_LIMIT, 0);
    let mut first = sections.len();
    for (at, section) in sections.iter_mut().enumerate().rev() {
        for value in section.metadata.values_mut().filter(|value| value.len() > METADATA_LIMIT) {
            let end = value.floor_char_boundary(METADATA_LIMIT);
            left_out += value.len() - end;
            value.truncate(end);
        }
        let metadata: usize = section.metadata.values().map(String::len).sum();
        let Some(free) = room.checked_sub(metadata + SECTION_COST) else { break };
        left_out += keep_end(&mut section.content, free);
        room = free - section.content.len();
        first = at;
    }
    left_out + sections.drain(..first).map(|section| section.content.len()).sum::<usize>()
}

/// Builds the response of a turn from the screen.
pub(super) fn response_from_screen(
    node: &str,
    parsed: ParsedTurn,
    end: &TurnEnd,
    lines: &[String],
    is_agent: bool,
    is_ready: bool,
) -> Response {
    let mut attributes = Map::new();
    if let Some(code) = end.exit_code {
        attributes.insert("exit_code".to_string(), code.into());
    }
    if end.outcome == Outcome::Interrupted {
        attributes.insert("interrupted".to_string(), true.into());
    }
    let incomplete = match end.outcome {
        Outcome::Unconfirmed => Some("the agent's Stop hook did not report its end".to_string()),
        _ => parsed.is_truncated.then(|| "its beginning is no longer on the screen".to_string()),
    };
    let mut response = Response {
        node: node.to_string(),
        turn: end.number,
        raw: lines.join("\n").trim_end().to_string(),
        text: parsed.text(),
        sections: parsed.sections,
        tokens: parsed.tokens,
        is_complete: parsed.is_complete && end.outcome == Outcome::Done,
        is_ready,
        is_agent,
        incomplete,
        source: ResponseSource::Screen,
        delivery: end.delivery.max(Delivery::Typed),
        ended_by: end.evidence.clone(),
        bytes: end.span.bytes.clone(),
        time: end.time,
        attributes,
        ..Response::default()
    };
    truncate_to_limits(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_before_an_error_comes_from_the_screen() {
        let section = |kind, text: &str| Section::new(kind, text);
        let screen =
            [section(SectionKind::Text, "half"), section(SectionKind::Error, "stream dis\nconnected")];
        let error = || section(SectionKind::Error, "stream disconnected");
        let mut sections = vec![error()];
        keep_text_before_error(&mut sections, &screen);
        assert_eq!(sections, [section(SectionKind::Text, "half"), error()]);
        let mut whole = vec![section(SectionKind::Text, "from the file"), error()];
        keep_text_before_error(&mut whole, &screen);
        assert_eq!(whole.len(), 2);
        let mut done = vec![section(SectionKind::Text, "done")];
        keep_text_before_error(&mut done, &screen);
        assert_eq!(done.len(), 1);
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    fn without_echo(shown: Vec<String>, prompt: &str) -> Vec<String> {
        remove_echo(shown, prompt, |before| [">>>", "..."].contains(&before.trim_end()))
    }

    #[test]
    fn output_equal_to_a_line_of_the_prompt_is_kept() {
        let prompt = "print('x')\nprint(1)\nprint(2)";
        let shown = lines("x\n  print(1)\nprint(2)\n>>> print(1)\n1\n>>> print(2)\n2");
        assert_eq!(without_echo(shown, prompt), lines("x\n  print(1)\nprint(2)\n1\n2"));
    }

    #[test]
    fn echoes_before_the_program_reads_are_removed() {
        let shown = lines("hello\nEOF\necho hello\n> > > hello\n$ hello");
        let is_prompt = |before: &str| before.trim_end().ends_with(['>', '$']);
        let kept = remove_echo(shown, "cat <<EOF\nhello\nEOF\necho hello", is_prompt);
        assert_eq!(kept, lines("> > > hello\n$ hello"));
    }

    #[test]
    fn echoes_with_tabs_are_removed() {
        let shown = lines("...     a\tb\n... x   y\n1".replace("a\tb", "a       b").as_str());
        assert_eq!(without_echo(shown, "if 1:\n\ta\tb\nx\ty"), lines("1"));
    }

    #[test]
    fn echoes_of_later_lines_are_removed() {
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
