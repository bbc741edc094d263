//! Encodes the difference between two frames.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nerve_types::Size;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

use crate::view::ansi_writer;
use crate::view::decorations::Decorations;

/// Maximum length of a title in characters.
const TITLE: usize = 200;

/// A visible cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Column, 0-based.
    pub col: u16,
    /// Row, 0-based.
    pub row: u16,
    /// DECSCUSR style 0–6; 0 is the default.
    pub style: u16,
}

/// The terminal's content as last written.
pub(super) struct Screen {
    shown: Buffer,
    next: Buffer,
    /// Decorations of both buffers.
    decorations: Decorations,
    /// The terminal's content is unknown.
    needs_full_draw: bool,
    cursor: Option<Cursor>,
    style: u16,
    title: String,
    /// The window has the current title.
    has_title: bool,
}

impl Screen {
    pub(super) fn new() -> Screen {
        let buffer = Buffer::empty(Rect::ZERO);
        Screen {
            shown: buffer.clone(),
            next: buffer,
            decorations: Decorations::default(),
            needs_full_draw: true,
            cursor: None,
            style: 0,
            title: String::new(),
            has_title: true,
        }
    }

    /// Marks the content as unknown.
    pub(super) fn invalidate(&mut self) {
        (self.needs_full_draw, self.style, self.has_title) = (true, 0, self.title.is_empty());
    }

    /// Returns the sequence that sets the title again, if there was one.
    pub(super) fn restore_title(&mut self) -> Option<Vec<u8>> {
        let title = self.title.clone();
        self.title(&title)
    }

    /// Returns the bytes of the next frame as one synchronized update; empty without changes.
    pub(super) fn frame(
        &mut self,
        size: Size,
        has_colors: bool,
        draw: impl FnOnce(&mut Buffer, &mut Decorations) -> Option<Cursor>,
    ) -> Vec<u8> {
        let area = Rect::new(0, 0, size.cols, size.rows);
        self.needs_full_draw |= area != self.shown.area;
        if area == self.next.area {
            self.next.reset()
        } else {
            self.next = Buffer::empty(area)
        }
        if self.needs_full_draw {
            self.shown = Buffer::empty(area);
        }
        self.decorations.tidy(&mut self.shown);
        let cursor = draw(&mut self.next, &mut self.decorations);
        if !has_colors {
            for cell in &mut self.next.content {
                (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            }
        }
        let mut changes = self.shown.diff_iter(&self.next).peekable();
        let has_changes = changes.peek().is_some();
        if !has_changes && !self.needs_full_draw && cursor == self.cursor {
            return Vec::new();
        }
        // Hides the cursor while drawing.
        let mut bytes = b"\x1b[?2026h\x1b[?25l".to_vec();
        if self.needs_full_draw {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
        }
        ansi_writer::write(changes, &self.decorations, has_colors, &mut bytes);
        if let Some(Cursor { col, row, style }) = cursor {
            if style != self.style {
                bytes.extend_from_slice(format!("\x1b[{style} q").as_bytes());
                self.style = style;
            }
            bytes.extend_from_slice(format!("\x1b[{};{}H\x1b[?25h", row + 1, col + 1).as_bytes());
        }
        bytes.extend_from_slice(b"\x1b[?2026l");
        std::mem::swap(&mut self.shown, &mut self.next);
        (self.cursor, self.needs_full_draw) = (cursor, false);
        bytes
    }

    /// Returns the sequence for a changed title, without control characters.
    pub(super) fn title(&mut self, title: &str) -> Option<Vec<u8>> {
        let title: String = title.chars().filter(|c| !c.is_control()).take(TITLE).collect();
        if title == self.title && self.has_title {
            return None;
        }
        let bytes = format!("\x1b]2;{title}\x1b\\").into_bytes();
        (self.title, self.has_title) = (title, true);
        Some(bytes)
    }
}

/// Returns the sequence that sets the clipboard (OSC 52).
pub(super) fn copied(text: &str) -> Vec<u8> {
    format!("\x1b]52;c;{}\x1b\\", STANDARD.encode(text)).into_bytes()
}

#[cfg(test)]
mod tests {
    use nerve_types::TsNs;
    use nerve_vt::terminal::TerminalState;

    use super::*;

    const SIZE: Size = Size { cols: 20, rows: 3 };

    fn text(text: &'static str) -> impl FnOnce(&mut Buffer, &mut Decorations) -> Option<Cursor> {
        move |buffer, _| {
            buffer.set_string(0, 0, text, ratatui::style::Style::new());
            Some(Cursor { col: 2, row: 1, style: 5 })
        }
    }

    #[test]
    fn writes_only_changes() {
        let (mut screen, mut terminal) = (Screen::new(), TerminalState::new(SIZE));
        terminal.process_data(TsNs(0), b"something else\r\nand more");
        let mut shows = |screen: &mut Screen, size, words| {
            let bytes = screen.frame(size, true, text(words));
            terminal.process_data(TsNs(0), &bytes);
            (bytes.len(), terminal.screen().text().trim_end().to_string(), terminal.screen().cursor)
        };
        let (_, shown, cursor) = shows(&mut screen, SIZE, "世界 and so on");
        assert_eq!((shown.as_str(), cursor.row, cursor.col), ("世界 and so on", 1, 2));
        let (first, ..) = shows(&mut screen, SIZE, "世界 and so on");
        assert_eq!(first, 0, "nothing has changed");
        let (second, shown, _) = shows(&mut screen, SIZE, "世界 and so up");
        assert!(second < 100 && shown == "世界 and so up", "{second} bytes: {shown}");
        screen.invalidate();
        let (third, ..) = shows(&mut screen, SIZE, "世界 and so up");
        assert!(third > second, "all of it once more");
    }

    #[test]
    fn title_control_characters_are_removed() {
        let mut screen = Screen::new();
        let bytes = screen.title("a\x1b]0;b\x07c\u{9c}d").unwrap();
        assert_eq!(bytes, b"\x1b]2;a]0;bcd\x1b\\");
        assert_eq!(screen.title("a]0;bcd"), None, "it has that name");
        assert!(screen.title(&"x".repeat(10_000)).unwrap().len() < 300);
    }

    #[test]
    fn title_is_set_again_after_invalidation() {
        let mut screen = Screen::new();
        screen.invalidate();
        assert_eq!((screen.title(""), screen.restore_title()), (None, None), "it had none");
        let named = screen.title("a").unwrap();
        assert_eq!(screen.restore_title(), None);
        for _ in 0..2 {
            screen.invalidate();
            assert_eq!(screen.restore_title().as_ref(), Some(&named));
        }
        screen.invalidate();
        assert_eq!((screen.title("a"), screen.restore_title()), (Some(named), None));
    }

    #[test]
    fn copies_with_osc_52() {
        assert_eq!(copied("hello"), b"\x1b]52;c;aGVsbG8=\x1b\\");
    }
}
