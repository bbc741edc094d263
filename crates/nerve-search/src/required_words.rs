//! Computes the words that every match of a regular expression contains. The index finds the documents to read by them.
//!
//! A word counts only if the expression determines both of its ends, or its beginning. The index looks up whole words and prefixes.
//! `\b` is no such end: the index takes some characters for letters that are not `\w`, such as symbols of terminal fonts.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Minimum length of the beginning of a word: shorter ones begin too many words.
const MIN_PREFIX: usize = 3;
/// Maximum number of characters in a class that is looked at.
const MAX_CLASS: usize = 64;

/// A part of an expression, in the order of the text that it matches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    /// An ASCII letter or digit, in any case.
    Letter(char),
    /// Only characters that are in no word, or the end of a line.
    Separator,
    /// Anything else.
    Unknown,
}

/// Returns an expression of FTS5 that every document with a match fulfils; `None` if the words are not known.
pub fn required_words(expression: &Hir) -> Option<String> {
    let mut pieces = Vec::new();
    collect(expression, &mut pieces);
    let phrases: Vec<String> = pieces.split(|piece| *piece == Piece::Unknown).filter_map(phrase).collect();
    (!phrases.is_empty()).then(|| phrases.join(" AND "))
}

/// Returns the consecutive words of pieces that are all known.
fn phrase(pieces: &[Piece]) -> Option<String> {
    // A word at the beginning may be the end of a longer one.
    let first = pieces.iter().position(|piece| *piece == Piece::Separator)?;
    let text: String = pieces[first..]
        .iter()
        .map(|piece| match piece {
            Piece::Letter(letter) => *letter,
            Piece::Separator | Piece::Unknown => ' ',
        })
        .collect();
    // A word at the end may continue.
    let (whole, prefix) = text.rsplit_once(' ')?;
    let prefix = Some(prefix).filter(|prefix| prefix.len() >= MIN_PREFIX);
    let words: Vec<&str> = whole.split_whitespace().chain(prefix).collect();
    let star = if prefix.is_some() { " *" } else { "" };
    (!words.is_empty()).then(|| format!("\"{}\"{star}", words.join(" ")))
}

fn collect(expression: &Hir, pieces: &mut Vec<Piece>) {
    match expression.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => pieces.extend(text.chars().map(|c| class_piece(&[c]))),
            Err(_) => pieces.push(Piece::Unknown),
        },
        HirKind::Class(class) => pieces.push(match chars_of(class) {
            Some(chars) => class_piece(&chars),
            None => Piece::Unknown,
        }),
        HirKind::Look(look) if ends_word(*look) => pieces.push(Piece::Separator),
        // Assertions match no characters.
        HirKind::Look(_) => {}
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let mut once = Vec::new();
            collect(&repetition.sub, &mut once);
            if once != [Piece::Separator] {
                once.insert(0, Piece::Unknown);
                once.push(Piece::Unknown);
            }
            pieces.extend(once);
        }
        HirKind::Capture(capture) => collect(&capture.sub, pieces),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, pieces)),
        HirKind::Repetition(_) | HirKind::Alternation(_) => pieces.push(Piece::Unknown),
    }
}

/// Returns true for the beginning and the end of lines and texts, across which no word continues.
fn ends_word(look: Look) -> bool {
    matches!(look, Look::Start | Look::End | Look::StartLF | Look::EndLF | Look::StartCRLF | Look::EndCRLF)
}

/// Returns the characters of a small class.
pub(crate) fn chars_of(class: &Class) -> Option<Vec<char>> {
    let Class::Unicode(class) = class else { return None };
    let ranges = class.ranges();
    (ranges.iter().map(|range| range.len()).sum::<usize>() <= MAX_CLASS)
        .then(|| ranges.iter().flat_map(|range| range.start()..=range.end()).collect())
}

/// Returns the piece that matches one of these characters.
fn class_piece(chars: &[char]) -> Piece {
    let is_separator = |c: &char| c.is_whitespace() || c.is_ascii_control() || c.is_ascii_punctuation();
    match chars.first().and_then(|first| fold(*first)) {
        Some(letter) if chars.iter().all(|c| fold(*c) == Some(letter)) => Piece::Letter(letter),
        _ if !chars.is_empty() && chars.iter().all(is_separator) => Piece::Separator,
        _ => Piece::Unknown,
    }
}

/// Returns an ASCII letter or digit as the index has it, also if `c` is another form that ignoring case includes.
pub(crate) fn fold(c: char) -> Option<char> {
    match c {
        '\u{17f}' => Some('s'),
        '\u{212a}' => Some('k'),
        _ => c.is_ascii_alphanumeric().then(|| c.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use regex_syntax::ParserBuilder;

    use super::*;

    fn words(pattern: &str) -> Option<String> {
        required_words(&ParserBuilder::new().multi_line(true).build().parse(pattern).unwrap())
    }

    #[test]
    fn words_with_known_ends_are_required() {
        for (pattern, expected) in [
            (r"error\[E0277\]: the", "\"e0277 the\" *"),
            (r" \bfoo\b,", "\"foo\""),
            (r"(?i)^Task\s+Skipped\b", "\"task skipped\" *"),
            (r"^no space left", "\"no space left\" *"),
            (r"^at .* line [0-9]+$", "\"at\" AND \"line\""),
            (r"( not found)+", "\"not found\" *"),
            (r"'(src/main.rs)' is", "\"src main\" *"),
            (r"a (b|c) d e", "\"d\""),
        ] {
            assert_eq!(words(pattern).as_deref(), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn parts_of_words_are_not_required() {
        for pattern in [
            "quok+a7$",
            r"\bfoo\b",
            "E0[0-9]+",
            "foo|bar",
            r"(?-u:\bfoo\b)",
            "( foo )?",
            " fo",
            "=> ",
            "x y",
            "本語 ",
        ] {
            assert_eq!(words(pattern), None, "{pattern}");
        }
    }
}
