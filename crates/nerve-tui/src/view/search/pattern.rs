//! Search patterns.

use std::ops::Range;

use nerve_vt::terminal::line::clusters;
use regex::{Regex, RegexBuilder};

/// Size limit of a compiled pattern in bytes, which bounds the memory that typed input can take.
const PATTERN_BYTES: usize = 1 << 20;

/// Options for interpreting a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatternOptions {
    /// Matches the text literally instead of as a regular expression.
    pub literal: bool,
    /// Selects the lines that do not match.
    pub inverse: bool,
}

/// A compiled search pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
    inverse: bool,
    fault: Option<String>,
}

impl Pattern {
    /// Creates a pattern from a regular expression. It ignores case unless it contains a capital letter (like `less -i`) or `(?i)` or
    /// `(?-i)`. Text that is not a valid expression, for example while it is being typed, is searched literally. Returns `None` for an
    /// empty text.
    ///
    /// ```
    /// use nerve_tui::view::search::Pattern;
    ///
    /// let columns = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().columns(line);
    /// assert_eq!(columns("err", "an ERROR"), [3..6]);
    /// assert_eq!(columns("Err", "an ERROR"), []);
    /// assert_eq!(columns("(?i)Err", "an ERROR"), [3..6]);
    /// assert_eq!(columns("a(", "f(a(b))"), [2..4]);
    /// assert_eq!(columns("x", "日本x"), [4..5]);
    /// ```
    pub fn new(text: &str) -> Option<Pattern> {
        Pattern::with(text, PatternOptions::default())
    }

    /// Compiles a pattern with options. Returns `None` for an empty text.
    pub fn with(text: &str, options: PatternOptions) -> Option<Pattern> {
        if text.is_empty() {
            return None;
        }
        let build = |expression: &str| {
            let plain = !has_capital(text, options.literal);
            RegexBuilder::new(expression).case_insensitive(plain).size_limit(PATTERN_BYTES).build()
        };
        let expression = if options.literal { Err(None) } else { build(text).map_err(Some) };
        let (regex, fault) = match expression {
            Ok(regex) => (regex, None),
            Err(bad) => (build(&regex::escape(text)).ok()?, bad.as_ref().map(fault)),
        };
        Some(Pattern { text: text.to_string(), regex, inverse: options.inverse, fault })
    }

    /// Returns the text as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns why the text is not a valid regular expression and is matched literally.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns true if the pattern selects the line.
    pub fn is_in(&self, line: &str) -> bool {
        self.matches(line).next().is_some() != self.inverse
    }

    /// Counts the non-empty matches in a line. With an inverse pattern a selected line counts once.
    pub fn count(&self, line: &str) -> u64 {
        if self.inverse { self.is_in(line).into() } else { self.matches(line).count() as u64 }
    }

    /// Returns the columns of the matches, 0-based; wide characters take two. Inverse patterns have none.
    pub fn columns(&self, line: &str) -> Vec<Range<u16>> {
        if self.inverse {
            return Vec::new();
        }
        let (mut cells, mut at, mut col) = (clusters(line).peekable(), 0, 0_u16);
        // Matches are ascending, so the line is measured once. Returns the column at a byte, and the one after its
        // cell.
        let mut columns = |byte: usize| {
            while let Some((text, width)) = cells.next_if(|(text, _)| at + text.len() <= byte) {
                at += text.len();
                col = col.saturating_add(width);
            }
            let inside = cells.peek().filter(|_| at < byte).map_or(0, |(_, width)| *width);
            (col, col.saturating_add(inside))
        };
        self.matches(line).map(|found| columns(found.start).0..columns(found.end).1).collect()
    }

    fn matches<'a>(&'a self, line: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        self.regex.find_iter(line).map(|found| found.range()).filter(|range| !range.is_empty())
    }
}

/// A letter after a backslash (`\S`, `\W`) does not count as a capital.
fn has_capital(text: &str, literal: bool) -> bool {
    let mut is_escaped = false;
    text.chars().any(|char| {
        let counts = literal || !std::mem::take(&mut is_escaped);
        is_escaped = counts && char == '\\';
        counts && char.is_uppercase()
    })
}

/// Shortens a regex error to the last line of the parser's message.
fn fault(bad: &regex::Error) -> String {
    match bad {
        regex::Error::CompiledTooBig(_) => "too large".to_string(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_cover_whole_cells() {
        let columns = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().columns(line);
        assert_eq!(columns("x", "⌚\u{fe0e}xe\u{301}x"), [2..3, 4..5]);
        assert_eq!(columns("e", "ae\u{301}xe"), [1..2, 3..4]);
        assert_eq!(columns("\u{301}", "ae\u{301}xe\u{301}"), [1..2, 3..4], "it is in the cell");
        assert_eq!(columns("本x|ﾞ", "日本xｶﾞ"), [2..5, 6..7]);
    }

    #[test]
    fn empty_and_oversized_patterns() {
        assert!(Pattern::new("").is_none());
        assert_eq!(Pattern::new("x*").unwrap().count("abc"), 0, "empty matches");
        assert_eq!(
            Pattern::new("(a{1000}){1000}").unwrap().count("(a{1000}){1000}"),
            1,
            "too large: as it stands"
        );
        assert_eq!(Pattern::new("(a{1000}){1000}").unwrap().fault(), Some("too large"));
    }

    #[test]
    fn invalid_regex_has_a_reason() {
        let fault = |pattern: &str| Pattern::new(pattern).unwrap().fault().map(str::to_string);
        assert_eq!(fault("a("), Some("unclosed group".into()));
        assert_eq!(
            fault("[b-a]"),
            Some("invalid character class range, the start must be <= the end".into())
        );
        assert_eq!(fault("a"), None);
        let literal = Pattern::with("a(", PatternOptions { literal: true, inverse: false }).unwrap();
        assert_eq!((literal.fault(), literal.count("f(a(b) A(")), (None, 2));
    }

    #[test]
    fn inverse_matches_count_once_without_columns() {
        let others = Pattern::with("two", PatternOptions { literal: false, inverse: true }).unwrap();
        assert_eq!((others.count("one one"), others.count("two"), others.count("")), (1, 0, 1));
        assert_eq!(others.columns("one two"), []);
        assert!(others.is_in("one") && !others.is_in("TWO"));
    }

    #[test]
    fn smart_case_ignores_class_letters() {
        let count = |pattern: &str| Pattern::new(pattern).unwrap().count("Ab ab");
        assert_eq!(
            (count("ab"), count("Ab"), count(r"\Sb"), count("(?-i)ab"), count("(?i)AB")),
            (2, 1, 2, 1, 2)
        );
        let literal =
            |text: &str| Pattern::with(text, PatternOptions { literal: true, inverse: false }).unwrap();
        assert_eq!((literal(r"\S").count(r"\s"), literal(r"\s").count(r"\S")), (0, 1));
    }
}
