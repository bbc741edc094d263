//! Draws a recorded screen on the user's terminal: only changed rows, clipped to the terminal's size.

use std::fmt::Write;

use nerve_types::Size;
use nerve_vt::screen::Screen;

/// Draws successive screens with minimal output.
#[derive(Debug)]
pub(super) struct ScreenRenderer {
    size: Size,
    has_colors: bool,
    /// Content of each terminal row; `None` if unknown.
    shown: Vec<Option<String>>,
}

impl ScreenRenderer {
    /// Creates a renderer for a terminal of this size.
    pub(super) fn new(size: Size, has_colors: bool) -> ScreenRenderer {
        ScreenRenderer { size, has_colors, shown: vec![None; usize::from(size.rows)] }
    }

    /// Returns the bytes that draw `screen`. `status` replaces the last row, or the first if the cursor is in the
    /// last. A larger screen is clipped to its left columns and to rows that include the cursor.
    pub(super) fn draw(&mut self, screen: &Screen, status: Option<&str>) -> String {
        let Size { cols, rows } = self.size;
        let below = screen.size.rows.saturating_sub(rows);
        let top = (screen.cursor.row + 1).saturating_sub(rows).min(below);
        let row_of_status = if screen.cursor.row + 1 == top + rows { 0 } else { rows - 1 };
        let mut out = String::from("\x1b[?2026h\x1b[?25l");
        for row in 0..rows {
            let text = match (screen.rows.get(usize::from(top + row)), status) {
                (_, Some(status)) if row == row_of_status => status_line(status, cols),
                (Some(row), _) if self.has_colors => row.to_ansi(cols),
                (Some(row), _) => row.to_text(cols).to_string(),
                (None, _) => String::new(),
            };
            let shown = &mut self.shown[usize::from(row)];
            if shown.as_deref() != Some(&text) {
                // Erases before writing: erasing after the last column would delete that column.
                put(&mut out, format_args!("\x1b[{};1H\x1b[2K{text}", row + 1));
                *shown = Some(text);
            }
        }
        let (row, col) = (screen.cursor.row.wrapping_sub(top), screen.cursor.col);
        put(&mut out, format_args!("\x1b[{};{}H", row.min(rows - 1) + 1, col.min(cols - 1) + 1));
        if screen.cursor.visible && row < rows && col < cols && status.is_none() {
            out.push_str("\x1b[?25h");
        }
        out.push_str("\x1b[?2026l");
        out
    }
}

fn status_line(status: &str, cols: u16) -> String {
    let text: String = status.chars().take(usize::from(cols)).collect();
    format!("\x1b[7m{text}\x1b[0m")
}

fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(args);
}

#[cfg(test)]
mod tests {
    use nerve_types::TsNs;
    use nerve_vt::terminal::TerminalState;

    use super::*;

    fn fed(size: Size, bytes: &str) -> TerminalState {
        let mut terminal = TerminalState::new(size);
        terminal.process_data(TsNs(0), bytes.as_bytes());
        terminal
    }

    /// Returns the screen of a terminal after all these frames.
    fn shown(size: Size, frames: &[String]) -> Screen {
        let screen = fed(size, &format!("\x1b[?7l{}", frames.concat())).screen();
        Screen { offset: 0, ..screen }
    }

    #[test]
    fn terminal_shows_recorded_screen() {
        let size = Size::new(20, 4);
        let mut recorded = fed(size, "one\r\n\x1b[1;32mtwo\x1b[0m 日本\r\n");
        let mut renderer = ScreenRenderer::new(size, true);
        let mut frames = vec![renderer.draw(&recorded.screen(), None)];
        for more in ["three\r\n", "12345678901234567890", "\x1b[2;1H\x1b[Knew", "\x1b[?25l\r\nx\r\ny"] {
            recorded.process_data(TsNs(0), more.as_bytes());
            frames.push(renderer.draw(&recorded.screen(), None));
            let wanted = Screen { offset: 0, first_line: 0, ..recorded.screen() };
            let seen = shown(size, &frames);
            assert_eq!((seen.text(), seen.cursor), (wanted.text(), wanted.cursor), "after {more:?}");
            assert_eq!(seen.rows[1].runs, wanted.rows[1].runs);
        }
        let again = renderer.draw(&recorded.screen(), None);
        assert!(!again.contains("\x1b[2K"), "unchanged rows are not drawn: {again:?}");
    }

    #[test]
    fn smaller_terminal_shows_rows_with_cursor() {
        let recorded = fed(Size::new(20, 6), "1\r\n2\r\n3 is a long line\r\n4\r\n5").screen();
        let size = Size::new(8, 3);
        let seen = shown(size, &[ScreenRenderer::new(size, true).draw(&recorded, None)]);
        assert_eq!(seen.text(), "3 is a l\n4\n5");
        assert_eq!((seen.cursor.row, seen.cursor.col), (2, 1));
    }

    #[test]
    fn without_colours_only_text_is_drawn() {
        let size = Size::new(10, 2);
        let drawn = ScreenRenderer::new(size, false).draw(&fed(size, "\x1b[31mred").screen(), None);
        assert!(drawn.contains("\x1b[2Kred") && !drawn.contains("31m"), "{drawn:?}");
    }

    #[test]
    fn status_avoids_cursor_row_and_is_removed() {
        let size = Size::new(10, 2);
        let mut recorded = fed(size, "one\r\ntwo");
        let mut renderer = ScreenRenderer::new(size, true);
        let mut frames = vec![renderer.draw(&recorded.screen(), Some("paused, and more"))];
        assert_eq!(shown(size, &frames).text(), "paused, an\ntwo");
        recorded.process_data(TsNs(0), b"\x1b[H");
        frames.push(renderer.draw(&recorded.screen(), Some("paused")));
        assert_eq!(shown(size, &frames).text(), "one\npaused");
        frames.push(renderer.draw(&recorded.screen(), None));
        assert_eq!(shown(size, &frames).text(), "one\ntwo");
    }
}
