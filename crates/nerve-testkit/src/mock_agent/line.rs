//! One line of the mock agent's output: styled bytes and their width.
//!
//! Gaps between words are written as cursor jumps (CHA, ECMA-48 §8.3.9), as Claude Code does: a reader that strips
//! escape sequences instead of modelling the terminal loses the spaces.

use unicode_width::UnicodeWidthChar;

/// Style of a piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Grey,
    Accent,
    Bold,
    Inverse,
}

impl Style {
    fn on_off(self) -> (&'static str, &'static str) {
        match self {
            Style::Plain => ("", ""),
            Style::Grey => ("\x1b[38;2;136;136;136m", "\x1b[39m"),
            Style::Accent => ("\x1b[38;2;177;185;249m", "\x1b[39m"),
            Style::Bold => ("\x1b[1m", "\x1b[22m"),
            Style::Inverse => ("\x1b[7m", "\x1b[27m"),
        }
    }
}

/// A finished line without its line end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    bytes: Vec<u8>,
    width: usize,
    /// The line contains characters whose width differs between terminals, so later columns are unknown.
    inexact: bool,
}

impl Line {
    pub(super) fn blank() -> Line {
        Line::default()
    }

    pub(super) fn plain(text: &str) -> Line {
        Line::default().put(Style::Plain, text)
    }

    pub(super) fn grey(text: &str) -> Line {
        Line::default().put(Style::Grey, text)
    }

    /// Creates a full-width line of `glyph`.
    pub(super) fn rule(glyph: char, cols: usize) -> Line {
        Line::grey(&glyph.to_string().repeat(cols))
    }

    /// Creates a line of verbatim bytes.
    pub(super) fn raw(bytes: Vec<u8>, width: usize) -> Line {
        Line { bytes, width, inexact: true }
    }

    /// Appends `text`, which must not contain control characters.
    pub(super) fn put(mut self, style: Style, text: &str) -> Line {
        let (on, off) = style.on_off();
        self.bytes.extend_from_slice(on.as_bytes());
        let mut rest = text;
        while !rest.is_empty() {
            let gap = rest.len() - rest.trim_start_matches(' ').len();
            let word_end = rest[gap..].find(' ').map_or(rest.len(), |at| gap + at);
            self.gap(gap, word_end > gap && style != Style::Inverse);
            self.word(&rest[gap..word_end]);
            rest = &rest[word_end..];
        }
        self.bytes.extend_from_slice(off.as_bytes());
        self
    }

    fn gap(&mut self, cells: usize, may_jump: bool) {
        self.width += cells;
        if cells == 0 {
        } else if may_jump && !self.inexact {
            self.bytes.extend_from_slice(format!("\x1b[{}G", self.width + 1).as_bytes());
        } else {
            self.bytes.resize(self.bytes.len() + cells, b' ');
        }
    }

    fn word(&mut self, word: &str) {
        self.bytes.extend_from_slice(word.as_bytes());
        for c in word.chars() {
            let cells = c.width().unwrap_or(0);
            self.width += cells;
            self.inexact |= cells != 1;
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the width in cells.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows on a screen of `cols` columns.
    pub(super) fn rows(&self, cols: usize) -> usize {
        self.width.div_ceil(cols.max(1)).max(1)
    }
}

/// Wraps `text` to `width` cells, at spaces if possible. Preserves line ends, and the inner spaces of a line that fits.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    text.split('\n').flat_map(|line| wrap_line(line, width)).collect()
}

fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    let (mut start, mut cells, mut last_space) = (0, 0, None);
    for (at, c) in line.char_indices() {
        let c_cells = c.width().unwrap_or(0);
        if cells + c_cells > width {
            let (end, next) = match last_space {
                _ if c == ' ' => (at, at + 1),
                Some(space) => (space, space + 1),
                None => (at, at),
            };
            out.push(line[start..end].to_owned());
            start = next;
            cells = line.get(start..at).map_or(0, display_width);
            last_space = None;
            if c == ' ' && next > at {
                continue;
            }
        }
        if c == ' ' {
            last_space = Some(at);
        }
        cells += c_cells;
    }
    out.push(line[start..].to_owned());
    out
}

/// Returns the width of `text` in cells.
pub(super) fn display_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Removes control characters except line ends, and expands tabs, so that no text can control the terminal.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_jumps_until_a_column_is_uncertain() {
        assert_eq!(Line::plain("a  b").bytes(), b"a\x1b[4Gb");
        assert_eq!(Line::plain("日 b").bytes(), "日 b".as_bytes());
        assert_eq!(Line::plain("a ").bytes(), b"a ");
        assert_eq!(Line::plain("日 b").width(), 4);
    }

    #[test]
    fn wrapping_breaks_at_spaces_and_then_hard() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aa bbbb cc", 5), ["aa", "bbbb", "cc"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("one\n\n  two", 20), ["one", "", "  two"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
    }

    #[test]
    fn a_wrapped_line_never_exceeds_the_width() {
        let text = "some words of a line 日本語 that has lengthywordswithoutspaces and 😀 more of it";
        for width in 2..40 {
            for line in wrap(text, width) {
                assert!(display_width(&line) <= width, "{line:?} in {width}");
            }
        }
    }

    #[test]
    fn control_characters_do_not_survive() {
        assert_eq!(printable("a\x1b[31mb\r\n\tc\x07"), "a[31mb\n    c");
    }
}
