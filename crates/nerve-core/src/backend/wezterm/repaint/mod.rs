//! What was on a pane's screen and what is now, as the bytes that a terminal needs to go from one to the other.
//!
//! The bytes are what is recorded and modelled of a pane whose own bytes nobody sees: a keyframe first, then repaints. Rows that
//! scrolled away are known by what stands above the screen: they are pushed into the scrollback by scrolling, so that line numbers mean
//! the same as for a program's own bytes. Of a program that does not draw its own screen, rows that are full count as wrapped: nothing else
//! tells a long line from several.

use std::fmt::Write;

use nerve_term::event::Size;

use super::rows::Row;

/// Rows above the screen that are remembered, to find them again.
const REMEMBERED_ROWS: usize = 64;
/// So many of them have to be found again.
const MIN_MATCHING_ROWS: usize = 8;

/// A pane at one moment.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub(super) size: Size,
    /// What stands above the screen, as far as it was asked for; the last one next to the screen.
    pub(super) scrollback: Vec<Row>,
    /// There may be more above.
    pub(super) truncated: bool,
    /// The screen.
    pub(super) rows: Vec<Row>,
    /// Column and row, from 0.
    pub(super) cursor: (u16, u16),
    pub(super) shows_cursor: bool,
    pub(super) title: String,
}

/// So much scrolled away that a capture does not tell how much: one with more above is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeedsMore;

/// What a terminal that got all the bytes so far shows.
#[derive(Debug, Default)]
pub(super) struct Repainter {
    size: Option<Size>,
    rows: Vec<Row>,
    /// The last rows above the screen.
    scrollback: Vec<String>,
    /// How many there are above, where all of them were seen.
    count: Option<usize>,
    cursor: (u16, u16),
    shows_cursor: bool,
    title: String,
    /// Nothing above any more means the other screen, not a scrollback that was cleared.
    tracks_alt_screen: bool,
    /// The other screen is shown: there is nothing above it, and below is what the main one had.
    saved_main: Option<Vec<Row>>,
}

impl Repainter {
    /// Of a program that may draw on the other screen. With `primed`, a row stood above the screen before it began: where there is none,
    /// the other screen is shown.
    pub(super) fn for_full_screen(primed: bool) -> Repainter {
        let scrollback = if primed { vec![String::new()] } else { Vec::new() };
        Repainter { tracks_alt_screen: true, scrollback, ..Repainter::default() }
    }

    /// The bytes that make the terminal show `capture`; none if it does already. After another size they are for a terminal that has
    /// been given it. With `whatever`, what scrolled away unseen is given up.
    pub(super) fn update(&mut self, mut capture: Capture, force: bool) -> Result<Vec<u8>, NeedsMore> {
        if !self.tracks_alt_screen {
            mark_wrapped_rows(&mut capture);
        }
        let fresh = self.size != Some(capture.size);
        let mut paint = PaintBuffer::default();
        let mut pushed = 0;
        if !fresh {
            let leaves = self.saved_main.is_some() && !capture.scrollback.is_empty();
            let enters = self.saved_main.is_none() && self.enters_alt_screen(&capture);
            if !enters && (leaves || self.saved_main.is_none()) {
                pushed = match self.scrolled(&capture) {
                    Some(pushed) => pushed,
                    None if capture.truncated && !force => return Err(NeedsMore),
                    None => capture.scrollback.len(),
                };
            }
            if leaves {
                paint.raw("\x1b[?1049l");
                self.rows = self.saved_main.take().unwrap_or_default();
            } else if enters {
                paint.raw("\x1b[?1049h");
                self.saved_main = Some(std::mem::replace(&mut self.rows, blank(capture.size)));
            }
        } else {
            // Nothing on it moves by itself: long rows are cut, and pastes are taken as such by whoever owns the pane.
            paint.raw("\x1b[?1049l\x1b[0m\x1b[r\x1b[?6l\x1b[?7l\x1b[?2004h\x1b[H\x1b[2J");
            self.rows = blank(capture.size);
            self.saved_main = None;
            if self.size.is_none() {
                pushed = capture.scrollback.len();
            }
            if self.enters_alt_screen(&capture) {
                paint.raw("\x1b[?1049h\x1b[2J");
                self.saved_main = Some(blank(capture.size));
            }
            self.size = Some(capture.size);
        }
        self.scroll_out(
            &mut paint,
            &capture.scrollback[capture.scrollback.len() - pushed..],
            capture.rows.first(),
        );
        self.paint(&mut paint, &capture.rows.iter().collect::<Vec<_>>());
        if fresh || self.title != capture.title {
            paint.title(&capture.title);
        }
        if fresh || self.shows_cursor != capture.shows_cursor {
            paint.raw(if capture.shows_cursor { "\x1b[?25h" } else { "\x1b[?25l" });
        }
        let moved = self.cursor != capture.cursor;
        if !paint.bytes.is_empty() || moved {
            paint.cursor(capture.cursor, capture.size);
        }
        self.store(capture);
        Ok(paint.done())
    }

