//! Session files whose lines are JSON, and the decoders of their lines.

use nerve_types::TsNs;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::entry::{Entry, TurnFold};
use super::transcript_turn::TranscriptTurn;

/// A decoder of one agent's session file. It decodes the lines of one conversation in order.
pub(crate) trait LineDecoder: Default {
    /// A line.
    type Line: DeserializeOwned;

    /// Passes the entries of a line to `emit`.
    fn decode(&mut self, line: &Self::Line, emit: &mut dyn FnMut(Entry));

    /// Passes the entries of a line, given as text, to `emit`.
    ///
    /// # Errors
    /// The line is malformed.
    fn decode_text(&mut self, line: &str, emit: &mut dyn FnMut(Entry)) -> serde_json::Result<()> {
        serde_json::from_str(line).map(|line| self.decode(&line, emit))
    }

    /// Reads the lines of a file, as [`json_lines`] does.
    fn read_lines<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Option<Self::Line>> {
        json_lines(lines)
    }
}

/// Decodes the lines of a session file, without empty ones. `None` stands for a malformed line. A malformed last line ends the
/// iteration, because it is still being written.
pub(super) fn json_lines<'a, T: DeserializeOwned>(
    lines: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = Option<T>> {
    let mut lines = lines.map(str::trim).filter(|line| !line.is_empty()).peekable();
    std::iter::from_fn(move || {
        let decoded = serde_json::from_str(lines.next()?).ok();
        (decoded.is_some() || lines.peek().is_some()).then_some(decoded)
    })
}

/// Finds the last prompt that equals `prompt`, and collects the answer to it, as [`TurnFold::new`] describes.
pub(super) fn parse_turn<'a, D: LineDecoder>(
    lines: impl Iterator<Item = &'a str>,
    prompt: &str,
    since: Option<TsNs>,
) -> TranscriptTurn {
    let (mut fold, mut decoder) = (TurnFold::new(prompt, since), D::default());
    for line in D::read_lines(lines) {
        match line {
            Some(line) => decoder.decode(&line, &mut |entry| fold.add(entry)),
            None => fold.count_malformed_line(),
        }
    }
    fold.finish()
}

/// Returns the text in a field; empty if the field has none.
pub(super) fn text_field(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}
