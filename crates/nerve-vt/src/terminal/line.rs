//! One row of a terminal as text and renditions: the format of the store and the source of ANSI output.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::screen::{Color, Decoration, Link, Row, Style, StyleRun, Underline};

/// The text presentation selector. It does not change the width of a character in a terminal.
const TEXT_STYLE: char = '\u{fe0e}';
/// Joins characters to one grapheme.
pub(super) const ZWJ: char = '\u{200d}';
/// The emoji presentation selector: makes a narrow character two columns wide.
pub(super) const EMOJI_STYLE: char = '\u{fe0f}';
/// Emoji skin tones.
pub(super) const TONES: std::ops::RangeInclusive<char> = '\u{1f3fb}'..='\u{1f3ff}';

/// Absolute line number; 0 is the first line of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LineIndex(pub u64);

/// A row as text and spans.
///
/// `text` holds every column up to the last visible one, including blanks; a wide character occurs once. `spans` is
/// empty if the whole row has the default rendition; otherwise the spans cover the text exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The characters of the row.
    pub text: String,
    /// The renditions, left to right.
    pub spans: Vec<Span>,
    /// Hyperlinks that spans refer to.
    pub links: Vec<Link>,
    /// The text continues in the next row.
    pub wrapped: bool,
}

/// A stretch of a row with one rendition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Columns of the span.
    pub cols: u16,
    /// Bytes of [`Line::text`] in the span.
    pub bytes: u32,
    /// Rendition of the span.
    pub rendition: Rendition,
}

/// The complete rendition of a cell: [`Style`] and what only ANSI output needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rendition {
    /// Colours and attributes; `style.underline` is true when `underline` is not [`Underline::None`].
    pub style: Style,
    /// Form of the underline.
    pub underline: Underline,
    /// Colour of the underline (SGR 58).
    pub underline_color: Color,
    /// 1-based index into [`Line::links`], 0 for none.
    pub link: u16,
}

impl Rendition {
    /// Returns true if a [`Style`] cannot express the rendition.
    fn is_decorated(&self) -> bool {
        let is_plain = matches!(self.underline, Underline::None | Underline::Single);
        !is_plain || self.underline_color != Color::Default || self.link != 0
    }
}

impl Decoration {
    fn has_rendition(&self, rendition: &Rendition) -> bool {
        (self.underline, self.underline_color, self.link)
            == (rendition.underline, rendition.underline_color, rendition.link)
    }
}

impl Line {
    /// Clears the line but keeps its memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.links.clear();
        self.wrapped = false;
    }

    /// Returns the text without trailing blanks.
    pub fn trimmed(&self) -> &str {
        self.text.trim_end_matches(' ')
    }

    /// Returns the text left of column `col`.
    pub(super) fn text_to(&self, col: u16) -> &str {
        text_to(&self.text, col)
    }

    /// Converts the line into a row of a [`Screen`](crate::screen::Screen).
    pub fn into_row(mut self) -> Row {
        let (mut start, mut runs, mut decorations) = (0, Vec::<StyleRun>::new(), Vec::<Decoration>::new());
        for Span { cols, rendition, .. } in &self.spans {
            match runs.last_mut() {
                Some(last) if last.style == rendition.style => last.len += cols,
                _ => runs.push(StyleRun { start, len: *cols, style: rendition.style }),
            }
            match decorations.last_mut() {
                Some(last) if last.has_rendition(rendition) && last.start + last.len == start => {
                    last.len += cols
                }
                _ if rendition.is_decorated() => decorations.push(Decoration {
                    start,
                    len: *cols,
                    underline: rendition.underline,
                    underline_color: rendition.underline_color,
                    link: rendition.link,
                }),
                _ => {}
            }
            start += cols;
        }
        if runs.iter().all(|run| run.style == Style::default()) {
            runs.clear();
        }
        self.text.truncate(self.trimmed().len());
        Row { text: self.text, runs, decorations, links: self.links, wrapped: self.wrapped }
    }

    /// Returns the spans with their text; one default span if there are none.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, Rendition)> {
        let unstyled =
            if self.spans.is_empty() { Some((self.text.as_str(), Rendition::default())) } else { None };
        let mut at = 0;
        let styled = self.spans.iter().map(move |span| {
            let end = at + span.bytes as usize;
            let text = self.text.get(at..end).unwrap_or_default();
            at = end;
            (text, span.rendition)
        });
        unstyled.into_iter().chain(styled)
    }
}

/// Returns the part of a row's text left of column `col`.
pub(super) fn text_to(text: &str, col: u16) -> &str {
    if col != 0 && text.len() <= usize::from(col) {
        // No character takes more columns than bytes.
        return text;
    }
    let (mut cols, mut end) = (0u16, 0);
    for (cluster, width) in clusters(text) {
        if cols >= col {
            break;
        }
        cols = cols.saturating_add(width);
        end += cluster.len();
    }
    &text[..end]
}