    fn enters_alt_screen(&self, capture: &Capture) -> bool {
        self.tracks_alt_screen && !self.scrollback.is_empty() && capture.scrollback.is_empty()
    }

    fn store(&mut self, capture: Capture) {
        self.rows = capture.rows;
        (self.cursor, self.shows_cursor, self.title) = (capture.cursor, capture.shows_cursor, capture.title);
        if self.saved_main.is_none() {
            self.count = (!capture.truncated).then_some(capture.scrollback.len());
            let known = capture.scrollback.len().saturating_sub(REMEMBERED_ROWS);
            self.scrollback = capture.scrollback.into_iter().skip(known).map(|row| row.text).collect();
        }
    }

    /// How many of the rows above have come there since; `None` if that cannot be told.
    fn scrolled(&self, capture: &Capture) -> Option<usize> {
        let scrollback = &capture.scrollback;
        // Where all that is there is seen, it can be counted.
        if let (Some(before), false) = (self.count, capture.truncated)
            && let Some(more) = scrollback.len().checked_sub(before)
            && self.fits(scrollback, more, false)
        {
            return Some(more);
        }
        if self.scrollback.is_empty() {
            return (!capture.truncated).then_some(scrollback.len());
        }
        let fits = (0..=scrollback.len()).filter(|more| self.fits(scrollback, *more, capture.truncated));
        // Rows that look the same fit in several places: most of the old screen has only moved.
        fits.max_by_key(|more| (self.matching_rows(capture, *more), std::cmp::Reverse(*more)))
    }

    /// How many rows of the old screen stand where they would, if `more` rows have scrolled away.
    fn matching_rows(&self, capture: &Capture, more: usize) -> usize {
        let is = capture.scrollback[capture.scrollback.len() - more..].iter().chain(&capture.rows);
        self.rows.iter().zip(is).filter(|(was, is)| was.text == is.text && !was.text.is_empty()).count()
    }

    /// Do the rows known from before stand above the last `more` ones? Of those beyond a cut, nobody knows.
    fn fits(&self, scrollback: &[Row], more: usize, truncated: bool) -> bool {
        let old = &scrollback[..scrollback.len() - more];
        let both = old.len().min(self.scrollback.len());
        let enough = if truncated {
            both >= self.scrollback.len().min(MIN_MATCHING_ROWS)
        } else {
            both == self.scrollback.len()
        };
        let known = self.scrollback.iter().rev();
        enough && old.iter().rev().zip(known).all(|(row, text)| row.text == *text)
    }

