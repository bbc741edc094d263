//! Truncates responses to what fits on the wire.

use nerve_agent::parse::Section;

use super::Response;

/// Maximum text of a response in bytes, and maximum text of its sections. Longer text is cut at its beginning. On the wire, a
/// response has five copies of it (raw, text, output, sections twice). JSON can turn one byte into six, and a line holds 16 MiB.
const TEXT_LIMIT: usize = 512 << 10;
/// Maximum size of a metadata value of a section, in bytes. A longer value, such as a tool's arguments, is cut at its end.
const METADATA_LIMIT: usize = 64 << 10;
/// Overhead of a section in addition to its texts, in bytes.
const SECTION_COST: usize = 64;

/// Truncates a response to what fits on the wire, and notes that in its attributes. A truncated text is incomplete.
pub fn truncate_to_limits(response: &mut Response) {
    let missing = keep_end(&mut response.text, TEXT_LIMIT);
    if missing > 0 {
        response.missing_text = Some(format!("its first {missing} bytes are left out"));
    }
    let left_out =
        missing.max(keep_end(&mut response.raw, TEXT_LIMIT)).max(truncate_sections(&mut response.sections));
    if left_out > 0 {
        let note = format!("the first {left_out} bytes are left out");
        response.attributes.insert("truncated".to_string(), note.into());
    }
}

/// Returns the end of a text that fits on the wire.
pub(crate) fn truncate_text(mut text: String) -> String {
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
