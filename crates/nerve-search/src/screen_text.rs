//! The text that a recording showed, in parts with their times.
//!
//! Rows of the normal screen are taken when they scroll off, and before they are cleared. Some programs clear the screen often and draw
//! the same rows again, which are not taken again. Programs on the alternate screen do so all the time: a row is taken once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use nerve_agent::terminal_text::{screen_end_len, split_at_ends};
use nerve_record::ahr::{AhrError, Body, Part, Reader, Record};
use nerve_record::replay::TerminalReplay;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::LineIndex;

/// Output between two samples of the screen, in bytes.
const SAMPLE_INTERVAL: usize = 32 << 10;
/// Maximum size of a part with more than one row, in bytes. Two parts fit on a page of the index's database, which has 4096 bytes.
const PART_LEN: usize = 1960;
/// Maximum number of different rows of the alternate screen that are remembered. Later ones may be taken twice.
const MAX_SEEN: usize = 200_000;
/// Rows that are drawn again within this time after they were cleared are not taken again.
const REDRAW_TIME: Duration = Duration::from_secs(600);
/// Maximum size of the text of a recording, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// Limits of the terminal's scrollback, in rows and bytes: rows are taken when they scroll off.
const SCROLLBACK: (u64, usize) = (64 << 10, 64 << 20);

/// The text of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenText {
    /// The text in the order in which it was shown.
    pub parts: Vec<ScreenPart>,
    /// False if there is more text than the limit of 64 MiB.
    pub is_whole: bool,
}

/// Some rows that a recording showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenPart {
    /// Time of the first row.
    pub at: TsNs,
    /// The rows.
    pub text: String,
}

/// Reads the text of a recording. Damaged parts are skipped. `size`: initial size of the terminal. `is_cancelled`: called before each
/// block; if it returns true, the result is `None`.
///
/// # Errors
/// The recording cannot be read.
pub fn read_screen_text(
    path: &Path,
    size: Size,
    is_cancelled: impl Fn() -> bool,
) -> Result<Option<ScreenText>, AhrError> {
    let mut reader = Reader::open(path)?;
    let mut screen = ScreenReader::new(size);
    while let Some(part) = reader.next()? {
        if is_cancelled() {
            return Ok(None);
        }
        let Part::Block(block) = part else { continue };
        screen.replay.begin_block(&block);
        for record in block.records() {
            screen.read(&record);
            screen.replay.check_work()?;
            if screen.collector.len > MAX_TEXT {
                return Ok(Some(ScreenText { parts: screen.collector.parts, is_whole: false }));
            }
        }
    }
    Ok(Some(ScreenText { parts: screen.finish(), is_whole: true }))
}

/// A terminal, and the collector of its text.
struct ScreenReader {
    replay: TerminalReplay,
    collector: Collector,
}

impl ScreenReader {
    fn new(size: Size) -> ScreenReader {
        let replay = TerminalReplay::new(size).with_limits(SCROLLBACK.0, SCROLLBACK.1);
        ScreenReader { replay, collector: Collector::default() }
    }

    fn read(&mut self, record: &Record<'_>) {
        let Body::Data { mut off, bytes } = record.body else {
            self.replay.apply(record);
            return;
        };
        for part in split_at_ends(bytes) {
            // The part may begin with a sequence that clears the screen or leaves the alternate one.
            let (sequence, output) = part.split_at(screen_end_len(part).unwrap_or(0));
            if !sequence.is_empty() {
                self.collector.end_screen(&self.replay);
                self.apply(record, &mut off, sequence);
                self.collector.begin_screen(&self.replay);
            }
            for piece in output.chunks(SAMPLE_INTERVAL) {
                self.apply(record, &mut off, piece);
                self.collector.add_output(&self.replay, piece.len());
            }
        }
    }

    /// Applies a piece of a record's output at offset `off`.
    fn apply(&mut self, record: &Record<'_>, off: &mut u64, bytes: &[u8]) {
        self.replay.apply(&Record { at: record.at, body: Body::Data { off: *off, bytes } });
        *off += bytes.len() as u64;
    }

