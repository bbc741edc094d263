//! Computes the bytes that bring a terminal from one captured screen to the next.
//!
//! The bytes are modelled and recorded for a pane whose own output is not accessible: first a keyframe, then
//! repaints. Rows that scrolled away are pushed into the scrollback by scrolling, so that line numbers mean the same as for real
//! output. For programs without a full-screen interface, scrolled rows are counted. Such a program does not change the rows above
//! its cursor, so they fit at exactly one place in the next capture. If they fit nowhere or in several places, output may be missing.
//! A program that writes the whole scrollback once more leaves it as it was. So the prompt of a turn has to stay in the scrollback:
//! only then is the beginning of its answer certain.
//! A full row counts as wrapped, because nothing else distinguishes a long line from several. For full-screen programs, the most
//! likely place is taken.

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use nerve_types::Size;

use super::rows::Row;

/// Rows above the screen by which the likeliest place is found.
const MATCHED_ROWS: usize = 64;
/// Rows that have to match.
const MIN_MATCHING_ROWS: usize = 8;
/// Rows that have to be left of a scrollback whose first rows were dropped.
const MIN_KEPT_ROWS: usize = 64;
/// Rows that make a second place possible in such a scrollback. Fewer rows, such as blank ones, are equal by chance.
const MIN_REPEATED_ROWS: usize = 8;

/// A pane at one moment.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub(super) size: Size,
    /// The requested rows above the screen; the last one is next to the screen.
    pub(super) scrollback: Vec<Row>,
    /// There may be more rows above.
    pub(super) truncated: bool,
    /// The screen.
    pub(super) rows: Vec<Row>,
    /// Column and row, 0-based.
    pub(super) cursor: (u16, u16),
    pub(super) shows_cursor: bool,
    pub(super) title: String,
}

/// The capture has too few rows above the screen to determine how far it scrolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeedsMore;

/// The place of the current turn's prompt.
#[derive(Debug, Default, Clone, Copy)]
enum PromptPlace {
    #[default]
    Unknown,
    /// This many rows of the scrollback and the screen are above the prompt.
    Below(usize),
    /// The prompt has left the scrollback.
    Dropped,
}

/// The state of a terminal that has received all bytes so far.
#[derive(Debug, Default)]
pub(super) struct Repainter {
    size: Option<Size>,
    rows: Vec<Row>,
    /// Hashes of the rows above the screen.
    scrollback: Vec<u64>,
    /// The scrollback is whole.
    is_whole: bool,
    /// The last update shows all output since the one before.
    is_certain: bool,
    prompt: PromptPlace,
    cursor: (u16, u16),
    shows_cursor: bool,
    title: String,
    /// An empty scrollback means the alternate screen, not a cleared scrollback.
    tracks_alt_screen: bool,
    /// The main screen while the alternate one is shown.
    saved_main: Option<Vec<Row>>,
}

impl Repainter {
    /// Creates the state of an empty terminal. A `full_screen` program may use the alternate screen, which then has to be detected.
    /// A shell's `clear` empties the scrollback too, but does not matter.
    pub(super) fn new(full_screen: bool) -> Repainter {
        Repainter { tracks_alt_screen: full_screen, ..Repainter::default() }
    }

    /// Returns false if output may be missing or repeated in the last update, or if the prompt has left the scrollback.
    pub(super) fn is_certain(&self) -> bool {
        self.is_certain && !matches!(self.prompt, PromptPlace::Dropped)
    }

    /// Notes that the next prompt is typed in the row of the cursor.
    pub(super) fn mark_prompt(&mut self) {
        self.prompt = PromptPlace::Below(self.scrollback.len() + usize::from(self.cursor.1));
    }

    /// Returns true if the program leaves the rows above its cursor as they are.
    pub(super) fn is_line_based(&self) -> bool {
        !self.tracks_alt_screen
    }

    /// Returns the bytes that make the terminal show `capture`; none if it already does. After a size change, the terminal
    /// must be resized first. With `force`, scrolled rows may be missing.
    pub(super) fn update(&mut self, mut capture: Capture, force: bool) -> Result<Vec<u8>, NeedsMore> {
        if self.is_line_based() {
            mark_wrapped_rows(&mut capture);
            if capture.truncated && !force {
                return Err(NeedsMore);
            }
        }
        let is_keyframe = self.size != Some(capture.size);
        self.is_certain = true;
        let mut paint = PaintBuffer::default();
        let pushed = match is_keyframe {
            true => self.begin_keyframe(&capture, &mut paint),
            false => self.switch_screen(&capture, force, &mut paint)?,
        };
        self.scroll_out(
            &mut paint,
            &capture.scrollback[capture.scrollback.len() - pushed..],
            capture.rows.first(),
        );
        self.paint(&mut paint, &capture.rows.iter().collect::<Vec<_>>());
        if is_keyframe || self.title != capture.title {
            paint.title(&capture.title);
        }
        if is_keyframe || self.shows_cursor != capture.shows_cursor {
            paint.raw(if capture.shows_cursor { "\x1b[?25h" } else { "\x1b[?25l" });
        }
        let moved = self.cursor != capture.cursor;
        if !paint.bytes.is_empty() || moved {
            paint.cursor(capture.cursor, capture.size);
        }
        self.store(capture);
        Ok(paint.finish())
    }

