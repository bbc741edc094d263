//! The index of a recording: positions of its blocks, and keyframes to resume from. It makes seeking in a long
//! recording as fast as in a short one.
//!
//! The index is the sidecar `<stem>.ahr.index`. Recorders and readers create it. It only speeds things up: a sidecar that is
//! missing, damaged, outdated or of another recording is rebuilt. Without a sidecar, the recording is replayed from its
//! start. If the recording has grown, only the new part is replayed.
//!
//! | file | contents |
//! |---|---|
//! | `entry` | encoding of the sidecar |
//! | `build` | creation and extension |

mod build;
mod entry;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nerve_types::TsNs;
use nerve_vt::terminal::Keyframe;

use crate::ahr::AhrError;
use entry::{Entry, FrameEntry, Head};

pub use entry::{BlockEntry, Place};

/// Output bytes between two keyframes.
pub const SPACING: u64 = 4 << 20;
/// Shorter recordings are replayed from their start, which is as fast.
const MIN_RECORDING_LEN: u64 = 64 << 10;
/// Growth of a recording in bytes after which its index is extended.
const MIN_GROWTH: u64 = 256 << 10;

/// A position in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Position after all output before this 0-based offset.
    Offset(u64),
    /// Position after everything up to this time. If the clock was set back, time stands still until it catches up.
    Time(TsNs),
}

/// An index that matches its recording. Entries are read on demand.
#[derive(Debug)]
pub struct Index {
    file: File,
    head: Head,
}

impl Index {
    /// Returns the path of a recording's sidecar.
    pub fn sidecar_path(recording: &Path) -> PathBuf {
        let mut path = recording.as_os_str().to_owned();
        path.push(".index");
        path.into()
    }

    /// Opens the existing index; `None` unless it matches the recording.
    pub fn open(recording: &Path) -> Option<Index> {
        let file = File::open(Index::sidecar_path(recording)).ok()?;
        let index = Index { head: Head::read(&file)?, file };
        let len = std::fs::metadata(recording).ok()?.len();
        (index.head.covered <= len && index.head.fits(&File::open(recording).ok()?)).then_some(index)
    }

    /// Opens the index after creating or extending it if necessary. `None` for a recording too short to need one, and
    /// if the sidecar cannot be written.
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
        build::build(recording, old.as_ref(), None)?;
        Ok(Index::open(recording))
    }

    /// Creates or extends the index by at most about `output` bytes of output. Returns false if it does not reach `to` yet:
    /// a further call continues. If the sidecar cannot be written, nothing is gained by waiting, and the result is true.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn extend(recording: &Path, to: Position, output: u64) -> Result<bool, AhrError> {
        let is_enough = |index: Option<&Index>| {
            let len = std::fs::metadata(recording).map_or(0, |meta| meta.len());
            suffices(index, len) || index.is_some_and(|index| index.reaches(to))
        };
        let old = Index::open(recording);
        if is_enough(old.as_ref()) {
            return Ok(true);
        }
        build::build(recording, old.as_ref(), Some(output))?;
        let new = Index::open(recording);
        let has_grown = new.as_ref().map(Index::covered) > old.as_ref().map(Index::covered);
        Ok(!has_grown || is_enough(new.as_ref()))
    }

    /// Returns true if the covered part contains a position.
    fn reaches(&self, to: Position) -> bool {
        match to {
            Position::Offset(offset) => offset <= self.head.end_off,
            Position::Time(at) => at < self.head.end_at,
        }
    }

    /// Returns true if [`Index::ensure`] has nothing to do: the index is up to date, or the recording is too short for
    /// one.
    pub fn is_ready(recording: &Path) -> bool {
        let len = std::fs::metadata(recording).map_or(0, |meta| meta.len());
        suffices(Index::open(recording).as_ref(), len)
    }

    /// Returns the number of bytes of the recording that are covered.
    pub fn covered(&self) -> u64 {
        self.head.covered
    }

    /// Returns output bytes and latest time of the covered part.
    pub fn end(&self) -> (u64, TsNs) {
        (self.head.end_off, self.head.end_at)
    }

    /// Returns the number of listed blocks: all, or a power-of-two fraction in a very long recording.
    pub fn blocks(&self) -> u32 {
        self.head.blocks
    }

    /// Returns the number of keyframes.
    pub fn keyframes(&self) -> u32 {
        self.head.frames
    }

    /// Returns the last listed block at or before `to`.
    pub fn block_before(&self, to: Position) -> Option<BlockEntry> {
        self.last(self.head.blocks, self.head.blocks_at(), |entry: &BlockEntry| match to {
            Position::Offset(offset) => entry.offset <= offset,
            Position::Time(at) => entry.at <= at,
        })
        .map(|(_, entry)| entry)
    }

    /// Returns the last keyframe at or before `to`, and where to resume reading.
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
            // A damaged keyframe is replaced by the previous one.
            nth = nth.checked_sub(1)?;
            entry = self.entry(self.head.frames_at(), nth)?;
        }
    }

    /// Finds the last entry for which `before` holds, by binary search.
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

/// Returns true if the index suffices for a recording of `len` bytes.
fn suffices(index: Option<&Index>, len: u64) -> bool {
    match index {
        Some(index) => len.saturating_sub(index.head.covered) < MIN_GROWTH,
        None => len < MIN_RECORDING_LEN,
    }
}
