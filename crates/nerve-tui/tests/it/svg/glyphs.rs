//! Draws box and block characters as shapes, so that they join whatever the font and line height.

use std::fmt::Write;

use super::colors::Rgb;
use super::{HEIGHT, WIDTH, number};

/// Returns the character if it is drawn as a shape.
pub(super) fn is_drawn(symbol: &str) -> Option<char> {
    let mut chars = symbol.chars();
    let char = chars.next().filter(|_| chars.next().is_none())?;
    (arms(char).is_some() || dashes(char).is_some() || blocks(char).is_some()).then_some(char)
}

/// Draws a character `times` times side by side.
pub(super) fn draw(char: char, x: f64, y: f64, times: usize, color: Rgb, out: &mut String) {
    if let Some(blocks) = blocks(char) {
        fill(&blocks, x, y, times, color, out);
        return;
    }
    let (x_end, middle) = (x + times as f64 * WIDTH, y + HEIGHT / 2.0);
    let mut path = String::new();
    let mut dash = String::new();
    let mut is_heavy = false;
    // Writing to a string cannot fail.
    if let Some((pieces, heavy)) = dashes(char) {
        is_heavy = heavy;
        let piece = WIDTH / f64::from(pieces);
        dash = format!(" stroke-dasharray=\"{} {}\"", number(piece * 0.6), number(piece * 0.4));
        let _ = write!(path, "M{} {}H{}", number(x), number(middle), number(x_end));
    } else if let Some((arms, heavy)) = arms(char) {
        is_heavy = heavy;
        if arms == [false, true, false, true] {
            let _ = write!(path, "M{} {}H{}", number(x), number(middle), number(x_end));
        } else {
            for cell in 0..times {
                lines(arms, is_round(char), x + cell as f64 * WIDTH, y, &mut path);
            }
        }
    }
    let width = if is_heavy { "2.4" } else { "1.2" };
    let _ =
        writeln!(out, "<path d=\"{path}\" stroke=\"{color}\" stroke-width=\"{width}\"{dash} fill=\"none\"/>");
}

/// Draws lines from the middle of a cell to its sides.
fn lines([up, right, down, left]: [bool; 4], is_round: bool, x: f64, y: f64, path: &mut String) {
    let (middle_x, middle_y) = (x + WIDTH / 2.0, y + HEIGHT / 2.0);
    let end_y = if up { y } else { y + HEIGHT };
    let end_x = if right { x + WIDTH } else { x };
    if is_round {
        let points = [middle_x, end_y, middle_x, middle_y, end_x, middle_y].map(number);
        let [a, b, c, d, e, f] = points;
        let _ = write!(path, "M{a} {b}Q{c} {d} {e} {f}");
        return;
    }
    let (top, bottom) = (if up { y } else { middle_y }, if down { y + HEIGHT } else { middle_y });
    let (start, end) = (if left { x } else { middle_x }, if right { x + WIDTH } else { middle_x });
    if up || down {
        let _ = write!(path, "M{} {}V{}", number(middle_x), number(top), number(bottom));
    }
    if left || right {
        let _ = write!(path, "M{} {}H{}", number(start), number(middle_y), number(end));
    }
}

/// Returns the sides that a line reaches (up, right, down, left), and whether it is heavy.
fn arms(char: char) -> Option<([bool; 4], bool)> {
    let (sides, is_heavy) = match char {
        '─' => (0b0101, false),
        '━' => (0b0101, true),
        '│' => (0b1010, false),
        '┃' => (0b1010, true),
        '┌' | '╭' => (0b0110, false),
        '┐' | '╮' => (0b0011, false),
        '└' | '╰' => (0b1100, false),
        '┘' | '╯' => (0b1001, false),
        '├' => (0b1110, false),
        '┤' => (0b1011, false),
        '┬' => (0b0111, false),
        '┴' => (0b1101, false),
        '┼' => (0b1111, false),
        _ => return None,
    };
    Some(([8, 4, 2, 1].map(|side| sides & side != 0), is_heavy))
}

fn is_round(char: char) -> bool {
    matches!(char, '╭' | '╮' | '╰' | '╯')
}

