//! Builds the response of a turn from the screen.

use nerve_agent::driver::{Delivery, Outcome, TurnEnd};
use nerve_agent::parse::{ParsedTurn, Section, SectionKind};
use nerve_api::value::ResponseSource;
use nerve_transcript::source::letters_and_digits;
use serde_json::Map;

use crate::response::{Response, truncate_to_limits};

/// Number of alphanumeric characters at a prompt's beginning that identify its echo.
const ECHO_CHARS: usize = 24;

/// Adds the screen's texts before the error of an answer without text. Agents do not write the text before an error to their session
/// files.
pub(super) fn keep_text_before_error(sections: &mut Vec<Section>, screen: &[Section]) {
    let is_text = |section: &&Section| section.kind == SectionKind::Text;
    let ends_with_error = sections.last().is_some_and(|last| last.kind == SectionKind::Error);
    if ends_with_error && !sections.iter().any(|section| is_text(&section)) {
        let error = sections.len() - 1;
        sections.splice(error..error, screen.iter().filter(is_text).cloned());
    }
}

/// Adds the end of an answer, an error or an interruption, if the screen does not show one there.
pub(super) fn add_ending(sections: &mut Vec<Section>, ending: Vec<Section>) {
    let last = sections.iter().rfind(|section| section.kind != SectionKind::Thinking);
    if last.is_none_or(|last| !matches!(last.kind, SectionKind::Error | SectionKind::Interrupted)) {
        sections.extend(ending);
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
        response.missing_text = Some(note.to_string());
    }
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
    let missing_text = match end.outcome {
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
        missing_text,
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
    fn error_that_the_screen_lacks_fails_the_turn() {
        let section = |kind, text: &str| Section::new(kind, text);
        let text = || section(SectionKind::Text, "half");
        let mut response = Response {
            text: "half".into(),
            sections: vec![text()],
            is_agent: true,
            is_complete: true,
            ..Response::default()
        };
        assert!(response.is_success());
        let error = || section(SectionKind::Error, "connection lost");
        add_ending(&mut response.sections, vec![error()]);
        assert_eq!(response.failure().map(|failure| failure.kind), Some(nerve_types::ErrorKind::Api));
        assert_eq!((response.text.as_str(), &response.sections), ("half", &vec![text(), error()]));
        let mut shown = vec![
            text(),
            section(SectionKind::Error, "connection lo\nst"),
            section(SectionKind::Thinking, "hm"),
        ];
        add_ending(&mut shown, vec![error()]);
        assert_eq!(shown.len(), 3, "the screen shows it");
    }

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
