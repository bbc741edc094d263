//! Draws underlines other than plain ones as shapes, because not every SVG renderer supports their text
//! decorations.

use std::fmt::Write;

use nerve_vt::screen::Underline;

use super::colors::Rgb;
use super::{BASE, WIDTH, number};

/// Distance from the baseline in pixels.
const BELOW: f64 = 2.5;

/// Draws an underline below `cols` columns from `col` on, in a row of cells whose top is `y`.
pub(super) fn draw(form: Underline, color: Rgb, (col, cols): (usize, usize), y: f64, out: &mut String) {
    let (x, end, y) = (col as f64 * WIDTH, (col + cols) as f64 * WIDTH, y + BASE + BELOW);
    let level = |y: f64| format!("M{} {}H{}", number(x), number(y), number(end));
    let (path, dashes) = match form {
        Underline::None => return,
        Underline::Single => (level(y), ""),
        Underline::Double => (level(y - 0.8) + &level(y + 1.2), ""),
        Underline::Dotted => (level(y), " stroke-dasharray=\"1.4\""),
        Underline::Dashed => (level(y), " stroke-dasharray=\"4.2\""),
        Underline::Curl => {
            let quarter = WIDTH / 4.0;
            let mut path = format!("M{} {}q{quarter} -3 {} 0", number(x), number(y), 2.0 * quarter);
            (1..2 * cols).for_each(|_| {
                // Writing to a string cannot fail.
                let _ = write!(path, "t{} 0", 2.0 * quarter);
            });
            (path, "")
        }
    };
    let _ = writeln!(out, "<path d=\"{path}\" stroke=\"{color}\"{dashes} fill=\"none\"/>");
}
