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
const KNOWN: usize = 64;
/// So many of them have to be found again.
const ENOUGH: usize = 8;

/// A pane at one moment.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub(super) size: Size,
    /// What stands above the screen, as far as it was asked for; the last one next to the screen.
    pub(super) above: Vec<Row>,
    /// There may be more above.
    pub(super) cut: bool,
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
pub(super) struct Picture {
    size: Option<Size>,
    rows: Vec<Row>,
    /// The last rows above the screen.
    above: Vec<String>,
    /// How many there are above, where all of them were seen.
    count: Option<usize>,
    cursor: (u16, u16),
    shows_cursor: bool,
    title: String,
    /// Nothing above any more means the other screen, not a scrollback that was cleared.
    switches: bool,
    /// The other screen is shown: there is nothing above it, and below is what the main one had.
    main: Option<Vec<Row>>,
}

impl Picture {
    /// Of a program that may draw on the other screen. With `primed`, a row stood above the screen before it began: where there is none,
    /// the other screen is shown.
    pub(super) fn of_agent(primed: bool) -> Picture {
        let above = if primed { vec![String::new()] } else { Vec::new() };
        Picture { switches: true, above, ..Picture::default() }
    }

    /// The bytes that make the terminal show `capture`; none if it does already. After another size they are for a terminal that has
    /// been given it. With `whatever`, what scrolled away unseen is given up.
    pub(super) fn update(&mut self, mut capture: Capture, whatever: bool) -> Result<Vec<u8>, NeedsMore> {
        if !self.switches {
            join(&mut capture);
        }
        let fresh = self.size != Some(capture.size);
        let mut paint = Paint::default();
        let mut pushed = 0;
        if !fresh {
            let leaves = self.main.is_some() && !capture.above.is_empty();
            let hides = self.main.is_none() && self.hides(&capture);
            if !hides && (leaves || self.main.is_none()) {
                pushed = match self.scrolled(&capture) {
                    Some(pushed) => pushed,
                    None if capture.cut && !whatever => return Err(NeedsMore),
                    None => capture.above.len(),
                };
            }
            if leaves {
                paint.raw("\x1b[?1049l");
                self.rows = self.main.take().unwrap_or_default();
            } else if hides {
                paint.raw("\x1b[?1049h");
                self.main = Some(std::mem::replace(&mut self.rows, blank(capture.size)));
            }
        } else {
            // Nothing on it moves by itself: long rows are cut, and pastes are taken as such by whoever owns the pane.
            paint.raw("\x1b[?1049l\x1b[0m\x1b[r\x1b[?6l\x1b[?7l\x1b[?2004h\x1b[H\x1b[2J");
            self.rows = blank(capture.size);
            self.main = None;
            if self.size.is_none() {
                pushed = capture.above.len();
            }
            if self.hides(&capture) {
                paint.raw("\x1b[?1049h\x1b[2J");
                self.main = Some(blank(capture.size));
            }
            self.size = Some(capture.size);
        }
        self.push(&mut paint, &capture.above[capture.above.len() - pushed..], capture.rows.first());
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
        self.settle(capture);
        Ok(paint.done())
    }

    fn hides(&self, capture: &Capture) -> bool {
        self.switches && !self.above.is_empty() && capture.above.is_empty()
    }

    fn settle(&mut self, capture: Capture) {
        self.rows = capture.rows;
        (self.cursor, self.shows_cursor, self.title) = (capture.cursor, capture.shows_cursor, capture.title);
        if self.main.is_none() {
            self.count = (!capture.cut).then_some(capture.above.len());
            let known = capture.above.len().saturating_sub(KNOWN);
            self.above = capture.above.into_iter().skip(known).map(|row| row.text).collect();
        }
    }

    /// How many of the rows above have come there since; `None` if that cannot be told.
    fn scrolled(&self, capture: &Capture) -> Option<usize> {
        let above = &capture.above;
        // Where all that is there is seen, it can be counted.
        if let (Some(before), false) = (self.count, capture.cut)
            && let Some(more) = above.len().checked_sub(before)
            && self.fits(above, more, false)
        {
            return Some(more);
        }
        if self.above.is_empty() {
            return (!capture.cut).then_some(above.len());
        }
        let fits = (0..=above.len()).filter(|more| self.fits(above, *more, capture.cut));
        // Rows that look the same fit in several places: most of the old screen has only moved.
        fits.max_by_key(|more| (self.found(capture, *more), std::cmp::Reverse(*more)))
    }

    /// How many rows of the old screen stand where they would, if `more` rows have scrolled away.
    fn found(&self, capture: &Capture, more: usize) -> usize {
        let is = capture.above[capture.above.len() - more..].iter().chain(&capture.rows);
        self.rows.iter().zip(is).filter(|(was, is)| was.text == is.text && !was.text.is_empty()).count()
    }

    /// Do the rows known from before stand above the last `more` ones? Of those beyond a cut, nobody knows.
    fn fits(&self, above: &[Row], more: usize, cut: bool) -> bool {
        let old = &above[..above.len() - more];
        let both = old.len().min(self.above.len());
        let enough = if cut { both >= self.above.len().min(ENOUGH) } else { both == self.above.len() };
        let known = self.above.iter().rev();
        enough && old.iter().rev().zip(known).all(|(row, text)| row.text == *text)
    }

    /// Lets rows leave the screen at its top. `next` is the row that follows them.
    fn push(&mut self, paint: &mut Paint, gone: &[Row], next: Option<&Row>) {
        // One row less than there are, so that the one behind them has a place too.
        let most = self.rows.len().saturating_sub(1).max(1);
        for (nth, chunk) in gone.chunks(most).enumerate() {
            let behind = gone.get(nth * most + chunk.len()).or(next);
            let behind = behind.filter(|_| chunk.last().is_some_and(|row| row.goes_on));
            let all: Vec<&Row> = chunk.iter().chain(behind).collect();
            self.paint(paint, &all);
            paint.scroll(chunk.len(), self.rows.len());
            self.rows.drain(..chunk.len());
            self.rows.extend(std::iter::repeat_n(Row::default(), chunk.len()));
        }
    }

    /// Puts rows at the top of the screen, as far as they are not there.
    fn paint(&mut self, paint: &mut Paint, rows: &[&Row]) {
        let mut at = 0;
        while at < rows.len().min(self.rows.len()) {
            // Rows that go on are painted in one go: that is what makes them one line.
            let mut end = at + 1;
            while end < rows.len().min(self.rows.len()) && rows[end - 1].goes_on {
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
fn join(capture: &mut Capture) {
    let (cols, above) = (usize::from(capture.size.cols), capture.above.len());
    let mut follows = false;
    for at in (0..above + capture.rows.len()).rev() {
        let row = if at < above { &mut capture.above[at] } else { &mut capture.rows[at - above] };
        row.goes_on = follows && row.columns == cols && row.text.chars().count() == cols;
        follows = !row.text.is_empty() && row.columns <= cols;
    }
}

fn blank(size: Size) -> Vec<Row> {
    vec![Row::default(); usize::from(size.rows)]
}

/// Bytes for a terminal, shown all at once (synchronized update, `?2026`).
#[derive(Debug, Default)]
struct Paint {
    bytes: String,
}

impl Paint {
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
        rows.iter().for_each(|row| self.raw(&row.shown));
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
