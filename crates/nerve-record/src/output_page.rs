//! A page of recorded output with its times, for clients that play a recording.

use nerve_types::{Size, TsNs};

use crate::ahr::{Body, DamagedRange, Record};

/// Maximum number of chunks of a page. The first chunk with output may exceed it.
const MAX_CHUNKS: usize = 4096;

/// Output from an offset on, with the resizes at their positions in it.
#[derive(Debug, Clone, Default)]
pub struct OutputPage {
    /// The output, in order.
    pub chunks: Vec<OutputChunk>,
    /// Offset after the last byte: the next page begins there.
    pub next_offset: u64,
    /// The recording ends here. If it is still written, it may continue.
    pub is_end: bool,
    /// The lost stretches of this page.
    pub lost: Vec<DamagedRange>,
    clock: TsNs,
    bytes: usize,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Time, which never decreases.
    pub at: TsNs,
    /// Output bytes before it.
    pub offset: u64,
    /// Its content.
    pub content: ChunkContent,
}

/// The content of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkContent {
    /// Output of the program.
    Output(Vec<u8>),
    /// The terminal was resized.
    Resize(Size),
}

impl OutputPage {
    /// Creates an empty page that begins at `offset`. `clock` is the latest time before it.
    pub(crate) fn new(offset: u64, clock: TsNs) -> OutputPage {
        OutputPage { next_offset: offset, clock, ..OutputPage::default() }
    }

    /// Appends a record. Skips output before the page. Returns false if part of the record does not fit in a page of
    /// `limit` bytes.
    pub(crate) fn push(&mut self, record: &Record<'_>, limit: usize) -> bool {
        self.clock = self.clock.max(record.at);
        match record.body {
            Body::Data { off, bytes } => self.push_output(off, bytes, limit),
            Body::Resize { cols, rows } => {
                self.push_resize(Size::new(cols, rows));
                true
            }
            Body::Input { .. } | Body::Mark(_) | Body::Snapshot { .. } => true,
        }
    }

    fn push_output(&mut self, off: u64, bytes: &[u8], limit: usize) -> bool {
        let skipped = usize::try_from(self.next_offset.saturating_sub(off)).unwrap_or(usize::MAX);
        let Some(new) = bytes.get(skipped..).filter(|new| !new.is_empty()) else {
            if self.bytes == 0 {
                // Resizes that precede skipped output are outdated too.
                self.chunks.clear();
            }
            return true;
        };
        if self.bytes > 0 && (self.bytes >= limit || self.chunks.len() >= MAX_CHUNKS) {
            return false;
        }
        let offset = off.max(self.next_offset);
        let fitting = &new[..new.len().min((limit - self.bytes).max(1))];
        self.bytes += fitting.len();
        self.next_offset = offset + fitting.len() as u64;
        match self.chunks.last_mut() {
            Some(OutputChunk { at, offset: start, content: ChunkContent::Output(output) })
                if millis(*at) == millis(self.clock) && *start + output.len() as u64 == offset =>
            {
                output.extend_from_slice(fitting);
            }
            _ => {
                let content = ChunkContent::Output(fitting.to_vec());
                self.chunks.push(OutputChunk { at: self.clock, offset, content });
            }
        }
        fitting.len() == new.len()
    }

    fn push_resize(&mut self, size: Size) {
        let chunk =
            OutputChunk { at: self.clock, offset: self.next_offset, content: ChunkContent::Resize(size) };
        let is_full = self.chunks.len() >= MAX_CHUNKS;
        match self.chunks.last_mut() {
            // A full page keeps only the last of consecutive resizes.
            Some(last @ OutputChunk { content: ChunkContent::Resize(_), .. }) if is_full => *last = chunk,
            _ => self.chunks.push(chunk),
        }
    }
}

fn millis(at: TsNs) -> u64 {
    at.0 / 1_000_000
}
