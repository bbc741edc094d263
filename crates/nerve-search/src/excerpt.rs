//! The part of a document that a hit shows, and the matches in it as ranges of bytes.

use std::ops::Range;

/// Marks around the matched words in a hit's text: private characters.
pub const MARKS: [char; 2] = ['\u{e000}', '\u{e001}'];
/// Marks omitted text.
pub const ELLIPSIS: &str = "…";
/// Characters of text on each side of a match of a regular expression.
const CONTEXT: usize = 80;
/// Maximum number of characters of a hit's text. A word or a match can be as long as the whole document.
const MAX_EXCERPT: usize = 1000;

/// Removes the marks from a text and returns the ranges of bytes between them.
pub fn split_marks(marked: &str) -> (String, Vec<[usize; 2]>) {
    let (mut text, mut matches) = (String::with_capacity(marked.len()), Vec::new());
    for part in marked.split_inclusive(MARKS) {
        text.push_str(part.trim_end_matches(MARKS));
        if part.ends_with(MARKS[0]) {
            matches.push([text.len(), text.len()]);
        } else if part.ends_with(MARKS[1])
            && let Some(last) = matches.last_mut()
        {
            last[1] = text.len();
        }
    }
    (text, matches)
}

/// Returns the text around a match, and the match in it, as ranges of bytes.
pub fn excerpt(text: &str, range: Range<usize>) -> (String, Vec<[usize; 2]>) {
    let start = context_start(text, range.start);
    let end = advance(text, range.end, CONTEXT).min(advance(text, start, MAX_EXCERPT));
    cut(text, start..end, &[[range.start, range.end]])
}

/// Shortens a text to `MAX_EXCERPT` characters around its first match.
pub fn shorten(text: &str, matches: &[[usize; 2]]) -> (String, Vec<[usize; 2]>) {
    let is_long = advance(text, 0, MAX_EXCERPT) < text.len();
    let first = matches.first().map_or(0, |[start, _]| *start);
    let start = if is_long { context_start(text, first) } else { 0 };
    cut(text, start..advance(text, start, MAX_EXCERPT), matches)
}

/// Returns the start of the text that is shown of a match.
fn context_start(text: &str, match_start: usize) -> usize {
    text[..match_start].char_indices().rev().nth(CONTEXT - 1).map_or(0, |(at, _)| at)
}

/// Returns the position some characters later, at most the end of the text.
fn advance(text: &str, at: usize, chars: usize) -> usize {
    text[at..].char_indices().nth(chars).map_or(text.len(), |(offset, _)| at + offset)
}

/// Returns a part of a text, which shows where it was cut, and the matches in it.
fn cut(text: &str, part: Range<usize>, matches: &[[usize; 2]]) -> (String, Vec<[usize; 2]>) {
    let mark = |is_cut: bool| if is_cut { ELLIPSIS } else { "" };
    let before = mark(part.start > 0);
    let shown = format!("{before}{}{}", &text[part.clone()], mark(part.end < text.len()));
    let shift = |at: usize| at.min(part.end) - part.start + before.len();
    let shown_matches = matches.iter().filter(|[start, _]| *start <= part.end);
    (shown, shown_matches.map(|[start, end]| [shift(*start), shift(*end)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_ranges() {
        let (text, matches) = split_marks("a \u{e000}match\u{e001} and \u{e000}more\u{e001}…");
        assert_eq!(text, "a match and more…");
        assert_eq!(matches, [[2, 7], [12, 16]]);
    }

    #[test]
    fn excerpt_is_cut_at_characters() {
        let text = format!("{}match{}", "é".repeat(200), "ü".repeat(200));
        let at = text.find("match").unwrap();
        let (shown, matches) = excerpt(&text, at..at + 5);
        let [start, end] = matches[0];
        assert_eq!(&shown[start..end], "match");
        assert_eq!(shown.chars().count(), 1 + CONTEXT + 5 + CONTEXT + 1);
    }

    #[test]
    fn long_matches_and_words_are_cut() {
        let (long, whole) = ("é".repeat(300_000), MAX_EXCERPT + 2);
        let text = format!("{long}{long}");
        let (shown, matches) = excerpt(&text, long.len()..text.len());
        assert_eq!((shown.chars().count(), matches.len()), (whole, 1));
        assert_eq!(shown[matches[0][0]..matches[0][1]].chars().count(), MAX_EXCERPT - CONTEXT);
        // A word that matches after one that does not.
        let text = format!("{long} match {long} match");
        let at = text.find("match").unwrap();
        let last = text.len() - 5;
        let (shown, matches) = shorten(&text, &[[at, at + 5], [last, text.len()]]);
        assert_eq!((shown.chars().count(), matches.len()), (whole, 1), "the second match is cut off");
        assert_eq!(&shown[matches[0][0]..matches[0][1]], "match");
        let short = shorten("a match", &[[2, 7]]);
        assert_eq!(short, ("a match".to_string(), vec![[2, 7]]));
    }
}
