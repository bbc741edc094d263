//! SGR (ECMA-48 §8.3.117), applied to the cell template.

use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, NamedColor, Rgb};

use super::control_sequence::Params;

/// The blink flag: a bit that the engine, which does not support blinking, leaves unused.
pub(super) const BLINK: Flags = Flags::from_bits_retain(1 << 15);

const NO_FG: Color = Color::Named(NamedColor::Foreground);
const NO_BG: Color = Color::Named(NamedColor::Background);

/// Applies all parameters in order and skips unknown ones. A hyperlink is not a rendition and stays.
pub(super) fn apply(cell: &mut Cell, params: &Params) {
    let mut params = params.iter();
    while let Some(param) = params.next() {
        match *param {
            [38, ref rest @ ..] => {
                if let Some(color) = color(rest, &mut params) {
                    cell.fg = color;
                }
            }
            [48, ref rest @ ..] => {
                if let Some(color) = color(rest, &mut params) {
                    cell.bg = color;
                }
            }
            [58, ref rest @ ..] => {
                if let Some(color) = color(rest, &mut params) {
                    cell.set_underline_color(Some(color));
                }
            }
            [4, form] => underline(cell, form),
            [code] => simple(cell, code),
            _ => {}
        }
    }
}

fn simple(cell: &mut Cell, code: u16) {
    match code {
        0 => {
            cell.fg = NO_FG;
            cell.bg = NO_BG;
            cell.flags = Flags::empty();
            reset_underline_color(cell);
        }
        1 => cell.flags.insert(Flags::BOLD),
        2 => cell.flags.insert(Flags::DIM),
        3 => cell.flags.insert(Flags::ITALIC),
        4 => underline(cell, 1),
        5 | 6 => cell.flags.insert(BLINK),
        7 => cell.flags.insert(Flags::INVERSE),
        8 => cell.flags.insert(Flags::HIDDEN),
        9 => cell.flags.insert(Flags::STRIKEOUT),
        21 => underline(cell, 2),
        22 => cell.flags.remove(Flags::BOLD | Flags::DIM),
        23 => cell.flags.remove(Flags::ITALIC),
        24 => underline(cell, 0),
        25 => cell.flags.remove(BLINK),
        27 => cell.flags.remove(Flags::INVERSE),
        28 => cell.flags.remove(Flags::HIDDEN),
        29 => cell.flags.remove(Flags::STRIKEOUT),
        30..=37 => cell.fg = Color::Indexed((code - 30) as u8),
        39 => cell.fg = NO_FG,
        40..=47 => cell.bg = Color::Indexed((code - 40) as u8),
        49 => cell.bg = NO_BG,
        59 => reset_underline_color(cell),
        90..=97 => cell.fg = Color::Indexed((code - 82) as u8),
        100..=107 => cell.bg = Color::Indexed((code - 92) as u8),
        _ => {}
    }
}

fn reset_underline_color(cell: &mut Cell) {
    if cell.extra.is_some() {
        cell.set_underline_color(None);
    }
}

fn underline(cell: &mut Cell, form: u16) {
    cell.flags.remove(Flags::ALL_UNDERLINES);
    cell.flags.insert(match form {
        0 => Flags::empty(),
        2 => Flags::DOUBLE_UNDERLINE,
        3 => Flags::UNDERCURL,
        4 => Flags::DOTTED_UNDERLINE,
        5 => Flags::DASHED_UNDERLINE,
        _ => Flags::UNDERLINE,
    });
}

/// Parses the colour after 38, 48 or 58: `:2:[space:]r:g:b` or `:5:n` in the same parameter, otherwise `;2;r;g;b` or
/// `;5;n` in the next ones.
fn color<'a>(inner: &[u16], params: &mut impl Iterator<Item = &'a [u16]>) -> Option<Color> {
    let byte = |n: u16| u8::try_from(n).ok();
    match *inner {
        [2, r, g, b] | [2, _, r, g, b, ..] => rgb(byte(r), byte(g), byte(b)),
        [5, n, ..] => byte(n).map(Color::Indexed),
        [] => {
            let mut next = || params.next().and_then(|param| byte(*param.first()?));
            match next()? {
                2 => rgb(next(), next(), next()),
                5 => next().map(Color::Indexed),
                _ => None,
            }
        }
        _ => None,
    }
}

fn rgb(r: Option<u8>, g: Option<u8>, b: Option<u8>) -> Option<Color> {
    Some(Color::Spec(Rgb { r: r?, g: g?, b: b? }))
}
