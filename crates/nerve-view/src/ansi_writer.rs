//! Cells as the bytes with which a terminal draws them.

use std::io::Write;

use nerve_term::screen::Color as TermColor;
use nerve_term::terminal::line::{Link, Underline};
use ratatui::buffer::{Cell, CellWidth};
use ratatui::style::{Color, Modifier};

use crate::decorations::Decorations;

/// The longest target of a hyperlink, in bytes; a longer one is none. What VTE and iTerm2 take.
const MAX_URI: usize = 2083;
/// A character's form as text, and as an emoji.
const SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];
/// The longest id of a hyperlink, in bytes.
const MAX_ID: usize = 250;

/// Adds the bytes for cells, which are given from left to right and from top to bottom. Before and after them the terminal has its usual look
/// and no hyperlink. Nothing in a cell or a hyperlink can drive the terminal. Without colours (`coloured`) underlines have none either.
pub fn write<'a>(
    cells: impl Iterator<Item = (u16, u16, &'a Cell)>,
    decorations: &Decorations,
    coloured: bool,
    out: &mut Vec<u8>,
) {
    let (at, covered, cell_style, link) = (None, None, None, None);
    let mut writer =
        AnsiWriter { out, decorations, coloured, at, covered, cell_style, look: Look::default(), link };
    cells.for_each(|(x, y, cell)| writer.write_cell(x, y, cell));
    writer.finish();
}

struct AnsiWriter<'a> {
    out: &'a mut Vec<u8>,
    decorations: &'a Decorations,
    coloured: bool,
    /// Where the terminal's cursor is for sure.
    at: Option<(u16, u16)>,
    /// The row of the cell before, and where that one ends.
    covered: Option<(u16, u16)>,
    /// Of the cell before, if that says how the next one begins.
    cell_style: Option<CellStyle>,
    look: Look,
    link: Option<&'a Link>,
}

/// What tells whether a cell looks as another one.
#[derive(Clone, Copy, PartialEq)]
struct CellStyle {
    fg: Color,
    bg: Color,
    modifier: Modifier,
    decoration: Color,
}

impl CellStyle {
    fn of(cell: &Cell) -> CellStyle {
        CellStyle { fg: cell.fg, bg: cell.bg, modifier: cell.modifier, decoration: cell.underline_color }
    }
}

#[derive(Clone, Copy, PartialEq, Default)]
struct Look {
    fg: Color,
    bg: Color,
    attributes: Attributes,
}

/// All of a look but the colours of text and background.
#[derive(Clone, Copy, PartialEq, Default)]
struct Attributes {
    modifier: Modifier,
    underline: Underline,
    color: TermColor,
}

impl AnsiWriter<'_> {
    fn write_cell(&mut self, x: u16, y: u16, cell: &Cell) {
        // Of a character with a variation selector what is behind it may be given too: it would be drawn into that.
        if self.covered.is_some_and(|(row, end)| row == y && x < end) {
            return;
        }
        if self.at != Some((x, y)) {
            self.end_hyperlink();
            self.move_to(x, y);
        }
        let cell_style = CellStyle::of(cell);
        if self.cell_style != Some(cell_style) {
            self.cell_style = Some(cell_style);
            self.set_style(cell);
        }
        let symbol = cell.symbol();
        if symbol.chars().any(char::is_control) {
            self.out.push(b' ');
            (self.at, self.covered) = (x.checked_add(1).map(|x| (x, y)), None);
            return;
        }
        let columns = cell.cell_width();
        if columns > 1 && symbol.contains(SELECTORS) {
            // A terminal for which it has one column keeps nothing of what was in the other one.
            (0..columns).for_each(|_| self.out.push(b' '));
            self.move_to(x, y);
        }
        self.out.extend_from_slice(symbol.as_bytes());
        // Terminals do not agree on how wide a character is: the cursor is moved behind those that are not one column wide.
        let is_one = columns == 1 && symbol.cell_width() == 1;
        self.at = x.checked_add(1).filter(|_| is_one).map(|x| (x, y));
        self.covered = Some((y, x.saturating_add(columns)));
    }

    fn move_to(&mut self, x: u16, y: u16) {
        // Writing to memory cannot fail: so with all that follow.
        let _ = write!(self.out, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1);
    }

    fn set_style(&mut self, cell: &Cell) {
        let decoration = self.decorations.of(cell);
        let link = decoration.and_then(|decoration| decoration.link.as_ref());
        if link != self.link {
            self.link = link;
            hyperlink(link, self.out);
        }
        let mut attributes = Attributes { modifier: cell.modifier, ..Attributes::default() };
        if cell.modifier.contains(Modifier::UNDERLINED) {
            attributes.underline = Underline::Single;
            if let Some(decoration) = decoration {
                attributes.underline = decoration.underline;
                attributes.color = if self.coloured { decoration.color } else { TermColor::Default };
            }
        }
        let look = Look { fg: cell.fg, bg: cell.bg, attributes };
        if look == self.look {
            return;
        }
        let before = std::mem::replace(&mut self.look, look);
        let is_reset = attributes != before.attributes;
        let (fg, bg) = if is_reset { (Color::Reset, Color::Reset) } else { (before.fg, before.bg) };
        self.out.extend_from_slice(b"\x1b[");
        if is_reset {
            self.out.extend_from_slice(b"0;");
            let set = MODIFIERS.iter().filter(|(modifier, _)| attributes.modifier.contains(*modifier));
            set.for_each(|(_, code)| self.out.extend_from_slice(&[*code, b';']));
        }
        if look.fg != fg {
            color(look.fg, 30, self.out);
        }
        if look.bg != bg {
            color(look.bg, 40, self.out);
        }
        // One parameter there is: the last one has no semicolon behind it.
        self.out.pop();
        self.out.push(b'm');
        if is_reset {
            underline(attributes, self.out);
        }
    }

    /// Ends the hyperlink.
    fn end_hyperlink(&mut self) {
        if self.link.take().is_some() {
            hyperlink(None, self.out);
            self.cell_style = None;
        }
    }

    /// Ends hyperlink and look.
    fn finish(mut self) {
        self.end_hyperlink();
        if self.look != Look::default() {
            self.out.extend_from_slice(b"\x1b[0m");
        }
    }
}

