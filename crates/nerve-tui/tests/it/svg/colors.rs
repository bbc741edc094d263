//! The colours of a typical dark terminal.

use std::fmt;

use nerve_vt::screen::Color as TermColor;
use ratatui::style::Color;

/// A colour as red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rgb(pub(super) u8, pub(super) u8, pub(super) u8);

pub(super) const BACKGROUND: Rgb = Rgb(0x1b, 0x1f, 0x27);
pub(super) const FOREGROUND: Rgb = Rgb(0xd8, 0xde, 0xe9);

/// The 16 named colours.
const NAMED: [Rgb; 16] = [
    Rgb(0x2e, 0x34, 0x40),
    Rgb(0xd7, 0x5f, 0x6b),
    Rgb(0x8f, 0xbf, 0x6f),
    Rgb(0xe5, 0xc0, 0x6b),
    Rgb(0x5f, 0x9f, 0xdf),
    Rgb(0xb8, 0x8c, 0xd6),
    Rgb(0x5f, 0xc0, 0xc8),
    Rgb(0xc8, 0xce, 0xd8),
    Rgb(0x6b, 0x73, 0x82),
    Rgb(0xef, 0x7f, 0x8a),
    Rgb(0xa9, 0xd6, 0x8c),
    Rgb(0xf3, 0xd4, 0x8a),
    Rgb(0x86, 0xbc, 0xf0),
    Rgb(0xd0, 0xab, 0xea),
    Rgb(0x86, 0xd8, 0xde),
    Rgb(0xf4, 0xf6, 0xfa),
];

impl Rgb {
    /// Mixes with another colour, as for dim text on its background.
    pub(super) fn towards(self, other: Rgb) -> Rgb {
        let mix = |a: u8, b: u8| u8::try_from((u16::from(a) * 11 + u16::from(b) * 9) / 20).unwrap_or(a);
        Rgb(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// Returns a colour of the terminal model; `None` for the default.
pub(super) fn of_terminal(color: TermColor) -> Option<Rgb> {
    match color {
        TermColor::Default => None,
        TermColor::Indexed(index) => of(Color::Indexed(index)),
        TermColor::Rgb(red, green, blue) => Some(Rgb(red, green, blue)),
    }
}

/// Returns a colour; `None` for the terminal's default.
pub(super) fn of(color: Color) -> Option<Rgb> {
    const ORDER: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    match color {
        Color::Reset => None,
        Color::Rgb(red, green, blue) => Some(Rgb(red, green, blue)),
        Color::Indexed(index) => Some(indexed(index)),
        named => ORDER.iter().position(|color| *color == named).map(|index| NAMED[index]),
    }
}

/// Returns a colour of xterm's palette: 16 named ones, a 6 × 6 × 6 cube, 24 greys.
fn indexed(index: u8) -> Rgb {
    let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
    match index {
        0..16 => NAMED[usize::from(index)],
        16..232 => {
            let cube = index - 16;
            Rgb(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        232.. => {
            let grey = 8 + (index - 232) * 10;
            Rgb(grey, grey, grey)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palette_is_xterms() {
        let colors = [16, 21, 196, 231, 232, 255].map(|index| indexed(index).to_string());
        assert_eq!(colors, ["#000000", "#0000ff", "#ff0000", "#ffffff", "#080808", "#eeeeee"]);
        assert_eq!(of(Color::Red), Some(indexed(1)));
        assert_eq!(of(Color::Reset), None);
    }
}
