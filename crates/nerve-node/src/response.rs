//! Builds the response of a finished turn.

use nerve_agent::driver::{Delivery, Outcome, TurnEnd};
use nerve_agent::parse::{ParsedTurn, Section, SectionKind};
use nerve_api::value::ResponseSource;
use nerve_transcript::source::letters_and_digits;
use serde_json::Map;

use crate::command::Response;

/// Maximum text of a response in bytes, and maximum text of its sections. Longer text is cut at its beginning. On the wire, a
/// response has five copies of it (raw, text, output, sections twice). JSON can turn one byte into six, and a line holds 16 MiB.
const TEXT_LIMIT: usize = 512 << 10;
/// Maximum size of a metadata value of a section, in bytes. A longer value, such as a tool's arguments, is cut at its end.
const METADATA_LIMIT: usize = 64 << 10;
/// Overhead of a section in addition to its texts, in bytes.
const SECTION_COST: usize = 64;
/// Number of alphanumeric characters at a prompt's beginning that identify its echo.
const ECHO_CHARS: usize = 24;

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
}
