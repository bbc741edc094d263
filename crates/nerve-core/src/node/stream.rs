//! What of a growing answer has been published, and what may follow it.
//!
//! Only what still stands as it was published is gone on with: a program may rewrite rows it has drawn. Then nothing more is
//! published until they are as they were; the response has the whole answer in any case.

use std::collections::VecDeque;
use std::time::Duration;

use nerve_term::driver::Span;
use nerve_term::terminal::{LineIndex, TerminalState};

/// A growing answer is looked at this often.
const EVERY: Duration = Duration::from_millis(100);
/// The same for a long one that has to be parsed from its beginning each time.
const SELDOM: Duration = Duration::from_secs(1);
/// Rows from which on an answer that has to be parsed is long.
const LONG: usize = 2_000;
/// Rows taken at once: the terminal must not wait for more.
const ROWS: u64 = 20_000;
/// A chunk holds about this many bytes.
const CHUNK: usize = 256 << 10;
/// What is published before the end of an answer that has to be parsed, in bytes; the rest comes at its end.
const KEPT: usize = 4 << 20;

/// The chunks of one turn.
#[derive(Debug)]
pub(super) struct Stream {
    how: How,
    every: Duration,
}

#[derive(Debug)]
enum How {
    /// Of a program that writes line by line and has no structure: rows are the answer.
    Rows(Rows),
    /// The answer is what the parser finds. What was published of it.
    Parsed(String),
}

impl Stream {
    /// A stream of rows as they are.
    pub(super) fn of_rows() -> Stream {
        Stream { how: How::Rows(Rows::default()), every: EVERY }
    }

    /// A stream of what a parser finds.
    pub(super) fn parsed() -> Stream {
        Stream { how: How::Parsed(String::new()), every: EVERY }
    }

    /// How long to wait before the next look.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// What the answer has grown by: whole rows, for the last one may still be rewritten. The answer begins at line `start`.
    /// `parse` gives its text, and how many rows were parsed for it.
    pub(super) fn grow(
        &mut self,
        terminal: &TerminalState,
        start: u64,
        parse: impl FnOnce() -> (String, usize),
    ) -> Vec<String> {
        match &mut self.how {
            How::Rows(rows) => {
                let end = terminal.cursor_line().0;
                let limit = rows.next.max(start).max(terminal.first_kept_line().0) + ROWS;
                let text = rows.grow(terminal, start, end.min(limit));
                self.every = if limit < end && !text.is_empty() { Duration::ZERO } else { EVERY };
                chunks_of(&text)
            }
            How::Parsed(published) => {
                let (text, rows) = parse();
                if rows > LONG {
                    self.every = (self.every * 2).min(SELDOM);
                }
                let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
                match whole.strip_prefix(published.as_str()) {
                    Some(more) if whole.len() <= KEPT => {
                        published.push_str(more);
                        chunks_of(more)
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    /// The rest of an answer that is finished: its place on the terminal and its text.
    pub(super) fn rest(self, terminal: &TerminalState, span: &Span, text: &str) -> Vec<String> {
        match self.how {
            How::Rows(rows) if !rows.has_published => chunks_of(text),
            How::Rows(rows) => chunks_of(&rows.rest(terminal, span)),
            How::Parsed(published) => {
                text.strip_prefix(published.as_str()).map(chunks_of).unwrap_or_default()
            }
        }
    }
}

/// Cuts text into chunks, behind line ends where there are any.
fn chunks_of(mut text: &str) -> Vec<String> {
    let mut chunks = Vec::new();
    while text.len() > CHUNK {
        let whole = (0..=CHUNK).rfind(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let at = text[..whole].rfind('\n').map_or(whole, |end| end + 1);
        chunks.push(text[..at].to_string());
        text = &text[at..];
    }
    chunks.extend((!text.is_empty()).then(|| text.to_string()));
    chunks
}

/// Rows from a cursor on. Blank rows before the first and after the last one that says something are left out, as the parser
/// does, so a line's end is published with the row that follows it.
#[derive(Debug, Default)]
struct Rows {
    /// Where the answer begins.
    start: u64,
    /// The next row to publish.
    next: u64,
    /// Line ends behind what was published.
    ends: usize,
    has_published: bool,
    /// The rows before `next` that may still be on the screen.
    shown: VecDeque<Row>,
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    text: String,
    wrapped: bool,
}

impl Row {
    /// The row up to column `col`; `None` if it is not kept or not there yet.
    fn read(terminal: &TerminalState, line: u64, col: u16) -> Option<Row> {
        let line = LineIndex(line);
        let mut text = terminal.line_text_to(line, col)?;
        let wrapped = col == u16::MAX && terminal.line_wrapped(line);
        if !wrapped {
            text.truncate(text.trim_end().len());
        }
        Some(Row { text, wrapped })
    }
}

impl Rows {
    /// The rows before line `end`.
    fn grow(&mut self, terminal: &TerminalState, start: u64, end: u64) -> String {
        let mut text = String::new();
        if self.goes_on(terminal, start) {
            self.take(terminal, end, u16::MAX, &mut text);
        }
        text
    }

    /// The rows up to the end of a finished answer.
    fn rest(mut self, terminal: &TerminalState, span: &Span) -> String {
        let (start, end) = (span.lines.0, span.lines.1.min(terminal.line_count()));
        let mut text = String::new();
        if self.goes_on(terminal, start) {
            let last = if span.last_col.is_some() { end.saturating_sub(1) } else { end };
            self.take(terminal, last, u16::MAX, &mut text);
            self.take(terminal, end, span.last_col.unwrap_or(u16::MAX), &mut text);
        }
        text
    }

    /// Does the answer begin where it did, and does what was published of it still stand there?
    fn goes_on(&mut self, terminal: &TerminalState, start: u64) -> bool {
        if terminal.modes().alternate {
            return false;
        }
        let goes_on = self.start == start && self.stands(terminal);
        if !goes_on && !self.has_published {
            *self = Rows { start, next: start, ..Rows::default() };
            return true;
        }
        goes_on
    }

    fn stands(&self, terminal: &TerminalState) -> bool {
        // What is not kept any more was not rewritten: it left the screen as it was.
        let (first, kept) = (self.next - self.shown.len() as u64, terminal.first_kept_line().0);
        (first..)
            .zip(&self.shown)
            .all(|(line, row)| line < kept || Row::read(terminal, line, u16::MAX).as_ref() == Some(row))
    }

    /// Appends the rows before line `end`, the part left of column `col` of each.
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
            self.shown.push_back(row);
        }
        let rows = usize::from(terminal.size().rows);
        self.shown.drain(..self.shown.len().saturating_sub(rows));
    }
}