    /// Lets rows leave the screen at its top. `next` is the row that follows them.
    fn scroll_out(&mut self, paint: &mut PaintBuffer, rows: &[Row], next: Option<&Row>) {
        // One row less than there are, so that the one behind them has a place too.
        let most = self.rows.len().saturating_sub(1).max(1);
        for (nth, chunk) in rows.chunks(most).enumerate() {
            let behind = rows.get(nth * most + chunk.len()).or(next);
            let behind = behind.filter(|_| chunk.last().is_some_and(|row| row.wraps));
            let all: Vec<&Row> = chunk.iter().chain(behind).collect();
            self.paint(paint, &all);
            paint.scroll(chunk.len(), self.rows.len());
            self.rows.drain(..chunk.len());
            self.rows.extend(std::iter::repeat_n(Row::default(), chunk.len()));
        }
    }

    /// Puts rows at the top of the screen, as far as they are not there.
    fn paint(&mut self, paint: &mut PaintBuffer, rows: &[&Row]) {
        let mut at = 0;
        while at < rows.len().min(self.rows.len()) {
            // Rows that go on are painted in one go: that is what makes them one line.
            let mut end = at + 1;
            while end < rows.len().min(self.rows.len()) && rows[end - 1].wraps {
                end += 1;
            }
            if (at..end).any(|at| self.rows[at] != *rows[at]) {
                paint.line(at, &rows[at..end]);
                for (was, is) in self.rows[at..end].iter_mut().zip(&rows[at..end]) {
                    was.clone_from(is);
                }
            }
            at = end;
        }
    }
}

/// Finds rows that the terminal wrapped: they are full, and something follows that surely has a place in its own row: painted in one
/// go with them, what is too long would move the screen.
fn mark_wrapped_rows(capture: &mut Capture) {
    let (cols, scrollback) = (usize::from(capture.size.cols), capture.scrollback.len());
    let mut follows = false;
    for at in (0..scrollback + capture.rows.len()).rev() {
        let row =
            if at < scrollback { &mut capture.scrollback[at] } else { &mut capture.rows[at - scrollback] };
        row.wraps = follows && row.columns == cols && row.text.chars().count() == cols;
        follows = !row.text.is_empty() && row.columns <= cols;
    }
}

fn blank(size: Size) -> Vec<Row> {
    vec![Row::default(); usize::from(size.rows)]
}

/// Bytes for a terminal, shown all at once (synchronized update, `?2026`).
#[derive(Debug, Default)]
struct PaintBuffer {
    bytes: String,
}

impl PaintBuffer {
    fn raw(&mut self, sequence: &str) {
        self.bytes.push_str(sequence);
    }

    /// Rows one below the other, from row `at` on; all but the last go on in the next.
    fn line(&mut self, at: usize, rows: &[&Row]) {
        // Writing to memory cannot fail.
        for at in (at..at + rows.len()).rev() {
            let _ = write!(self.bytes, "\x1b[{};1H\x1b[2K", at + 1);
        }
        let wraps = rows.len() > 1;
        self.raw(if wraps { "\x1b[?7h" } else { "" });
        rows.iter().for_each(|row| self.raw(&row.ansi));
        self.raw(if wraps { "\x1b[?7l" } else { "" });
    }

    fn scroll(&mut self, by: usize, rows: usize) {
        let _ = write!(self.bytes, "\x1b[{rows};1H");
        self.bytes.extend(std::iter::repeat_n('\n', by));
    }

    fn title(&mut self, title: &str) {
        self.bytes.push_str("\x1b]2;");
        self.bytes.extend(title.chars().filter(|c| !c.is_control()));
        self.bytes.push_str("\x1b\\");
    }

    fn cursor(&mut self, (col, row): (u16, u16), size: Size) {
        let (col, row) = (col.min(size.cols.saturating_sub(1)), row.min(size.rows.saturating_sub(1)));
        let _ = write!(self.bytes, "\x1b[{};{}H", row + 1, col + 1);
    }

    fn done(self) -> Vec<u8> {
        if self.bytes.is_empty() {
            return Vec::new();
        }
        format!("\x1b[?2026h{}\x1b[?2026l", self.bytes).into_bytes()
    }
}

#[cfg(test)]
mod tests;
