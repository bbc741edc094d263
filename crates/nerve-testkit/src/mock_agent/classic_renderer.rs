//! The classic renderer: the conversation runs into the scrollback, the live area below it is redrawn with CUU, CHA
//! and EL (ECMA-48 §8.3.22, §8.3.9, §8.3.41).

use super::line::Line;
use super::screen::{Frame, Renderer, ScreenSize};

pub(super) struct ClassicRenderer {
    size: ScreenSize,
    /// The live area as last drawn.
    live: Vec<Line>,
    /// Cursor position: row of the live area, and column.
    cursor: (usize, usize),
    /// Row of the live area with the last pending line.
    last_pending: Option<usize>,
    redraw_all: bool,
}

impl ClassicRenderer {
    pub(super) fn new(size: ScreenSize) -> ClassicRenderer {
        ClassicRenderer { size, live: Vec::new(), cursor: (0, 0), last_pending: None, redraw_all: false }
    }

    fn rows(&self, lines: &[Line]) -> usize {
        lines.iter().map(|line| line.rows(self.size.cols)).sum()
    }

    /// Returns the part of the live area that CUU can reach: its last `rows - 1` lines.
    fn reachable(&self, frame: &Frame) -> (Vec<Line>, (usize, usize), Option<usize>) {
        let mut live = frame.pending.clone();
        live.extend(frame.bottom.iter().cloned());
        let above = live.len().saturating_sub(self.size.rows - 1);
        live.drain(..above);
        let cursor_row = (frame.pending.len() + frame.cursor.0).saturating_sub(above);
        let last_pending = frame.pending.len().checked_sub(1 + above);
        (live, (cursor_row, frame.cursor.1), last_pending)
    }

    fn to_top(&self, out: &mut Vec<u8>) {
        let up = self.rows(&self.live[..self.cursor.0.min(self.live.len())]);
        move_rows(up, 'A', out);
        out.extend_from_slice(b"\x1b[1G");
    }

    fn park(&self, out: &mut Vec<u8>) {
        move_rows(self.rows(&self.live[self.cursor.0..]), 'A', out);
        out.extend_from_slice(format!("\x1b[{}G", self.cursor.1 + 1).as_bytes());
    }
}

impl Renderer for ClassicRenderer {
    fn start(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\x1b[?25l");
    }

    fn draw(&mut self, frame: Frame, out: &mut Vec<u8>) {
        let (live, cursor, last_pending) = self.reachable(&frame);
        let same = live == self.live && cursor == self.cursor;
        self.last_pending = last_pending;
        if same && frame.settled.is_empty() && !self.redraw_all {
            return;
        }
        self.to_top(out);
        for line in &frame.settled {
            write_line(line, out);
        }
        let moved = !frame.settled.is_empty() || self.redraw_all;
        for (at, line) in live.iter().enumerate() {
            if !moved && self.live.get(at) == Some(line) {
                out.extend_from_slice(b"\r\n");
            } else {
                write_line(line, out);
            }
        }
        if self.redraw_all || self.rows(&self.live) > self.rows(&frame.settled) + self.rows(&live) {
            out.extend_from_slice(b"\x1b[J");
        }
        self.redraw_all = false;
        self.live = live;
        self.cursor = cursor;
        self.park(out);
    }

    fn overwrite(&mut self, updates: Vec<Line>, out: &mut Vec<u8>) {
        let (Some(row), Some(last)) = (self.last_pending, updates.last().cloned()) else { return };
        self.to_top(out);
        move_rows(self.rows(&self.live[..row]), 'B', out);
        for update in &updates {
            out.push(b'\r');
            out.extend_from_slice(update.bytes());
        }
        out.push(b'\r');
        move_rows(self.rows(&self.live[row..]), 'B', out);
        self.live[row] = last;
        self.park(out);
    }

    fn resize(&mut self, size: ScreenSize) {
        self.size = size;
        self.redraw_all = true;
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(live) = self.live.get(self.cursor.0..) {
            move_rows(self.rows(live), 'B', out);
        }
        out.extend_from_slice(b"\r\x1b[?25h");
    }
}

fn write_line(line: &Line, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[2K");
    out.extend_from_slice(line.bytes());
    out.extend_from_slice(b"\r\n");
}

fn move_rows(count: usize, direction: char, out: &mut Vec<u8>) {
    if count > 0 {
        out.extend_from_slice(format!("\x1b[{count}{direction}").as_bytes());
    }
}
