//! The text that a recording showed, in documents with their times.
//!
//! Rows of the normal screen are taken when they scroll off. Programs on the alternate screen draw the same rows again and
//! again, so a row is taken once.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use nerve_agent::terminal_text::{is_screen_end, split_at_ends};
use nerve_api::value::DocumentKind;
use nerve_node::error::EngineError;
use nerve_record::ahr::{Body, Part, Reader, Record};
use nerve_record::meta::Meta;
use nerve_record::replay::TerminalReplay;
use nerve_types::TsNs;
use nerve_vt::terminal::LineIndex;

use super::documents::Document;
use crate::recordings::unreadable;

/// Output between two samples of the screen, in bytes.
const SAMPLE_INTERVAL: usize = 32 << 10;
/// Size of a document at which the next one begins, in bytes.
const DOCUMENT_LEN: usize = 2 << 10;
/// Maximum number of different rows of the alternate screen that are remembered. Later ones may be taken twice.
const MAX_SEEN: usize = 200_000;
/// Maximum size of the text of a recording, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// Limits of the terminal's scrollback, in rows and bytes: rows are taken when they scroll off.
const SCROLLBACK: (u64, usize) = (64 << 10, 64 << 20);

/// The text of a recording.
pub(super) struct ScreenText {
    pub(super) documents: Vec<Document>,
    /// False if there is more text than the limit.
    pub(super) is_whole: bool,
}

/// Reads the text of a recording. Damaged parts are skipped. `check`: called before each block, to cancel.
///
/// # Errors
/// The recording cannot be read, or the error of `check`.
pub(super) fn read(
    path: &Path,
    meta: &Meta,
    check: impl Fn() -> Result<(), EngineError>,
) -> Result<ScreenText, EngineError> {
    let mut reader = Reader::open(path).map_err(unreadable)?;
    let mut replay = TerminalReplay::new(meta.initial_size()).with_limits(SCROLLBACK.0, SCROLLBACK.1);
    let mut collector = Collector::default();
    while let Some(part) = reader.next().map_err(unreadable)? {
        check()?;
        let Part::Block(block) = part else { continue };
        replay.begin_block(&block);
        for record in block.records() {
            let Body::Data { mut off, bytes } = record.body else {
                replay.apply(&record);
                continue;
            };
            for part in split_at_ends(bytes) {
                // The part may begin with a sequence that clears the screen or leaves the alternate one.
                let is_cleared = is_screen_end(part);
                if is_cleared {
                    collector.take_all(&replay);
                }
                for piece in part.chunks(SAMPLE_INTERVAL) {
                    replay.apply(&Record { at: record.at, body: Body::Data { off, bytes: piece } });
                    off += piece.len() as u64;
                    collector.add_output(&replay, piece.len());
                }
                if is_cleared {
                    collector.restart_at_screen(&replay);
                }
            }
            replay.check_work().map_err(unreadable)?;
            if collector.len > MAX_TEXT {
                return Ok(ScreenText { documents: collector.documents, is_whole: false });
            }
        }
    }
    Ok(ScreenText { documents: collector.finish(&replay), is_whole: true })
}

#[derive(Default)]
struct Collector {
    documents: Vec<Document>,
    /// The document that is being filled, and the time of its first row.
    text: String,
    began: TsNs,
    /// First line of the normal screen that is not taken yet.
    next: LineIndex,
    /// Hashes of rows of the alternate screen.
    seen: HashSet<u64>,
    hasher: RandomState,
    /// Bytes of output since the last sample.
    unsampled: usize,
    /// Bytes of all documents.
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

    /// Continues with the rows of the screen, which is empty now: a program draws on lines that were taken.
    fn restart_at_screen(&mut self, replay: &TerminalReplay) {
        self.next = self.next.min(replay.terminal.screen_start());
    }

    /// Takes the lines of the normal screen up to `end`.
    fn take_lines(&mut self, replay: &TerminalReplay, end: LineIndex) {
        let terminal = &replay.terminal;
        let start = self.next.max(terminal.first_kept_line());
        if start < end {
            for line in terminal.text(start..end) {
                self.add(replay.clock(), line.trim_end());
            }
            self.next = end;
        }
    }

    fn add(&mut self, at: TsNs, row: &str) {
        if row.is_empty() {
            return;
        }
        if self.text.is_empty() {
            self.began = at;
        }
        self.text.push_str(row);
        self.text.push('\n');
        if self.text.len() >= DOCUMENT_LEN {
            self.end_document();
        }
    }

    fn end_document(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            let at_ms = self.began.0 / 1_000_000;
            self.len += text.len();
            self.documents.push(Document { kind: DocumentKind::Screen, turn: None, at_ms, text });
        }
    }

    /// Takes the rows that are still on the screen.
    fn finish(mut self, replay: &TerminalReplay) -> Vec<Document> {
        self.take_all(replay);
        self.end_document();
        self.documents
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn reading_ends_at_the_next_block_after_its_cancellation() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../nerve-record/tests/fixtures/ahr/multiblock.ahr");
        let blocks = Cell::new(0);
        let read_until = |last: usize| {
            blocks.set(0);
            read(&path, &Meta::default(), || {
                blocks.set(blocks.get() + 1);
                if blocks.get() > last { Err(EngineError::internal("cancelled")) } else { Ok(()) }
            })
        };
        assert!(read_until(usize::MAX).is_ok() && blocks.get() > 1);
        assert!(read_until(1).is_err());
        assert_eq!(blocks.get(), 2);
    }
}
