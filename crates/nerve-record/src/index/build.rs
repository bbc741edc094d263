//! Builds and extends the index sidecar.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nerve_types::Size;
use nerve_types::files::replace_with;
use nerve_vt::terminal::{Keyframe, LineIndex, SequenceState, TerminalState};

use super::entry::{self, BlockEntry, Entry, FrameEntry, Head, MAX_DUMP, Place};
use super::{Index, SPACING};
use crate::ahr::{AhrError, Block, Body, Part, Reader};
use crate::replay::TerminalReplay;

/// Maximum number of listed blocks. When exceeded, every second one is dropped.
const MAX_BLOCKS: usize = 1 << 18;
/// Maximum number of keyframes. When exceeded, every second one is dropped and the spacing doubles.
const MAX_FRAMES: usize = 1 << 12;
/// Output until the next attempt if a keyframe does not reproduce its terminal.
const RETRY_DISTANCE: u64 = 64 << 10;

/// Replays the part of the recording that `old` does not cover, at most about `limit` bytes of output, and writes the sidecar.
pub(super) fn build(recording: &Path, old: Option<&Index>, limit: Option<u64>) -> Result<(), AhrError> {
    let mut reader = Reader::open(recording)?;
    let mut builder = match old {
        Some(index) => Builder::resume(index, &mut reader)?,
        None => Builder::new(),
    };
    let before = builder.head.covered;
    let end = limit.map_or(u64::MAX, |limit| builder.head.end_off.saturating_add(limit));
    reader.read_ahead(|part| {
        if let Part::Block(block) = part {
            builder.block(&block);
            builder.replay.check_work()?;
        }
        Ok(builder.replay.terminal.offset() < end)
    })?;
    if builder.head.covered > before
        && let Err(error) = builder.write(recording)
    {
        tracing::debug!(path = %recording.display(), %error, "no index can be written");
    }
    Ok(())
}

struct Builder {
    head: Head,
    blocks: Vec<BlockEntry>,
    /// Each with its compressed dump.
    frames: Vec<(FrameEntry, Vec<u8>)>,
    replay: TerminalReplay,
    sequence: SequenceState,
    /// Output offset at which the next keyframe is due.
    due: u64,
    /// Records of the next block that were already replayed.
    replayed: u32,
}

impl Builder {
    fn new() -> Builder {
        Builder {
            head: Head { stride: 1, ..Head::default() },
            blocks: Vec::new(),
            frames: Vec::new(),
            replay: without_scrollback(TerminalReplay::new(Size::default())),
            sequence: SequenceState::Ground,
            due: SPACING,
            replayed: 0,
        }
    }

    /// Resumes at the last keyframe of `index`. Known blocks are replayed but not listed again.
    fn resume(index: &Index, reader: &mut Reader<BufReader<File>>) -> Result<Builder, AhrError> {
        let mut builder = Builder { head: index.head, ..Builder::new() };
        for nth in 0..index.head.blocks {
            let Some(entry) = index.entry(index.head.blocks_at(), nth) else { return Ok(Builder::new()) };
            builder.blocks.push(entry);
        }
        for nth in 0..index.head.frames {
            let entry: Option<FrameEntry> = index.entry(index.head.frames_at(), nth);
            let packed = entry.and_then(|entry| Some((entry, entry.packed(&index.file)?)));
            // A damaged keyframe is dropped; the previous one replaces it.
            builder.frames.extend(packed);
        }
        while let Some((last, _)) = builder.frames.last() {
            let (last, keyframe) = (*last, last.keyframe(&index.file));
            if let Some(keyframe) = keyframe {
                builder.replay = without_scrollback(TerminalReplay::from_keyframe(&keyframe));
                builder.due = last.offset + builder.spacing();
                builder.replayed = last.place.records;
                reader.seek_to(last.place.block)?;
                break;
            }
            builder.frames.pop();
        }
        Ok(builder)
    }

    fn block(&mut self, block: &Block) {
        let is_listed = block.file_off < self.head.covered;
        self.replay.begin_block(block);
        let skip = std::mem::take(&mut self.replayed);
        for (nth, record) in (0..).zip(block.records()) {
            if nth < skip {
                continue;
            }
            if self.replay.terminal.offset() >= self.due && self.sequence == SequenceState::Ground {
                self.keyframe(Place { block: block.file_off, records: nth });
            }
            if let Body::Data { off, bytes } = record.body {
                if off > self.replay.terminal.offset() {
                    self.sequence = SequenceState::Ground;
                }
                self.sequence.feed(bytes);
            }
            self.replay.apply(&record);
            if nth == 0 && !is_listed {
                self.list(block);
            }
        }
        self.head.covered = self.head.covered.max(block.file().end);
        (self.head.end_off, self.head.end_at) = (self.replay.terminal.offset(), self.replay.clock());
    }

