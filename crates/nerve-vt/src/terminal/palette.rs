//! The colours of OSC 4, 10, 11 and 12: a dark theme and the program's changes.

use std::collections::BTreeMap;

use crate::screen::{Color, Style};

/// The colours of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellColors {
    /// Colour of the text.
    pub foreground: Rgb,
    /// Colour behind the text.
    pub background: Rgb,
}

/// Red, green and blue, 0–255 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// Colour index of the foreground; 0–255 are palette entries.
pub(super) const FOREGROUND: u16 = 256;
/// Colour index of the background.
pub(super) const BACKGROUND: u16 = 257;
/// Colour index of the cursor.
pub(super) const CURSOR: u16 = 258;

/// xterm's first 16 colours.
const NAMED: [Rgb; 16] = [
    Rgb(0, 0, 0),
    Rgb(205, 0, 0),
    Rgb(0, 205, 0),
    Rgb(205, 205, 0),
    Rgb(0, 0, 238),
    Rgb(205, 0, 205),
    Rgb(0, 205, 205),
    Rgb(229, 229, 229),
    Rgb(127, 127, 127),
    Rgb(255, 0, 0),
    Rgb(0, 255, 0),
    Rgb(255, 255, 0),
    Rgb(92, 92, 255),
    Rgb(255, 0, 255),
    Rgb(0, 255, 255),
    Rgb(255, 255, 255),
];

/// The palette as a program sees it.
#[derive(Debug, Default)]
pub(super) struct Palette {
    set: BTreeMap<u16, Rgb>,
}

impl Palette {
    /// Returns the current colour.
    pub(super) fn get(&self, index: u16) -> Rgb {
        self.set.get(&index).copied().unwrap_or_else(|| default(index))
    }

    /// Sets a colour; indices over [`CURSOR`] are ignored.
    pub(super) fn set(&mut self, index: u16, color: Rgb) {
        if index <= CURSOR {
            self.set.insert(index, color);
        }
    }

    /// Resets a colour to the theme.
    pub(super) fn reset(&mut self, index: u16) {
        self.set.remove(&index);
    }

    /// Resets all palette entries to the theme.
    pub(super) fn reset_entries(&mut self) {
        self.set.retain(|index, _| *index >= FOREGROUND);
    }

    /// Returns the colours of a cell with this style.
    pub(super) fn cell_colors(&self, style: Style) -> CellColors {
        let (foreground, background) =
            (self.resolve(style.fg, FOREGROUND), self.resolve(style.bg, BACKGROUND));
        match style.inverse {
            true => CellColors { foreground: background, background: foreground },
            false => CellColors { foreground, background },
        }
    }

    fn resolve(&self, color: Color, default: u16) -> Rgb {
        match color {
            Color::Default => self.get(default),
            Color::Indexed(index) => self.get(u16::from(index)),
            Color::Rgb(red, green, blue) => Rgb(red, green, blue),
        }
    }

    /// Returns the colours set by the program.
    pub(super) fn changed(&self) -> impl Iterator<Item = (u16, Rgb)> {
        self.set.iter().map(|(index, color)| (*index, *color))
    }
}

/// Returns a colour of the dark theme: xterm's 256 colours, light grey on nearly black.
fn default(index: u16) -> Rgb {
    match index {
        0..16 => NAMED[usize::from(index)],
        16..232 => {
            let level = |n: u16| if n == 0 { 0 } else { 55 + 40 * n as u8 };
            let n = index - 16;
            Rgb(level(n / 36), level(n / 6 % 6), level(n % 6))
        }
        232..=255 => {
            let grey = 8 + 10 * (index - 232) as u8;
            Rgb(grey, grey, grey)
        }
        BACKGROUND => Rgb(0x11, 0x11, 0x11),
        _ => Rgb(0xdd, 0xdd, 0xdd),
    }
}

/// Parses a colour in X11's `rgb:r/g/b` (1–4 hex digits each) or `#rgb` (1–4 each) form.
pub(super) fn parse(spec: &[u8]) -> Option<Rgb> {
    let spec = std::str::from_utf8(spec).ok()?;
    let scaled = |hex: &str| -> Option<u8> {
        if hex.is_empty() || hex.len() > 4 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let max = (1u32 << (4 * hex.len())) - 1;
        u8::try_from(u32::from_str_radix(hex, 16).ok()? * 255 / max).ok()
    };
    let parts: Vec<&str> = if let Some(hex) = spec.strip_prefix('#').filter(|hex| hex.is_ascii()) {
        let each = hex.len() / 3;
        (0..3).map(|i| hex.get(i * each..(i + 1) * each)).collect::<Option<_>>()?
    } else {
        spec.strip_prefix("rgb:")?.split('/').collect()
    };
    match parts.as_slice() {
        [r, g, b] => Some(Rgb(scaled(r)?, scaled(g)?, scaled(b)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_colour_forms_are_parsed() {
        assert_eq!(parse(b"rgb:ff/80/00"), Some(Rgb(255, 128, 0)));
        assert_eq!(parse(b"rgb:f/8/0"), Some(Rgb(255, 136, 0)));
        assert_eq!(parse(b"rgb:ffff/8080/0000"), Some(Rgb(255, 128, 0)));
        assert_eq!(parse(b"#ff8000"), Some(Rgb(255, 128, 0)));
        for bad in ["", "#", "rgb:", "rgb:1/2", "rgb:1/2/3/4", "rgb:12345/1/1", "red", "#ééé", "rgb:+1/1/1"]
        {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn cell_colors_follow_program_and_inversion() {
        let mut palette = Palette::default();
        palette.set(1, Rgb(1, 2, 3));
        let style = Style { fg: Color::Indexed(1), bg: Color::Rgb(9, 8, 7), ..Style::default() };
        let colors = CellColors { foreground: Rgb(1, 2, 3), background: Rgb(9, 8, 7) };
        assert_eq!(palette.cell_colors(style), colors);
        let inverse = palette.cell_colors(Style { inverse: true, ..style });
        assert_eq!((inverse.foreground, inverse.background), (colors.background, colors.foreground));
    }

    #[test]
    fn cube_and_greys_match_xterm() {
        assert_eq!(default(16), Rgb(0, 0, 0));
        assert_eq!(default(196), Rgb(255, 0, 0));
        assert_eq!(default(231), Rgb(255, 255, 255));
        assert_eq!(default(232), Rgb(8, 8, 8));
        assert_eq!(default(255), Rgb(238, 238, 238));
    }
}