/// ECMA-48 §8.3.117.
const MODIFIERS: [(Modifier, u8); 9] = [
    (Modifier::BOLD, b'1'),
    (Modifier::DIM, b'2'),
    (Modifier::ITALIC, b'3'),
    (Modifier::UNDERLINED, b'4'),
    (Modifier::SLOW_BLINK, b'5'),
    (Modifier::RAPID_BLINK, b'6'),
    (Modifier::REVERSED, b'7'),
    (Modifier::HIDDEN, b'8'),
    (Modifier::CROSSED_OUT, b'9'),
];

/// Parameters for a colour, each with a semicolon behind it; those of text begin at 30, those of the background at 40.
fn color(color: Color, base: u8, out: &mut Vec<u8>) {
    let _ = match color {
        Color::Reset => write!(out, "{};", base + 9),
        Color::Rgb(red, green, blue) => write!(out, "{};2;{red};{green};{blue};", base + 8),
        named => write!(out, "{};5;{};", base + 8, index(named)),
    };
}

/// Its number in the palette.
fn index(color: Color) -> u8 {
    match color {
        Color::Reset | Color::Rgb(..) | Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
        Color::Indexed(index) => index,
    }
}

/// The form of an underline and its colour where they are not the usual ones. In sequences of their own: a terminal that does not know them leaves
/// out all of a sequence, and has a plain underline then.
fn underline(attributes: Attributes, out: &mut Vec<u8>) {
    let form = match attributes.underline {
        Underline::None | Underline::Single => None,
        Underline::Double => Some(2),
        Underline::Curl => Some(3),
        Underline::Dotted => Some(4),
        Underline::Dashed => Some(5),
    };
    if let Some(form) = form {
        let _ = write!(out, "\x1b[4:{form}m");
    }
    let _ = match attributes.color {
        TermColor::Default => Ok(()),
        TermColor::Indexed(index) => write!(out, "\x1b[58:5:{index}m"),
        TermColor::Rgb(red, green, blue) => write!(out, "\x1b[58:2::{red}:{green}:{blue}m"),
    };
}

/// Begins a hyperlink ("Hyperlinks in terminal emulators", OSC 8); `None` ends the one that there is.
fn hyperlink(link: Option<&Link>, out: &mut Vec<u8>) {
    let target = link.and_then(|link| Some((link, target(&link.uri)?)));
    let _ = match target {
        Some((link, target)) => write!(out, "\x1b]8;id={};{target}\x1b\\", id(link)),
        None => write!(out, "\x1b]8;;\x1b\\"),
    };
}

/// A target as it is written: what is not printable ASCII is percent-encoded. `None` if nothing can lead there.
fn target(uri: &str) -> Option<String> {
    let mut target = String::with_capacity(uri.len());
    for byte in uri.bytes() {
        match byte {
            b' '..=b'~' => target.push(char::from(byte)),
            _ => target.push_str(&format!("%{byte:02X}")),
        }
    }
    (1..=MAX_URI).contains(&target.len()).then_some(target)
}

/// What tells a terminal which cells are of one link. Pieces of it are drawn at several times, so that one is made up where the program gave
/// none: of the target (FNV-1a), which is the same in all frames.
fn id(link: &Link) -> String {
    let is_known = (1..=MAX_ID).contains(&link.id.len());
    if is_known && link.id.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b":;".contains(&byte)) {
        return link.id.clone();
    }
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("nerve-{:016x}", link.id.bytes().chain(link.uri.bytes()).fold(0xcbf2_9ce4_8422_2325, hash))
}

#[cfg(test)]
mod tests;
