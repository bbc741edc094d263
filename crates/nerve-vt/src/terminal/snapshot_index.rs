//! Snapshots by the line on which they were taken.

use nerve_types::TsNs;

use super::line::LineIndex;

/// A snapshot in a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Id of the snapshot.
    pub id: u64,
    /// Name of the snapshot.
    pub label: Option<String>,
    /// Time of the snapshot.
    pub at: TsNs,
    /// Output bytes before the snapshot.
    pub offset: u64,
    /// Column of the cursor, 0-based. Set by [`TerminalState::record_snapshot`](super::TerminalState::record_snapshot).
    pub col: u16,
    /// The alternate screen was shown. Line and column are then the main screen's position when it was left. Set like
    /// `col`.
    pub alternate: bool,
}

/// Snapshots ordered by line, then by time.
#[derive(Debug, Default)]
pub(super) struct SnapshotIndex {
    sorted: Vec<SnapshotEntry>,
    /// Number of snapshots ever taken.
    taken: u64,
}

#[derive(Debug)]
struct SnapshotEntry {
    line: LineIndex,
    /// Sequence number. Times do not define an order, because clocks step back.
    nth: u64,
    snapshot: Snapshot,
}

impl SnapshotIndex {
    pub(super) fn record(&mut self, line: LineIndex, snapshot: Snapshot) {
        let at = self.sorted.partition_point(|other| other.line <= line);
        self.sorted.insert(at, SnapshotEntry { line, nth: self.taken, snapshot });
        self.taken += 1;
    }

    /// Renumbers the lines from `top` on. `map_position` maps a row (0 is `top`) and column to their new values.
    pub(super) fn remap_lines(&mut self, top: u64, map_position: impl Fn(usize, u16) -> (usize, u16)) {
        let first = self.sorted.partition_point(|other| other.line.0 < top);
        let moved = &mut self.sorted[first..];
        for entry in moved.iter_mut() {
            let Ok(row) = usize::try_from(entry.line.0 - top) else { continue };
            let (row, col) = map_position(row, entry.snapshot.col);
            (entry.line, entry.snapshot.col) = (LineIndex(top + row as u64), col);
        }
        // Restores the order of snapshots on rows that were joined.
        moved.sort_by_key(|entry| (entry.line, entry.nth));
    }

    /// Returns the snapshots of a line, oldest first.
    pub(super) fn at_line(
        &self,
        line: LineIndex,
    ) -> impl DoubleEndedIterator<Item = &Snapshot> + ExactSizeIterator {
        let first = self.sorted.partition_point(|other| other.line < line);
        let end = self.sorted.partition_point(|other| other.line <= line);
        self.sorted[first..end].iter().map(|entry| &entry.snapshot)
    }

    pub(super) fn before(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        let at = self.sorted.partition_point(|other| other.line < line).checked_sub(1)?;
        self.sorted.get(at).map(SnapshotEntry::pair)
    }

    pub(super) fn after(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        let at = self.sorted.partition_point(|other| other.line <= line);
        self.sorted.get(at).map(SnapshotEntry::pair)
    }

    pub(super) fn by_line(
        &self,
    ) -> impl DoubleEndedIterator<Item = (LineIndex, &Snapshot)> + ExactSizeIterator {
        self.sorted.iter().map(SnapshotEntry::pair)
    }

    pub(super) fn by_time(&self) -> Vec<(LineIndex, &Snapshot)> {
        let mut entries: Vec<&SnapshotEntry> = self.sorted.iter().collect();
        entries.sort_by_key(|entry| entry.nth);
        entries.into_iter().map(SnapshotEntry::pair).collect()
    }
}

impl SnapshotEntry {
    fn pair(&self) -> (LineIndex, &Snapshot) {
        (self.line, &self.snapshot)
    }
}
