//! Snapshots tied to the lines that were active when they were taken (seed agent-record §7).

use super::LineIndex;
use crate::event::TsNs;

/// A snapshot as the terminal knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Its id.
    pub id: u64,
    /// Its name, if it has one.
    pub label: Option<String>,
    /// When it was taken.
    pub at: TsNs,
    /// Output bytes before it.
    pub offset: u64,
    /// Column of the cursor, 0-based. [`TerminalState::record_snapshot`](super::TerminalState::record_snapshot) sets it.
    pub col: u16,
    /// It was taken on the alternate screen, whose lines are none of the session's: line and column are those at which the
    /// main screen under it was left. Set like `col`.
    pub alternate: bool,
}

/// Snapshots by line; on one line in the order they were taken.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    sorted: Vec<Anchor>,
    /// How many were ever taken.
    taken: u64,
}

#[derive(Debug)]
struct Anchor {
    line: LineIndex,
    /// How many were taken before it. Times are no order: clocks step back.
    nth: u64,
    snapshot: Snapshot,
}

impl Anchors {
    pub(super) fn record(&mut self, line: LineIndex, snapshot: Snapshot) {
        let at = self.sorted.partition_point(|other| other.line <= line);
        self.sorted.insert(at, Anchor { line, nth: self.taken, snapshot });
        self.taken += 1;
    }

    /// Lines from `top` on have other numbers: `carried` says which row (0 is `top`) and column a row and column are now.
    pub(super) fn carry(&mut self, top: u64, carried: impl Fn(usize, u16) -> (usize, u16)) {
        let first = self.sorted.partition_point(|other| other.line.0 < top);
        let moved = &mut self.sorted[first..];
        for anchor in moved.iter_mut() {
            let Ok(row) = usize::try_from(anchor.line.0 - top) else { continue };
            let (row, col) = carried(row, anchor.snapshot.col);
            (anchor.line, anchor.snapshot.col) = (LineIndex(top + row as u64), col);
        }
        // Rows that became one have their snapshots in the order they were taken.
        moved.sort_by_key(|anchor| (anchor.line, anchor.nth));
    }

    /// Those of that line, in the order they were taken.
    pub(super) fn on(
        &self,
        line: LineIndex,
    ) -> impl DoubleEndedIterator<Item = &Snapshot> + ExactSizeIterator {
        let first = self.sorted.partition_point(|other| other.line < line);
        let end = self.sorted.partition_point(|other| other.line <= line);
        self.sorted[first..end].iter().map(|anchor| &anchor.snapshot)
    }

    pub(super) fn before(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        let at = self.sorted.partition_point(|other| other.line < line).checked_sub(1)?;
        self.sorted.get(at).map(Anchor::pair)
    }

    pub(super) fn after(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        let at = self.sorted.partition_point(|other| other.line <= line);
        self.sorted.get(at).map(Anchor::pair)
    }

    pub(super) fn by_line(
        &self,
    ) -> impl DoubleEndedIterator<Item = (LineIndex, &Snapshot)> + ExactSizeIterator {
        self.sorted.iter().map(Anchor::pair)
    }

    pub(super) fn by_time(&self) -> Vec<(LineIndex, &Snapshot)> {
        let mut taken: Vec<&Anchor> = self.sorted.iter().collect();
        taken.sort_by_key(|anchor| anchor.nth);
        taken.into_iter().map(Anchor::pair).collect()
    }
}

impl Anchor {
    fn pair(&self) -> (LineIndex, &Snapshot) {
        (self.line, &self.snapshot)
    }
}