/// Splits a row's text into grapheme clusters, each with its columns.
pub fn clusters(text: &str) -> impl Iterator<Item = (&str, u16)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut joins = false;
        let continues = |(at, c): &(usize, char)| {
            let is_mark = joins || TONES.contains(c) || c.width().unwrap_or(0) == 0;
            joins = *c == ZWJ;
            *at == 0 || is_mark
        };
        let (last, char) = rest.char_indices().take_while(continues).last()?;
        let (cluster, after) = rest.split_at(last + char.len_utf8());
        rest = after;
        Some((cluster, u16::try_from(columns(cluster)).unwrap_or(1).max(1)))
    })
}

/// Returns the columns of a grapheme cluster.
pub(super) fn columns(cluster: &str) -> usize {
    match cluster.contains(TEXT_STYLE) {
        true => cluster.replace(TEXT_STYLE, "").width(),
        false => cluster.width(),
    }
}

/// A visible cell of a row; a wide one takes two columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// First column, 0-based.
    pub col: u16,
    /// Columns: 1 or 2, rarely more.
    pub width: u16,
    /// The grapheme cluster.
    pub text: &'a str,
    /// The cell's style.
    pub style: Style,
    /// The cell's decoration: the same reference for all cells of one [`Decoration`].
    pub decoration: Option<&'a Decoration>,
}

impl Row {
    /// Returns the hyperlink of a decoration.
    pub fn link(&self, decoration: &Decoration) -> Option<&Link> {
        self.links.get(usize::from(decoration.link).checked_sub(1)?)
    }

    /// Returns the cells, left to right, up to the last one with text or a style.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let styled = self.runs.last().map_or(0, |run| run.start.saturating_add(run.len));
        let mut clusters = clusters(&self.text);
        let (mut col, mut runs, mut decorations) = (0u16, self.runs.as_slice(), self.decorations.as_slice());
        std::iter::from_fn(move || {
            let (text, width) = match clusters.next() {
                Some(cluster) => cluster,
                None if col < styled => (" ", 1),
                None => return None,
            };
            while let [run, after @ ..] = runs
                && run.start.saturating_add(run.len) <= col
            {
                runs = after;
            }
            let style = runs.first().filter(|run| run.start <= col).map(|run| run.style).unwrap_or_default();
            while let [first, after @ ..] = decorations
                && first.start.saturating_add(first.len) <= col
            {
                decorations = after;
            }
            let decoration = decorations.first().filter(|first| first.start <= col);
            let cell = Cell { col, width, text, style, decoration };
            col = col.saturating_add(width);
            Some(cell)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::TerminalState;
    use nerve_types::{Size, TsNs};

    #[test]
    fn cells_cover_columns() {
        let red = Style { fg: Color::Indexed(1), ..Style::default() };
        let runs = vec![
            StyleRun { start: 0, len: 1, style: Style::default() },
            StyleRun { start: 1, len: 2, style: red },
            StyleRun { start: 5, len: 2, style: red },
        ];
        let row = Row { text: "a日e\u{301}x".to_string(), runs, ..Row::default() };
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
        assert_eq!(clusters(&format!("{family}|🇩🇪")).next(), Some((family, 2)));
    }

    #[test]
    fn text_left_of_column_ends_with_whole_character() {
        let left = |col| text_to("a日e\u{301}x", col);
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 9].map(left),
            ["", "a", "a日", "a日", "a日e\u{301}", "a日e\u{301}x", "a日e\u{301}x"]
        );
    }

    /// Returns the cells that the terminal shows for `program` and the cursor's column.
    fn columns_of(program: &str) -> (Vec<(u16, String)>, u16) {
        let mut terminal = TerminalState::new(Size::new(8, 2));
        terminal.process_data(TsNs(0), program.as_bytes());
        let screen = terminal.screen();
        let cells = screen.rows[0].cells().map(|cell| (cell.col, cell.text.to_string())).collect();
        (cells, screen.cursor.col)
    }

    #[test]
    fn text_width_matches_terminal() {
        let cells = |program: &str| columns_of(program).0;
        let own = |cells: &[(u16, &str)]| -> Vec<_> {
            cells.iter().map(|(col, text)| (*col, text.to_string())).collect()
        };
        assert_eq!(cells("⌚\u{fe0e}x"), own(&[(0, "⌚\u{fe0e}"), (2, "x")]));
        assert_eq!(text_to("⌚\u{fe0e}x", 2), "⌚\u{fe0e}");
        assert_eq!(cells("☺\u{fe0e}x"), own(&[(0, "☺\u{fe0e}"), (1, "x")]));
        assert_eq!(cells("❤\u{fe0f}x"), own(&[(0, "❤\u{fe0f}"), (2, "x")]));
        assert_eq!(cells("ｶﾞx"), own(&[(0, "ｶ"), (1, "ﾞ"), (2, "x")]));
        // No room for a second column: the character stays narrow.
        assert_eq!(cells("\x1b[8G❤\u{fe0f}").last(), own(&[(7, "❤")]).last());
        assert_eq!(cells("❤x\x1b[2G\u{fe0f}"), own(&[(0, "❤"), (1, "x")]));
        for text in ["⌚\u{fe0e}x", "❤\u{fe0f}x", "❤\u{fe0e}\u{fe0f}x", "👩\u{fe0e}\u{200d}🚀x"] {
            let (cells, col) = columns_of(text);
            assert_eq!(cells.last(), Some(&(col - 1, "x".to_string())), "{text}");
        }
    }
}