    /// Clears the terminal. Returns the number of rows that go to its scrollback.
    fn begin_keyframe(&mut self, capture: &Capture, paint: &mut PaintBuffer) -> usize {
        // Wrapping off: rows are cut. Bracketed paste on: the pane's owner handles pastes.
        paint.raw("\x1b[?1049l\x1b[0m\x1b[r\x1b[?6l\x1b[?7l\x1b[?2004h\x1b[H\x1b[2J");
        self.rows = blank(capture.size);
        self.saved_main = None;
        self.prompt = PromptPlace::Unknown;
        if self.enters_alt_screen(capture) {
            paint.raw("\x1b[?1049h\x1b[2J");
            self.saved_main = Some(blank(capture.size));
        }
        let is_first = self.size.replace(capture.size).is_none();
        if is_first { capture.scrollback.len() } else { 0 }
    }

    /// Enters or leaves the alternate screen with the program. Returns the number of rows that have scrolled out of the screen.
    fn switch_screen(
        &mut self,
        capture: &Capture,
        force: bool,
        paint: &mut PaintBuffer,
    ) -> Result<usize, NeedsMore> {
        let leaves = self.saved_main.is_some() && !capture.scrollback.is_empty();
        let enters = self.saved_main.is_none() && self.enters_alt_screen(capture);
        let mut pushed = 0;
        if !enters && (leaves || self.saved_main.is_none()) {
            let counted = self.count_scrolled(capture);
            self.is_certain = counted.is_some() || !self.is_line_based() && !force;
            pushed = match counted.or_else(|| self.guess_scrolled(capture)) {
                Some(pushed) => pushed,
                None if capture.truncated && !force => return Err(NeedsMore),
                None => capture.scrollback.len(),
            };
            if self.is_line_based() {
                self.move_prompt(pushed, capture.scrollback.len());
            }
        }
        if leaves {
            paint.raw("\x1b[?1049l");
            self.rows = self.saved_main.take().unwrap_or_default();
        } else if enters {
            paint.raw("\x1b[?1049h");
            self.saved_main = Some(std::mem::replace(&mut self.rows, blank(capture.size)));
        }
        Ok(pushed)
    }

    fn enters_alt_screen(&self, capture: &Capture) -> bool {
        self.tracks_alt_screen && !self.scrollback.is_empty() && capture.scrollback.is_empty()
    }

    fn store(&mut self, capture: Capture) {
        self.rows = capture.rows;
        (self.cursor, self.shows_cursor, self.title) = (capture.cursor, capture.shows_cursor, capture.title);
        if self.saved_main.is_none() {
            self.is_whole = !capture.truncated;
            self.scrollback = capture.scrollback.iter().map(hash).collect();
        }
    }

    /// Returns how many rows have scrolled above the screen since the last capture, if it can be counted. A full scrollback drops its
    /// first rows.
    fn count_scrolled(&self, capture: &Capture) -> Option<usize> {
        if !self.is_whole || capture.truncated {
            return None;
        }
        let stable = if self.is_line_based() { &self.rows[..self.stable_rows()] } else { &[] };
        let old: Vec<u64> = self.scrollback.iter().copied().chain(stable.iter().map(hash)).collect();
        let new: Vec<u64> = capture.scrollback.iter().chain(&capture.rows).map(hash).collect();
        let (before, after) = (self.scrollback.len(), capture.scrollback.len());
        let fits = |dropped: usize, min_rows: usize| {
            let remaining = &old[dropped..];
            remaining.len() >= min_rows && new.starts_with(remaining)
        };
        let mut places = before.saturating_sub(after)..=before;
        let dropped = places.find(|dropped| fits(*dropped, if *dropped == 0 { 0 } else { MIN_KEPT_ROWS }))?;
        // Equal rows may fit in several places. A scrollback that grew has dropped none of its rows.
        let min_rows = if dropped == 0 { MIN_KEPT_ROWS } else { MIN_REPEATED_ROWS };
        let is_only = dropped == 0 && (after > before || self.has_unique_prompt(&old))
            || !places.any(|other| fits(other, min_rows));
        is_only.then(|| dropped + after - before)
    }

    /// Returns true if the prompt of the turn is in `rows`, and no row of the output below it is equal to it. If these rows are still in
    /// their places, they are the same ones. Otherwise the program would have written the prompt again.
    fn has_unique_prompt(&self, rows: &[u64]) -> bool {
        let PromptPlace::Below(above) = self.prompt else { return false };
        let from_prompt = rows.get(above..).and_then(<[u64]>::split_first);
        from_prompt
            .is_some_and(|(prompt, output)| *prompt != hash(&Row::default()) && !output.contains(prompt))
    }

