//! Cell attributes that ratatui cannot represent: underline forms, underline colours and hyperlinks.
//!
//! A cell stores the index of its decoration in its underline colour. Drawing over the cell thus removes the
//! decoration, and cells that differ only in decoration compare as different.

use std::hash::Hash;

use indexmap::{Equivalent, IndexSet};
use nerve_vt::screen::{self, Color as TermColor, Link, Underline};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Color;

/// Number of decorations at which unused ones are removed.
const TIDY_THRESHOLD: usize = 4096;
/// Maximum number of decorations; further cells get none.
const MAX_DECORATIONS: usize = 4 * TIDY_THRESHOLD;

/// The attributes of a cell that ratatui cannot represent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decoration {
    /// Underline form of underlined cells.
    pub underline: Underline,
    /// Underline colour.
    pub color: TermColor,
    /// Hyperlink target.
    pub link: Option<Link>,
}

/// The decorations of a window's cells, kept across frames.
#[derive(Debug, Default)]
pub struct Decorations {
    all: IndexSet<Decoration>,
}

/// A borrowed decoration, for lookups.
#[derive(Hash)]
struct DecorationKey<'a> {
    underline: Underline,
    color: TermColor,
    link: Option<&'a Link>,
}

impl Equivalent<Decoration> for DecorationKey<'_> {
    fn equivalent(&self, known: &Decoration) -> bool {
        (self.underline, self.color, self.link) == (known.underline, known.color, known.link.as_ref())
    }
}

impl Decorations {
    /// Returns the decoration of a cell drawn with this table.
    pub fn of(&self, cell: &Cell) -> Option<&Decoration> {
        self.all.get_index(number(cell.underline_color)?)
    }

    /// Registers a decoration of the row. Returns the tag for its cells, stored as their underline colour.
    pub fn register(&mut self, row: &screen::Row, decoration: &screen::Decoration) -> Color {
        let screen::Decoration { underline, underline_color: color, .. } = *decoration;
        let key = DecorationKey { underline, color, link: row.link(decoration) };
        match self.all.get_index_of(&key) {
            Some(index) => tag(index),
            None => self.add(Decoration { underline, color, link: key.link.cloned() }),
        }
    }

    fn add(&mut self, decoration: Decoration) -> Color {
        if self.all.len() >= MAX_DECORATIONS {
            return Color::Reset;
        }
        tag(self.all.insert_full(decoration).0)
    }

    /// Removes unused decorations when there are many. `shown` must be the only buffer drawn with this table.
    pub fn tidy(&mut self, shown: &mut Buffer) {
        if self.all.len() < TIDY_THRESHOLD {
            return;
        }
        let previous = std::mem::take(self);
        for cell in &mut shown.content {
            let decoration = previous.of(cell).cloned();
            cell.underline_color = decoration.map_or(Color::Reset, |decoration| self.add(decoration));
        }
    }
}

/// Encodes an index as a colour.
fn tag(index: usize) -> Color {
    let [.., red, green, blue] = index.to_be_bytes();
    Color::Rgb(red, green, blue)
}

fn number(tag: Color) -> Option<usize> {
    let Color::Rgb(red, green, blue) = tag else { return None };
    Some(usize::from(red) << 16 | usize::from(green) << 8 | usize::from(blue))
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::*;

    fn decorated(link: &str) -> (screen::Row, screen::Decoration) {
        let links = vec![Link { id: String::new(), uri: link.to_string() }];
        let decoration = screen::Decoration {
            start: 0,
            len: 1,
            underline: Underline::Curl,
            underline_color: TermColor::Indexed(1),
            link: 1,
        };
        (screen::Row { links, ..screen::Row::default() }, decoration)
    }

    #[test]
    fn equal_decorations_share_a_tag() {
        let mut all = Decorations::default();
        let mut put = |link: &str| {
            let (row, decoration) = decorated(link);
            all.register(&row, &decoration)
        };
        let (first, second) = (put("a"), put("b"));
        assert_ne!(first, second);
        assert_eq!((put("a"), put("b")), (first, second));
        let mut cell = Cell::EMPTY;
        assert_eq!(all.of(&cell), None);
        cell.underline_color = second;
        assert_eq!(all.of(&cell).unwrap().link.as_ref().unwrap().uri, "b");
    }

    #[test]
    fn unused_decorations_are_removed() {
        let mut all = Decorations::default();
        let mut shown = Buffer::empty(Rect::new(0, 0, 2, 1));
        for number in 0..2 * MAX_DECORATIONS {
            let (row, decoration) = decorated(&number.to_string());
            let tag = all.register(&row, &decoration);
            if number == TIDY_THRESHOLD + 1 {
                shown.content[1].underline_color = tag;
            }
        }
        assert_eq!(all.all.len(), MAX_DECORATIONS);
        all.tidy(&mut shown);
        assert_eq!((all.all.len(), shown.content[0].underline_color), (1, Color::Reset));
        assert_eq!(
            all.of(&shown.content[1]).unwrap().link.as_ref().unwrap().uri,
            (TIDY_THRESHOLD + 1).to_string()
        );
        let kept = shown.content[1].underline_color;
        all.tidy(&mut shown);
        assert_eq!(shown.content[1].underline_color, kept, "few");
    }
}
