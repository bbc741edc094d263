//! Encodes cells as escape sequences for a terminal.

use std::io::Write;

use nerve_vt::screen::Color as TermColor;
use nerve_vt::screen::{Link, Underline};
use ratatui::buffer::{Cell, CellWidth};
use ratatui::style::{Color, Modifier};

use crate::view::decorations::Decorations;

/// Longest hyperlink target in bytes, as in VTE and iTerm2. Longer targets are omitted.
const MAX_URI: usize = 2083;
/// Variation selectors for text and emoji presentation.
const SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];
/// Longest hyperlink id in bytes.
const MAX_ID: usize = 250;

/// Appends the escape sequences for cells, which must be ordered from left to right and from top to bottom. The
/// terminal starts and ends with default attributes and no hyperlink. Control characters in cells and links are
/// never passed on. Without `has_colors`, underlines have no colour.
pub fn write<'a>(
    cells: impl Iterator<Item = (u16, u16, &'a Cell)>,
    decorations: &Decorations,
    has_colors: bool,
    out: &mut Vec<u8>,
) {
    let (at, covered, cell_style, link) = (None, None, None, None);
    let mut writer =
        AnsiWriter { out, decorations, has_colors, at, covered, cell_style, look: Look::default(), link };
    cells.for_each(|(x, y, cell)| writer.write_cell(x, y, cell));
    writer.finish();
}

struct AnsiWriter<'a> {
    out: &'a mut Vec<u8>,
    decorations: &'a Decorations,
    has_colors: bool,
    /// Known position of the terminal's cursor.
    at: Option<(u16, u16)>,
    /// Row of the previous cell, and the column after it.
    covered: Option<(u16, u16)>,
    /// Style of the previous cell, if the terminal still has it.
    cell_style: Option<CellStyle>,
    look: Look,
    link: Option<&'a Link>,
}

/// The attributes that decide whether two cells look alike.
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

/// All attributes except the text and background colours.
#[derive(Clone, Copy, PartialEq, Default)]
struct Attributes {
    modifier: Modifier,
    underline: Underline,
    color: TermColor,
}

impl AnsiWriter<'_> {
    fn write_cell(&mut self, x: u16, y: u16, cell: &Cell) {
        // The diff may include the column after a character with a variation selector; drawing it would overwrite
        // that character.
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
            // Clears both columns first, for terminals in which the character is one column wide.
            (0..columns).for_each(|_| self.out.push(b' '));
            self.move_to(x, y);
        }
        self.out.extend_from_slice(symbol.as_bytes());
        // Terminals disagree on character widths, so the cursor is positioned explicitly after any character that
        // is not one column wide.
        let is_one = columns == 1 && symbol.cell_width() == 1;
        self.at = x.checked_add(1).filter(|_| is_one).map(|x| (x, y));
        self.covered = Some((y, x.saturating_add(columns)));
    }

    fn move_to(&mut self, x: u16, y: u16) {
        // Writing to memory cannot fail; this holds for the writes below too.
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
                attributes.color = if self.has_colors { decoration.color } else { TermColor::Default };
            }
        }
        let look = Look { fg: cell.fg, bg: cell.bg, attributes };
        if look == self.look {
            return;
        }
        let previous = std::mem::replace(&mut self.look, look);
        let is_reset = attributes != previous.attributes;
        let (fg, bg) = if is_reset { (Color::Reset, Color::Reset) } else { (previous.fg, previous.bg) };
        self.out.extend_from_slice(b"\x1b[");
        if is_reset {
            self.out.extend_from_slice(b"0;");
            let modifiers = MODIFIERS.iter().filter(|(modifier, _)| attributes.modifier.contains(*modifier));
            modifiers.for_each(|(_, code)| self.out.extend_from_slice(&[*code, b';']));
        }
        if look.fg != fg {
            color(look.fg, 30, self.out);
        }
        if look.bg != bg {
            color(look.bg, 40, self.out);
        }
        // Removes the semicolon after the last parameter.
        self.out.pop();
        self.out.push(b'm');
        if is_reset {
            underline(attributes, self.out);
        }
    }

    fn end_hyperlink(&mut self) {
        if self.link.take().is_some() {
            hyperlink(None, self.out);
            self.cell_style = None;
        }
    }

    /// Ends the hyperlink and resets the attributes.
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

/// Appends the parameters of a colour, each followed by a semicolon. `base` is 30 for text, 40 for the background.
fn color(color: Color, base: u8, out: &mut Vec<u8>) {
    let _ = match color {
        Color::Reset => write!(out, "{};", base + 9),
        Color::Rgb(red, green, blue) => write!(out, "{};2;{red};{green};{blue};", base + 8),
        named => write!(out, "{};5;{};", base + 8, index(named)),
    };
}

/// Returns the palette index.
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

/// Appends the underline's form and colour if they are not the default. Each gets its own sequence: terminals that
/// do not know it ignore it and show a plain underline.
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

/// Begins a hyperlink (OSC 8, "Hyperlinks in terminal emulators"), or ends it for `None`.
fn hyperlink(link: Option<&Link>, out: &mut Vec<u8>) {
    let target = link.and_then(|link| Some((link, target(&link.uri)?)));
    let _ = match target {
        Some((link, target)) => write!(out, "\x1b]8;id={};{target}\x1b\\", id(link)),
        None => write!(out, "\x1b]8;;\x1b\\"),
    };
}

/// Schemes of targets that reach the user's terminal. Others could start any program that has registered one.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "file"];

/// Percent-encodes all but printable ASCII. Returns `None` for a too long target or another scheme than [`SCHEMES`].
fn target(uri: &str) -> Option<String> {
    let (scheme, _) = uri.split_once(':')?;
    SCHEMES.iter().find(|allowed| scheme.eq_ignore_ascii_case(allowed))?;
    let mut target = String::with_capacity(uri.len());
    for byte in uri.bytes() {
        match byte {
            b' '..=b'~' => target.push(char::from(byte)),
            _ => target.push_str(&format!("%{byte:02X}")),
        }
    }
    (1..=MAX_URI).contains(&target.len()).then_some(target)
}

/// Returns the id that groups the cells of one link. If the program gave none, it is the FNV-1a hash of the target,
/// so that pieces drawn in different frames belong together.
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