    fn finish(mut self) -> Vec<ScreenPart> {
        self.collector.take_all(&self.replay);
        self.collector.end_part();
        self.collector.parts
    }
}

#[derive(Default)]
struct Collector {
    parts: Vec<ScreenPart>,
    /// The part that is being filled, and the time of its first row.
    text: String,
    began: TsNs,
    /// First line of the normal screen that is not taken yet.
    next: LineIndex,
    /// First line of the normal screen that was drawn since the last clear.
    drawn: LineIndex,
    /// Hashes of the lines that were drawn before that clear, with the number of times that they may be drawn again.
    cleared: HashMap<u64, u32>,
    /// Time of that clear.
    cleared_at: TsNs,
    /// True if the alternate screen was active before the last clear.
    was_alternate: bool,
    /// Hashes of rows of the alternate screen.
    seen: HashSet<u64>,
    hasher: RandomState,
    /// Bytes of output since the last sample.
    unsampled: usize,
    /// Bytes of all parts.
    len: usize,
}

impl Collector {
    fn add_output(&mut self, replay: &TerminalReplay, bytes: usize) {
        self.unsampled += bytes;
        if self.unsampled >= SAMPLE_INTERVAL {
            self.sample(replay);
        }
    }

    /// Takes the new rows.
    fn sample(&mut self, replay: &TerminalReplay) {
        self.unsampled = 0;
        let terminal = &replay.terminal;
        if terminal.modes().alternate {
            for row in terminal.screen().rows {
                if self.seen.len() >= MAX_SEEN {
                    self.seen.clear();
                }
                if self.seen.insert(self.hasher.hash_one(row.text.trim())) {
                    self.add(replay.clock(), row.text.trim());
                }
            }
            return;
        }
        self.take_lines(replay, terminal.screen_start());
    }

    /// Takes everything that is on the screen now.
    fn take_all(&mut self, replay: &TerminalReplay) {
        self.sample(replay);
        if !replay.terminal.modes().alternate {
            self.take_lines(replay, LineIndex(replay.terminal.line_count()));
        }
    }

    /// Takes what the screen shows before it is cleared or left.
    fn end_screen(&mut self, replay: &TerminalReplay) {
        let terminal = &replay.terminal;
        self.take_all(replay);
        self.was_alternate = terminal.modes().alternate;
        if self.was_alternate {
            return;
        }
        let lines = self.drawn.max(terminal.first_kept_line())..LineIndex(terminal.line_count());
        self.cleared.clear();
        for line in terminal.text(lines) {
            *self.cleared.entry(self.hasher.hash_one(line.trim_end())).or_default() += 1;
        }
        self.cleared_at = replay.clock();
    }

    /// Continues with the rows of the screen, which is empty now: a program draws on lines that were taken.
    fn begin_screen(&mut self, replay: &TerminalReplay) {
        let start = replay.terminal.screen_start();
        self.next = self.next.min(start);
        if !self.was_alternate {
            self.drawn = start;
        }
    }

    /// Takes the lines of the normal screen up to `end`.
    fn take_lines(&mut self, replay: &TerminalReplay, end: LineIndex) {
        let terminal = &replay.terminal;
        let start = self.next.max(terminal.first_kept_line());
        if start < end {
            for line in terminal.text(start..end) {
                let line = line.trim_end();
                if !self.is_redrawn(replay.clock(), line) {
                    self.add(replay.clock(), line);
                }
            }
            self.next = end;
        }
    }

    /// Returns true for a line that was there before the last clear, and counts it.
    fn is_redrawn(&mut self, at: TsNs, line: &str) -> bool {
        if self.cleared.is_empty() {
            return false;
        }
        if at.since(self.cleared_at) > REDRAW_TIME {
            self.cleared.clear();
            return false;
        }
        match self.cleared.get_mut(&self.hasher.hash_one(line)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, at: TsNs, row: &str) {
        if is_decoration(row) {
            return;
        }
        if self.text.len() + row.len() >= PART_LEN {
            self.end_part();
        }
        if self.text.is_empty() {
            self.began = at;
        }
        self.text.push_str(row);
        self.text.push('\n');
    }

    fn end_part(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.len += text.len();
            self.parts.push(ScreenPart { at: self.began, text });
        }
    }
}

