//! One row of a terminal as text plus looks: what the store keeps and what ANSI output is written from.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::print::{TONES, ZWJ};
use crate::screen::{Color, Row, Style, StyleRun};

/// A row as text plus spans.
///
/// `text` holds every column up to the last one that shows anything, blanks included; a wide character is in it once.
/// `spans` is empty when the whole row has the default look, else the spans cover the text exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The characters.
    pub text: String,
    /// How they look, left to right.
    pub spans: Vec<Span>,
    /// Hyperlinks that spans refer to.
    pub links: Vec<Link>,
    /// The text goes on in the next row.
    pub wrapped: bool,
}

/// A stretch of a row with one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Columns it takes.
    pub cols: u16,
    /// Bytes of [`Line::text`] it takes.
    pub bytes: u32,
    /// Its look.
    pub look: Look,
}

/// Everything that decides how a cell looks: [`Style`] plus what only ANSI output needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Colours and attributes; `style.underline` is true when `underline` is not [`Underline::None`].
    pub style: Style,
    /// Form of the underline.
    pub underline: Underline,
    /// Colour of the underline (SGR 58).
    pub underline_color: Color,
    /// 1-based index into [`Line::links`], 0 for none.
    pub link: u16,
}

/// Forms of underline (SGR 4, 4:2 … 4:5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Underline {
    /// Not underlined.
    #[default]
    None,
    /// One line.
    Single,
    /// Two lines.
    Double,
    /// A wave.
    Curl,
    /// Dots.
    Dotted,
    /// Dashes.
    Dashed,
}

/// A hyperlink (OSC 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The `id` parameter, empty if the program gave none.
    pub id: String,
    /// The target.
    pub uri: String,
}

impl Line {
    /// Makes it empty and keeps its memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.links.clear();
        self.wrapped = false;
    }

    /// The text with trailing blanks cut.
    pub fn trimmed(&self) -> &str {
        self.text.trim_end_matches(' ')
    }

    /// The text left of column `col`.
    pub(super) fn text_to(&self, col: u16) -> &str {
        text_to(&self.text, col)
    }

    /// The row as [`Screen`](crate::screen::Screen) shows it.
    pub fn to_row(&self) -> Row {
        let mut start = 0;
        let mut runs: Vec<StyleRun> = Vec::new();
        for span in &self.spans {
            match runs.last_mut() {
                Some(last) if last.style == span.look.style => last.len += span.cols,
                _ => runs.push(StyleRun { start, len: span.cols, style: span.look.style }),
            }
            start += span.cols;
        }
        if runs.iter().all(|run| run.style == Style::default()) {
            runs.clear();
        }
        Row { text: self.trimmed().to_string(), runs, wrapped: self.wrapped }
    }

    /// The spans with their text; one default span when there are none.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, Look)> {
        let plain = if self.spans.is_empty() { Some((self.text.as_str(), Look::default())) } else { None };
        let mut at = 0;
        let styled = self.spans.iter().map(move |span| {
            let end = at + span.bytes as usize;
            let text = self.text.get(at..end).unwrap_or_default();
            at = end;
            (text, span.look)
        });
        plain.into_iter().chain(styled)
    }
}

/// The start of a row's text that is left of column `col`.
pub(super) fn text_to(text: &str, col: u16) -> &str {
    if col == 0 {
        return "";
    }
    if text.len() <= usize::from(col) {
        // No character takes more columns than bytes.
        return text;
    }
    let (mut cols, mut cell, mut joins) = (0, 0, false);
    for (at, c) in text.char_indices() {
        let is_mark = joins || TONES.contains(&c) || c.width().unwrap_or(0) == 0;
        joins = c == ZWJ;
        if at == 0 || is_mark {
            continue;
        }
        cols += text[cell..at].width();
        if cols >= usize::from(col) {
            return &text[..at];
        }
        cell = at;
    }
    text
}
