//! Computes the chunks of a growing answer.
//!
//! Chunks continue only if the rows already published are unchanged, because a program may rewrite rows that it has drawn.
//! Otherwise nothing is published until the rows are as they were. The response contains the whole answer in any case.

use std::collections::VecDeque;
use std::time::Duration;

use nerve_agent::driver::Span;
use nerve_vt::terminal::{LineIndex, TerminalState};

/// Poll interval of a growing answer.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Poll interval of a long answer that has to be parsed from its beginning each time.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of rows from which a parsed answer counts as long.
const LONG_ANSWER_ROWS: usize = 2_000;
/// Maximum number of rows read at once, so that the terminal is not blocked for long.
const MAX_ROWS_PER_POLL: u64 = 20_000;
/// Approximate maximum size of a chunk in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum size of a parsed answer that is published before its end, in bytes; the rest follows at the end.
const MAX_PARSED_BYTES: usize = 4 << 20;

/// Computes the chunks of one turn.
#[derive(Debug)]
pub(super) struct Stream {
    mode: Mode,
    poll_interval: Duration,
}

#[derive(Debug)]
enum Mode {
    /// A line-based program without structure: the rows are the answer.
    Rows(Rows),
    /// The answer as found by a parser; the text published so far.
    Parsed(String),
}

impl Stream {
    /// Creates a stream of plain rows.
    pub(super) fn rows() -> Stream {
        Stream { mode: Mode::Rows(Rows::default()), poll_interval: POLL_INTERVAL }
    }

    /// Creates a stream of a parser's text.
    pub(super) fn parsed() -> Stream {
        Stream { mode: Mode::Parsed(String::new()), poll_interval: POLL_INTERVAL }
    }

    /// Returns how long to wait before the next poll.
    pub(super) fn poll_interval(&self) -> Duration {
        self.poll_interval
    }

    /// Returns the text added to the answer, in whole rows because the last row may still be rewritten. The answer begins at line
    /// `start`. `parse` returns its text and the number of rows parsed.
    pub(super) fn grow(
        &mut self,
        terminal: &TerminalState,
        start: u64,
        parse: impl FnOnce() -> (String, usize),
    ) -> Vec<String> {
        match &mut self.mode {
            Mode::Rows(rows) => {
                let end = terminal.cursor_line().0;
                let limit = rows.next.max(start).max(terminal.first_kept_line().0) + MAX_ROWS_PER_POLL;
                let text = rows.grow(terminal, start, end.min(limit));
                self.poll_interval =
                    if limit < end && !text.is_empty() { Duration::ZERO } else { POLL_INTERVAL };
                split_into_chunks(&text)
            }
            Mode::Parsed(published) => {
                let (text, rows) = parse();
                if rows > LONG_ANSWER_ROWS {
                    self.poll_interval = (self.poll_interval * 2).min(MAX_POLL_INTERVAL);
                }
                let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
                match whole.strip_prefix(published.as_str()) {
                    Some(more) if whole.len() <= MAX_PARSED_BYTES => {
                        published.push_str(more);
                        split_into_chunks(more)
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    /// Returns the rest of a finished answer, given its span on the terminal and its text.
    pub(super) fn rest(self, terminal: &TerminalState, span: &Span, text: &str) -> Vec<String> {
        match self.mode {
            Mode::Rows(rows) if !rows.has_published => split_into_chunks(text),
            Mode::Rows(rows) => split_into_chunks(&rows.rest(terminal, span)),
            Mode::Parsed(published) => {
                text.strip_prefix(published.as_str()).map(split_into_chunks).unwrap_or_default()
            }
        }
    }
}

/// Splits text into chunks, after line ends where possible.
fn split_into_chunks(mut text: &str) -> Vec<String> {
    let mut chunks = Vec::new();
    while text.len() > CHUNK_BYTES {
        let whole = text.floor_char_boundary(CHUNK_BYTES);
        let at = text[..whole].rfind('\n').map_or(whole, |end| end + 1);
        chunks.push(text[..at].to_string());
        text = &text[at..];
    }
    chunks.extend((!text.is_empty()).then(|| text.to_string()));
    chunks
}

/// Rows from a position on. Blank rows at the beginning and the end are omitted, as by the parser. A line end is therefore
/// published together with the row that follows it.
#[derive(Debug, Default)]
struct Rows {
    /// First line of the answer.
    start: u64,
    /// Next line to publish.
    next: u64,
    /// Line ends after the published text that were not published yet.
    ends: usize,
    has_published: bool,
    /// Published rows before `next` that may still be on the screen.
    published: VecDeque<Row>,
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    text: String,
    wrapped: bool,
}

impl Row {
    /// Reads the row up to column `col`; `None` if it is no longer or not yet there.
    fn read(terminal: &TerminalState, line: u64, col: u16) -> Option<Row> {
        let line = LineIndex(line);
        let mut text = terminal.line_text_to(line, col)?;
        let wrapped = col == u16::MAX && terminal.is_line_wrapped(line);
        if !wrapped {
            text.truncate(text.trim_end().len());
        }
        Some(Row { text, wrapped })
    }
}

impl Rows {
    /// Returns the new rows before line `end`.
    fn grow(&mut self, terminal: &TerminalState, start: u64, end: u64) -> String {
        let mut text = String::new();
        if self.can_continue(terminal, start) {
            self.take(terminal, end, u16::MAX, &mut text);
        }
        text
    }

    /// Returns the rest of a finished answer.
    fn rest(mut self, terminal: &TerminalState, span: &Span) -> String {
        let (start, end) = (span.lines.start, span.lines.end.min(terminal.line_count()));
        let mut text = String::new();
        if self.can_continue(terminal, start) {
            let last = if span.last_col.is_some() { end.saturating_sub(1) } else { end };
            self.take(terminal, last, u16::MAX, &mut text);
            self.take(terminal, end, span.last_col.unwrap_or(u16::MAX), &mut text);
        }
        text
    }

    /// Returns true if the answer begins at the same line as before and the published rows are unchanged.
    fn can_continue(&mut self, terminal: &TerminalState, start: u64) -> bool {
        if terminal.modes().alternate {
            return false;
        }
        let can_continue = self.start == start && self.is_unchanged(terminal);
        if !can_continue && !self.has_published {
            *self = Rows { start, next: start, ..Rows::default() };
            return true;
        }
        can_continue
    }

    fn is_unchanged(&self, terminal: &TerminalState) -> bool {
        // Rows that were dropped from the scrollback had left the screen unchanged.
        let (first, kept) = (self.next - self.published.len() as u64, terminal.first_kept_line().0);
        (first..)
            .zip(&self.published)
            .all(|(line, row)| line < kept || Row::read(terminal, line, u16::MAX).as_ref() == Some(row))
    }

    /// Appends the rows before line `end`, up to column `col` of each.
    fn take(&mut self, terminal: &TerminalState, end: u64, col: u16, text: &mut String) {
        self.next = self.next.max(terminal.first_kept_line().0.min(end));
        while self.next < end {
            let Some(row) = Row::read(terminal, self.next, col) else { return };
            if !row.text.is_empty() {
                text.extend(std::iter::repeat_n('\n', std::mem::take(&mut self.ends)));
                text.push_str(&row.text);
                self.has_published = true;
            }
            self.ends += usize::from(self.has_published && !row.wrapped);
            self.next += 1;
            self.published.push_back(row);
        }
        let rows = usize::from(terminal.size().rows);
        self.published.drain(..self.published.len().saturating_sub(rows));
    }
}
