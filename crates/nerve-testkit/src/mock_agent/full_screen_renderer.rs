//! The full-screen renderer: uses the alternate screen and rewrites changed rows at absolute positions.

use std::collections::VecDeque;

use super::line::Line;
use super::screen::{Frame, Renderer, ScreenSize};

/// Conversation lines kept for a taller screen.
const KEPT: usize = 2000;

pub(super) struct FullScreenRenderer {
    size: ScreenSize,
    conversation: VecDeque<Line>,
    /// The rows as last drawn.
    rows: Vec<Line>,
    /// Cursor position as last drawn: row and column.
    cursor: (usize, usize),
    last_pending: Option<usize>,
}

impl FullScreenRenderer {
    pub(super) fn new(size: ScreenSize) -> FullScreenRenderer {
        FullScreenRenderer {
            size,
            conversation: VecDeque::new(),
            rows: Vec::new(),
            cursor: (0, 0),
            last_pending: None,
        }
    }

    /// Composes the screen: the conversation at the top, the composer at the bottom.
    fn compose(&mut self, frame: Frame) -> (Vec<Line>, (usize, usize)) {
        self.conversation.extend(frame.settled);
        let excess = self.conversation.len().saturating_sub(KEPT);
        self.conversation.drain(..excess);

        let clipped = frame.bottom.len().saturating_sub(self.size.rows);
        let bottom = &frame.bottom[clipped..];
        let room = self.size.rows - bottom.len();
        let all = self.conversation.len() + frame.pending.len();
        let lines = self.conversation.iter().chain(&frame.pending).skip(all.saturating_sub(room));
        let mut rows: Vec<Line> = lines.take(room).cloned().collect();
        self.last_pending = if frame.pending.is_empty() { None } else { rows.len().checked_sub(1) };
        rows.resize(room, Line::blank());
        rows.extend(bottom.iter().cloned());
        (rows, (room + frame.cursor.0.saturating_sub(clipped), frame.cursor.1))
    }

    fn park(&self, out: &mut Vec<u8>) {
        position(self.cursor.0, self.cursor.1, out);
    }
}

impl Renderer for FullScreenRenderer {
    fn start(&mut self, out: &mut Vec<u8>) {
        // Without automatic wrap, a line that is too long after a resize does not move its neighbours.
        out.extend_from_slice(b"\x1b[?1049h\x1b[2J\x1b[H\x1b[?7l\x1b[?25l");
    }

    fn draw(&mut self, frame: Frame, out: &mut Vec<u8>) {
        let (rows, cursor) = self.compose(frame);
        let mut drawn = cursor != self.cursor;
        for (at, row) in rows.iter().enumerate() {
            if self.rows.get(at) != Some(row) {
                position(at, 0, out);
                out.extend_from_slice(b"\x1b[2K");
                out.extend_from_slice(row.bytes());
                drawn = true;
            }
        }
        self.rows = rows;
        self.cursor = cursor;
        if drawn {
            self.park(out);
        }
    }

    fn overwrite(&mut self, updates: Vec<Line>, out: &mut Vec<u8>) {
        let (Some(row), Some(last)) = (self.last_pending, updates.last().cloned()) else { return };
        position(row, 0, out);
        for update in &updates {
            out.push(b'\r');
            out.extend_from_slice(update.bytes());
        }
        self.rows[row] = last;
        self.park(out);
    }

    fn resize(&mut self, size: ScreenSize) {
        self.size = size;
        self.rows.clear();
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\x1b[?7h\x1b[?1049l\x1b[?25h");
    }
}

fn position(row: usize, column: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\x1b[{};{}H", row + 1, column + 1).as_bytes());
}
