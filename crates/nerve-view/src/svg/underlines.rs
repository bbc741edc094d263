//! Underlines that are not plain ones: shapes, for not all that show pictures know them as a text's.

use std::fmt::Write;

use nerve_term::terminal::line::Underline;

use super::colors::Rgb;
use super::{BASE, WIDTH, number};

/// Below the line that letters stand on.
const BELOW: f64 = 2.5;

/// Draws one below so many columns from `col` on, in a row of cells that begins at `y`.
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