/// Returns true for a row of lines and blocks (Unicode's box drawing and block elements), or an empty one. In some agents they are a fifth
/// of the text.
fn is_decoration(row: &str) -> bool {
    row.chars().all(|c| c.is_whitespace() || matches!(c, '\u{2500}'..='\u{259f}'))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn parts_have_whole_rows_and_a_maximum_size() {
        let mut collector = Collector::default();
        let rows = ["a".repeat(1000), "b".repeat(958), "c".repeat(3000), "d".into()];
        for (at, row) in (1..).map(TsNs).zip(&rows) {
            collector.add(at, row);
        }
        ["", "┌──┬─┐", "▄▄ ▀"].into_iter().for_each(|row| collector.add(TsNs(9), row));
        collector.end_part();
        let parts = collector.parts.into_iter().map(|part| (part.at.0, part.text.len())).collect::<Vec<_>>();
        assert_eq!(parts, [(1, 1960), (3, 3001), (4, 2)]);
    }

    /// Returns the parts of some output on a screen of four rows, each with its time in seconds.
    fn parts(output: &[(u64, &str)]) -> Vec<ScreenPart> {
        let mut screen = ScreenReader::new(Size::new(20, 4));
        let mut off = 0;
        for (seconds, text) in output {
            let body = Body::Data { off, bytes: text.as_bytes() };
            screen.read(&Record { at: TsNs(seconds * 1_000_000_000), body });
            off += text.len() as u64;
        }
        screen.finish()
    }

    fn rows(output: &[(u64, &str)]) -> Vec<String> {
        parts(output).iter().flat_map(|part| part.text.lines().map(str::to_string)).collect()
    }

    #[test]
    fn time_stands_still_while_the_clock_is_set_back() {
        let long = "twenty characters..\r\n".repeat(2000);
        let times: Vec<u64> = parts(&[(100, &long), (50, &long), (200, &long)])
            .iter()
            .map(|part| part.at.0 / 1_000_000_000)
            .collect();
        assert!(times.is_sorted() && times.first() == Some(&100) && times.last() == Some(&200), "{times:?}");
    }

    #[test]
    fn rows_that_scroll_off_after_a_clear_are_taken() {
        for clear in ["\x1b[H\x1b[J", "\x1b[2J\x1b[H"] {
            let text = format!("old 1\r\nold 2\r\nold 3{clear}a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng");
            let expected = ["old 1", "old 2", "old 3", "a", "b", "c", "d", "e", "f", "g"];
            assert_eq!(rows(&[(1, &text)]), expected, "{clear:?}");
        }
    }

    #[test]
    fn rows_that_are_drawn_again_soon_are_taken_once() {
        let frame = |text: &str| format!("\x1b[2J\x1b[H{text}");
        let frames = [frame("a\r\nb"), frame("a\r\nb\r\nb"), frame("a\r\nb\r\nb\r\nc"), frame("a\r\nc")];
        let output: Vec<(u64, &str)> =
            [1, 2, 3, 700].into_iter().zip(frames.iter().map(String::as_str)).collect();
        assert_eq!(rows(&output), ["a", "b", "b", "c", "a", "c"]);
        let plain = "x\r\nx\r\nx\r\nx\r\nx\r\nx";
        assert_eq!(rows(&[(1, plain)]), ["x"; 6], "without a clear");
    }

    #[test]
    fn reading_ends_at_the_next_block_after_its_cancellation() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../nerve-record/tests/fixtures/ahr/multiblock.ahr");
        let blocks = Cell::new(0);
        let read_until = |last: usize| {
            blocks.set(0);
            let is_cancelled = || {
                blocks.set(blocks.get() + 1);
                blocks.get() > last
            };
            read_screen_text(&path, Size::default(), is_cancelled).unwrap()
        };
        assert!(read_until(usize::MAX).is_some() && blocks.get() > 1);
        assert!(read_until(1).is_none());
        assert_eq!(blocks.get(), 2);
    }
}
