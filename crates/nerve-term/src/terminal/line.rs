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
    if col != 0 && text.len() <= usize::from(col) {
        // No character takes more columns than bytes.
        return text;
    }
    let (mut cols, mut end) = (0, 0);
    for cluster in clusters(text) {
        if cols >= usize::from(col) {
            break;
        }
        cols += cluster.width();
        end += cluster.len();
    }
    &text[..end]
}

/// A row's text in pieces: a character with the marks that are drawn over it and what is joined to it.
fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut joins = false;
        let goes_on = |(at, c): &(usize, char)| {
            let is_mark = joins || TONES.contains(c) || c.width().unwrap_or(0) == 0;
            joins = *c == ZWJ;
            *at == 0 || is_mark
        };
        let (last, char) = rest.char_indices().take_while(goes_on).last()?;
        let (cluster, after) = rest.split_at(last + char.len_utf8());
        rest = after;
        Some(cluster)
    })
}

/// One cell of a row that shows something; a wide one takes two columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Its first column, 0-based.
    pub col: u16,
    /// Columns: 1 or 2, in odd cases more.
    pub width: u16,
    /// A character with what is joined to it.
    pub text: &'a str,
    /// Its look.
    pub style: Style,
}

impl Row {
    /// Its cells, left to right: all up to the last one with text or a look of its own.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let styled = self.runs.last().map_or(0, |run| run.start.saturating_add(run.len));
        let mut clusters = clusters(&self.text);
        let (mut col, mut runs) = (0u16, self.runs.as_slice());
        std::iter::from_fn(move || {
            let text = match clusters.next() {
                Some(text) => text,
                None if col < styled => " ",
                None => return None,
            };
            while let [run, after @ ..] = runs
                && run.start.saturating_add(run.len) <= col
            {
                runs = after;
            }
            let style = runs.first().filter(|run| run.start <= col).map(|run| run.style).unwrap_or_default();
            let width = u16::try_from(text.width()).unwrap_or(1).max(1);
            let cell = Cell { col, width, text, style };
            col = col.saturating_add(width);
            Some(cell)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_row_are_what_its_columns_show() {
        let red = Style { fg: Color::Indexed(1), ..Style::default() };
        let runs = vec![
            StyleRun { start: 0, len: 1, style: Style::default() },
            StyleRun { start: 1, len: 2, style: red },
            StyleRun { start: 5, len: 2, style: red },
        ];
        let row = Row { text: "a日e\u{301}x".to_string(), runs, wrapped: false };
        let cells: Vec<_> = row.cells().map(|c| (c.col, c.width, c.text, c.style == red)).collect();
        assert_eq!(
            cells,
            [
                (0, 1, "a", false),
                (1, 2, "日", true),
                (3, 1, "e\u{301}", false),
                (4, 1, "x", false),
                (5, 1, " ", true),
                (6, 1, " ", true)
            ]
        );
        assert_eq!(Row::default().cells().count(), 0);
        let family = "👩\u{200d}👩\u{200d}👧";
        assert_eq!(clusters(&format!("{family}|🇩🇪")).next(), Some(family));
    }

    #[test]
    fn the_text_left_of_a_column_ends_with_a_whole_character() {
        let left = |col| text_to("a日e\u{301}x", col);
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 9].map(left),
            ["", "a", "a日", "a日", "a日e\u{301}", "a日e\u{301}x", "a日e\u{301}x"]
        );
    }
}