/// Returns the number of dashes, and whether the line is heavy.
fn dashes(char: char) -> Option<(u32, bool)> {
    match char {
        '╌' => Some((2, false)),
        '┄' => Some((3, false)),
        '┅' => Some((3, true)),
        '┈' => Some((4, false)),
        _ => None,
    }
}

/// A rectangle relative to the cell (left, top, width, height), and its opacity.
type Block = ([f64; 4], f64);

fn blocks(char: char) -> Option<Vec<Block>> {
    const WHOLE: [f64; 4] = [0.0, 0.0, 1.0, 1.0];
    let eighths = |first: u32| f64::from(u32::from(char) - first + 1) / 8.0;
    let rest = |first: u32| 1.0 - f64::from(u32::from(char) - first) / 8.0;
    let one = |block: [f64; 4]| Some(vec![(block, 1.0)]);
    match char {
        '▀' => one([0.0, 0.0, 1.0, 0.5]),
        '▁'..='█' => one([0.0, 1.0 - eighths(0x2581), 1.0, eighths(0x2581)]),
        '▉'..='▏' => one([0.0, 0.0, rest(0x2588), 1.0]),
        '▐' => one([0.5, 0.0, 0.5, 1.0]),
        '░' => Some(vec![(WHOLE, 0.25)]),
        '▒' => Some(vec![(WHOLE, 0.5)]),
        '▓' => Some(vec![(WHOLE, 0.75)]),
        '▔' => one([0.0, 0.0, 1.0, 0.125]),
        '▕' => one([0.875, 0.0, 0.125, 1.0]),
        '▖'..='▟' => {
            // Upper left, upper right, lower left, lower right.
            const QUARTERS: [u8; 10] =
                [0b0010, 0b0001, 0b1000, 0b1011, 0b1001, 0b1110, 0b1101, 0b0100, 0b0110, 0b0111];
            let quarters = QUARTERS[usize::try_from(u32::from(char) - 0x2596).ok()?];
            let regions = [(8, 0.0, 0.0), (4, 0.5, 0.0), (2, 0.0, 0.5), (1, 0.5, 0.5)];
            let there = regions.iter().filter(|(bit, ..)| quarters & bit != 0);
            Some(there.map(|(_, x, y)| ([*x, *y, 0.5, 0.5], 1.0)).collect())
        }
        _ => None,
    }
}

fn fill(blocks: &[Block], x: f64, y: f64, times: usize, color: Rgb, out: &mut String) {
    for ([left, top, width, height], cover) in blocks {
        let is_wide = *left == 0.0 && *width == 1.0;
        let (cells, cols) = if is_wide { (1, times as f64) } else { (times, 1.0) };
        for cell in 0..cells {
            let (x, y) = (x + (cell as f64 + left) * WIDTH, y + top * HEIGHT);
            let [x, y, width, height] = [x, y, width * WIDTH * cols, height * HEIGHT].map(number);
            let opacity = if *cover < 1.0 { format!(" fill-opacity=\"{cover}\"") } else { String::new() };
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"{opacity} shape-rendering=\"crispEdges\"/>"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_right_area() {
        let block = |char| blocks(char).unwrap();
        assert_eq!(block('█'), [([0.0, 0.0, 1.0, 1.0], 1.0)]);
        assert_eq!(block('▄'), [([0.0, 0.5, 1.0, 0.5], 1.0)]);
        assert_eq!(block('▌'), [([0.0, 0.0, 0.5, 1.0], 1.0)]);
        assert_eq!(block('▏'), [([0.0, 0.0, 0.125, 1.0], 1.0)]);
        assert_eq!(block('▚'), [([0.0, 0.0, 0.5, 0.5], 1.0), ([0.5, 0.5, 0.5, 0.5], 1.0)]);
        assert_eq!(block('▝'), [([0.5, 0.0, 0.5, 0.5], 1.0)]);
        assert_eq!(block('▜').len(), 3);
    }

    #[test]
    fn letters_are_not_shapes() {
        assert_eq!(["a", "●", "▶", "é", "─x", ""].map(is_drawn), [None; 6]);
        assert_eq!(is_drawn("╭"), Some('╭'));
    }
}