    /// Lists a block whose first record was just replayed.
    fn list(&mut self, block: &Block) {
        self.head.skipped += 1;
        if self.head.skipped < self.head.stride && !self.blocks.is_empty() {
            return;
        }
        self.head.skipped = 0;
        let offset = block.output().start;
        self.blocks.push(BlockEntry { file_off: block.file_off, at: self.replay.clock(), offset });
        if self.blocks.len() > MAX_BLOCKS {
            thin(&mut self.blocks);
            self.head.stride *= 2;
        }
    }

    fn keyframe(&mut self, place: Place) {
        let offset = self.replay.terminal.offset();
        self.due = offset + RETRY_DISTANCE;
        let Some(keyframe) = self.replay.keyframe() else { return };
        if keyframe.dump.len() > MAX_DUMP || !round_trips(&keyframe, &self.replay.terminal) {
            return;
        }
        let packed = pack(&keyframe.dump);
        let entry = FrameEntry {
            place,
            at: keyframe.at,
            offset,
            first_line: keyframe.first_line,
            size: keyframe.size,
            hidden: keyframe.hidden,
            dump_at: 0,
            dump_len: u32::try_from(packed.len()).unwrap_or(u32::MAX),
            dump_checksum: crc32c::crc32c(&packed),
        };
        self.frames.push((entry, packed));
        if self.frames.len() > MAX_FRAMES {
            thin(&mut self.frames);
        }
        self.due = offset + self.spacing();
    }

    /// Returns the output between keyframes, which grows when they are thinned.
    fn spacing(&self) -> u64 {
        let frames = self.frames.len() as u64;
        let mean = self.frames.last().map_or(0, |(last, _)| last.offset / frames.max(1));
        if mean < SPACING * 3 / 2 { SPACING } else { mean }
    }

    /// Replaces the sidecar atomically.
    fn write(mut self, recording: &Path) -> io::Result<()> {
        self.head.samples = entry::samples(&File::open(recording)?, self.head.covered)
            .ok_or_else(|| io::Error::other("the recording is shorter than it was"))?;
        let count = |len: usize| u32::try_from(len).map_err(io::Error::other);
        (self.head.blocks, self.head.frames) = (count(self.blocks.len())?, count(self.frames.len())?);
        replace_with(&Index::sidecar_path(recording), |file| self.write_to(file))
    }

    fn write_to(&mut self, file: &mut File) -> io::Result<()> {
        let mut tables = Vec::new();
        self.head.encode(&mut tables);
        self.blocks.iter().for_each(|entry| entry.encode(&mut tables));
        let mut at = self.head.frames_at() + (self.frames.len() * FrameEntry::LEN) as u64;
        for (entry, packed) in &mut self.frames {
            entry.dump_at = at;
            at += packed.len() as u64;
            entry.encode(&mut tables);
        }
        file.write_all(&tables)?;
        for (entry, packed) in &self.frames {
            file.write_all_at(packed, entry.dump_at)?;
        }
        Ok(())
    }
}

/// Disables the scrollback, which an index does not need.
fn without_scrollback(replay: TerminalReplay) -> TerminalReplay {
    replay.with_limits(1, 0)
}

/// Drops every second entry, beginning with the second.
fn thin<T>(entries: &mut Vec<T>) {
    let mut keep = false;
    entries.retain(|_| {
        keep = !keep;
        keep
    });
}

/// Returns true if the keyframe reproduces both screens of the terminal.
fn round_trips(keyframe: &Keyframe, terminal: &TerminalState) -> bool {
    let copy = TerminalState::from_keyframe(keyframe);
    let first = keyframe.first_line;
    let mut rows = first..first + u64::from(keyframe.size.rows);
    copy.screen() == terminal.screen()
        && rows.all(|row| copy.line_content(LineIndex(row)) == terminal.line_content(LineIndex(row)))
}

fn pack(dump: &[u8]) -> Vec<u8> {
    let params = brotli::enc::BrotliEncoderParams { quality: 4, lgwin: 18, ..Default::default() };
    let mut packed = Vec::new();
    // Writing to memory cannot fail; the checksum would reveal an empty dump.
    let _ = brotli::BrotliCompress(&mut &*dump, &mut packed, &params);
    packed
}