    /// Moves the prompt's place by the rows that the scrollback has dropped. `pushed`: the number of rows added to the
    /// scrollback; `len`: its length now.
    fn move_prompt(&mut self, pushed: usize, len: usize) {
        if let PromptPlace::Below(above) = self.prompt {
            let dropped = (self.scrollback.len() + pushed).saturating_sub(len);
            self.prompt = above.checked_sub(dropped).map_or(PromptPlace::Dropped, PromptPlace::Below);
        }
    }

    /// Returns the number of rows at the top of the screen that a line-based program has completed. The cursor may be newer than the
    /// text.
    fn stable_rows(&self) -> usize {
        let last = self.rows.iter().rposition(|row| !row.text.is_empty()).unwrap_or(0);
        last.min(usize::from(self.cursor.1)).min(self.rows.len())
    }

    /// Guesses how many rows have scrolled above the screen since the last capture; `None` if nothing indicates it.
    fn guess_scrolled(&self, capture: &Capture) -> Option<usize> {
        let scrollback = &capture.scrollback;
        if self.scrollback.is_empty() {
            return (!capture.truncated).then_some(scrollback.len());
        }
        let fits =
            (0..=scrollback.len()).filter(|scrolled| self.fits(scrollback, *scrolled, capture.truncated));
        // Equal rows match in several places: prefer the one where most of the old screen has moved along.
        fits.max_by_key(|scrolled| (self.matching_rows(capture, *scrolled), std::cmp::Reverse(*scrolled)))
    }

    /// Returns how many rows of the old screen are at the expected place if `scrolled` rows have scrolled away.
    fn matching_rows(&self, capture: &Capture, scrolled: usize) -> usize {
        let new_rows = capture.scrollback[capture.scrollback.len() - scrolled..].iter().chain(&capture.rows);
        let is_same = |(old, new): &(&Row, &Row)| old.text == new.text && !old.text.is_empty();
        self.rows.iter().zip(new_rows).filter(is_same).count()
    }

    /// Returns true if the last known rows are above the last `scrolled` rows. Rows beyond a truncation are unknown.
    fn fits(&self, scrollback: &[Row], scrolled: usize, truncated: bool) -> bool {
        let known = &self.scrollback[self.scrollback.len().saturating_sub(MATCHED_ROWS)..];
        let old = &scrollback[..scrollback.len() - scrolled];
        let common = old.len().min(known.len());
        let min_common = if truncated { known.len().min(MIN_MATCHING_ROWS) } else { known.len() };
        common >= min_common
            && old.iter().rev().zip(known.iter().rev()).all(|(row, known)| hash(row) == *known)
    }

    /// Scrolls rows out of the top of the screen. `next` is the row after them.
    fn scroll_out(&mut self, paint: &mut PaintBuffer, rows: &[Row], next: Option<&Row>) {
        // One row fewer than the screen, to leave room for the row after them.
        let max_rows = self.rows.len().saturating_sub(1).max(1);
        for (nth, chunk) in rows.chunks(max_rows).enumerate() {
            let following = rows.get(nth * max_rows + chunk.len()).or(next);
            let continuation = following.filter(|_| chunk.last().is_some_and(|row| row.wraps));
            let painted: Vec<&Row> = chunk.iter().chain(continuation).collect();
            self.paint(paint, &painted);
            paint.scroll(chunk.len(), self.rows.len());
            self.rows.drain(..chunk.len());
            self.rows.extend(std::iter::repeat_n(Row::default(), chunk.len()));
        }
    }

    /// Paints rows from the top of the screen unless they are already there.
    fn paint(&mut self, paint: &mut PaintBuffer, rows: &[&Row]) {
        let mut at = 0;
        while at < rows.len().min(self.rows.len()) {
            // Wrapped rows are painted together, which makes them one line.
            let mut end = at + 1;
            while end < rows.len().min(self.rows.len()) && rows[end - 1].wraps {
                end += 1;
            }
            if (at..end).any(|at| self.rows[at] != *rows[at]) {
                paint.line(at, &rows[at..end]);
                for (old, new) in self.rows[at..end].iter_mut().zip(&rows[at..end]) {
                    old.clone_from(new);
                }
            }
            at = end;
        }
    }
}

/// Marks wrapped rows: they are full, and the next row surely fits. Painting a row that is too long would move the screen.
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

fn hash(row: &Row) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(&row.text)
}

fn blank(size: Size) -> Vec<Row> {
    vec![Row::default(); usize::from(size.rows)]
}

/// Bytes for a terminal, displayed at once (synchronized update, `?2026`).
#[derive(Debug, Default)]
struct PaintBuffer {
    bytes: String,
}

impl PaintBuffer {
    fn raw(&mut self, sequence: &str) {
        self.bytes.push_str(sequence);
    }

    /// Writes rows from row `at` on; all but the last wrap.
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

    fn finish(self) -> Vec<u8> {
        if self.bytes.is_empty() {
            return Vec::new();
        }
        format!("\x1b[?2026h{}\x1b[?2026l", self.bytes).into_bytes()
    }
}

#[cfg(test)]
mod tests;
