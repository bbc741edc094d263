//! Patterns and TOML from rows of the screen.

use nerve_vt::screen::Screen;
use unicode_width::UnicodeWidthChar;

/// Minimum length of an edge, in characters.
const MIN_EDGE_LEN: usize = 10;
/// Maximum length of a row in a comment, in characters.
const MAX_COMMENT_CHARS: usize = 70;

/// Returns a TOML literal string, which has no escapes. The profile's parser rejects a text with `'''`.
pub(super) fn quote(text: &str) -> String {
    if text.contains('\'') { format!("'''{text}'''") } else { format!("'{text}'") }
}

/// Returns a text for a comment, on one line.
pub(super) fn show(text: &str) -> String {
    let text = text.trim();
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(MAX_COMMENT_CHARS).collect();
    if text.chars().count() > MAX_COMMENT_CHARS {
        shown.push('…');
    }
    format!("'{shown}'")
}

/// Returns a number with its noun.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Returns a time for a comment.
pub(super) fn show_time(elapsed_ms: u64) -> String {
    format!("{}.{} s", elapsed_ms / 1000, elapsed_ms % 1000 / 100)
}

/// Returns the text of the cursor's row before and after the cursor. Blanks before the cursor are included.
pub(super) fn split_at_cursor(screen: &Screen) -> Option<(String, String)> {
    let text = &screen.rows.get(usize::from(screen.cursor.row))?.text;
    let cursor = usize::from(screen.cursor.col);
    let mut col = 0;
    let at = text.char_indices().find(|(_, c)| {
        let is_behind = col >= cursor;
        col += c.width().unwrap_or(0);
        is_behind
    });
    let (before, after) = text.split_at(at.map_or(text.len(), |(at, _)| at));
    Some((format!("{before}{}", " ".repeat(cursor.saturating_sub(col.min(cursor)))), after.to_string()))
}

/// Returns a pattern for a text in which all numbers stand for any number.
pub(super) fn escape_numbers(text: &str) -> String {
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - at);
        pattern += &regex::escape(&rest[..at]);
        pattern += r"\d+";
        rest = &rest[at + digits..];
    }
    pattern + &regex::escape(rest)
}

/// Returns a pattern for a row that consists of one repeated character, perhaps after a corner; `None` for another row.
pub(super) fn edge_pattern(row: &str) -> Option<String> {
    let chars: Vec<char> = row.chars().collect();
    let start = (0..chars.len().min(40)).find(|at| {
        let run = chars[*at..].iter().take_while(|c| **c == chars[*at]).count();
        run >= MIN_EDGE_LEN && !chars[*at].is_alphanumeric() && !chars[*at].is_whitespace()
    })?;
    let lead: String = chars[..start].iter().collect();
    let is_corner = lead.trim().chars().count() <= 1;
    // An indentation depends on the size of the window.
    let indent = if lead.starts_with(' ') { r"\s*" } else { "" };
    is_corner.then(|| {
        format!(
            "^{indent}{}{}{{{MIN_EDGE_LEN},}}",
            regex::escape(lead.trim()),
            regex::escape(&chars[start].to_string())
        )
    })
}

/// Returns the longest common beginning.
pub(super) fn common_prefix<'a>(first: &'a str, second: &str) -> &'a str {
    let len: usize =
        first.chars().zip(second.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    &first[..len]
}
