//! The index of a recording: where its blocks are, and keyframes to go on from, so that opening a long recording at any place
//! costs as much as opening a short one.
//!
//! It is the sidecar `<stem>.ahr.index`, made when it is first needed and never needed for correctness: one that is missing,
//! damaged, of another version or of another recording is made anew, and without any the recording is folded from its start.
//! When the recording has grown, only what is new is folded.
//!
//! | file | what it is |
//! |---|---|
//! | `entry` | the numbers of the sidecar and their bytes |
//! | `build` | makes and extends it |

mod build;
mod entry;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nerve_term::event::TsNs;
use nerve_term::terminal::Keyframe;

use crate::ahr::AhrError;
use entry::{Entry, FrameEntry, Head};

pub use entry::BlockEntry;

/// Output between two keyframes.
pub const SPACING: u64 = 4 << 20;
/// Recordings shorter than this, on disk, are folded from their start: that is as fast.
const MIN_RECORDING_LEN: u64 = 64 << 10;
/// An index is extended when the recording has grown by this much.
const MIN_GROWTH: u64 = 256 << 10;
/// Bytes of a dump that are worth keeping.
const MAX_DUMP: usize = 16 << 20;

/// A place in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Behind everything that came before output byte number this (0-based).
    Offset(u64),
    /// Behind everything up to this time. Where the clock stepped back, time stands still until it is made good.
    Time(TsNs),
}

/// Where to go on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// A block's file offset.
    pub block: u64,
    /// How many of its records to leave out.
    pub records: u32,
}

/// An index that fits its recording. Only what is asked for is read.
#[derive(Debug)]
pub struct Index {
    file: File,
    head: Head,
}

impl Index {
    /// The sidecar of a recording.
    pub fn path_of(recording: &Path) -> PathBuf {
        let mut path = recording.as_os_str().to_owned();
        path.push(".index");
        path.into()
    }

    /// The index there is, if it fits the recording: what it covers must still be there as it was.
    pub fn open(recording: &Path) -> Option<Index> {
        let file = File::open(Index::path_of(recording)).ok()?;
        let index = Index { head: Head::read(&file)?, file };
        let len = std::fs::metadata(recording).ok()?.len();
        (index.head.covered <= len && index.head.fits(&File::open(recording).ok()?)).then_some(index)
    }

    /// The index there is, made, or extended. `None` if the recording is so short that none is worth it. A sidecar that cannot
    /// be written is no error: there is none then.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn ensure(recording: &Path) -> Result<Option<Index>, AhrError> {
        let len = std::fs::metadata(recording).map_err(|source| AhrError::Io {
            action: "look at",
            path: recording.into(),
            source,
        })?;
        let old = Index::open(recording);
        if suffices(old.as_ref(), len.len()) {
            return Ok(old);
        }
        build::build(recording, old.as_ref())?;
        Ok(Index::open(recording))
    }

    /// Nothing is left to do for [`Index::ensure`]: the index is there, or the recording is too short for one.
    pub fn is_ready(recording: &Path) -> bool {
        let len = std::fs::metadata(recording).map_or(0, |meta| meta.len());
        suffices(Index::open(recording).as_ref(), len)
    }

    /// Bytes of the recording it covers.
    pub fn covered(&self) -> u64 {
        self.head.covered
    }

    /// Output bytes and the latest time of what it covers.
    pub fn end(&self) -> (u64, TsNs) {
        (self.head.end_off, self.head.end_at)
    }

    /// Blocks it lists: all, or every second, fourth … of a recording with very many.
    pub fn blocks(&self) -> u32 {
        self.head.blocks
    }

    /// Keyframes it has.
    pub fn keyframes(&self) -> u32 {
        self.head.frames
    }

    /// The last listed block that begins at or before `to`.
    pub fn block_before(&self, to: Position) -> Option<BlockEntry> {
        self.last(self.head.blocks, self.head.blocks_at(), |entry: &BlockEntry| match to {
            Position::Offset(offset) => entry.offset <= offset,
            Position::Time(at) => entry.at <= at,
        })
        .map(|(_, entry)| entry)
    }

    /// The last keyframe at or before `to`, and where to go on reading.
    pub fn keyframe_before(&self, to: Position) -> Option<(Keyframe, Place)> {
        let (mut nth, mut entry) =
            self.last(self.head.frames, self.head.frames_at(), |entry: &FrameEntry| match to {
                Position::Offset(offset) => entry.offset <= offset,
                Position::Time(at) => entry.at <= at,
            })?;
        loop {
            if let Some(keyframe) = entry.keyframe(&self.file) {
                return Some((keyframe, entry.place));
            }
            // Damaged: the one before it does as well.
            nth = nth.checked_sub(1)?;
            entry = self.entry(self.head.frames_at(), nth)?;
        }
    }

    /// Binary search for the last entry for which `before` holds.
    fn last<E: Entry>(&self, count: u32, table: u64, before: impl Fn(&E) -> bool) -> Option<(u32, E)> {
        let (mut low, mut high, mut found) = (0, count, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry(table, middle)?;
            if before(&entry) {
                (low, found) = (middle + 1, Some((middle, entry)));
            } else {
                high = middle;
            }
        }
        found
    }

    fn entry<E: Entry>(&self, table: u64, nth: u32) -> Option<E> {
        let mut bytes = vec![0; E::LEN];
        self.file.read_exact_at(&mut bytes, table + u64::from(nth) * E::LEN as u64).ok()?;
        E::decode(&bytes)
    }
}

/// Whether this index does for a recording of so many bytes.
fn suffices(index: Option<&Index>, len: u64) -> bool {
    match index {
        Some(index) => len.saturating_sub(index.head.covered) < MIN_GROWTH,
        None => len < MIN_RECORDING_LEN,
    }
}
