//! Snapshots tied to the lines that were active when they were taken (seed agent-record §7).

use super::LineIndex;
use crate::event::TsNs;

/// A snapshot as the terminal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: u64,
    /// Its name, if it has one.
    pub label: Option<String>,
    /// When it was taken.
    pub at: TsNs,
    /// Output bytes before it.
    pub offset: u64,
}

/// Snapshots by line; on one line in the order they were taken.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    sorted: Vec<(LineIndex, Snapshot)>,
}

impl Anchors {
    pub(super) fn record(&mut self, line: LineIndex, snapshot: Snapshot) {
        let at = self.sorted.partition_point(|(other, _)| *other <= line);
        self.sorted.insert(at, (line, snapshot));
    }

    /// The latest one of that line.
    pub(super) fn at(&self, line: LineIndex) -> Option<&Snapshot> {
        let after = self.sorted.partition_point(|(other, _)| *other <= line);
        let (found, snapshot) = self.sorted.get(after.checked_sub(1)?)?;
        (*found == line).then_some(snapshot)
    }

    pub(super) fn before(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        let at = self.sorted.partition_point(|(other, _)| *other < line).checked_sub(1)?;
        self.sorted.get(at).map(|(line, snapshot)| (*line, snapshot))
    }

    pub(super) fn after(&self, line: LineIndex) -> Option<(LineIndex, &Snapshot)> {
        let at = self.sorted.partition_point(|(other, _)| *other <= line);
        self.sorted.get(at).map(|(line, snapshot)| (*line, snapshot))
    }
}
