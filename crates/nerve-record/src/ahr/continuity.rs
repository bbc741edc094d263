//! Comparison of consecutive blocks: output that does not continue, and times out of range.

use std::time::Duration;

use nerve_types::TsNs;

use super::block::{Block, TimeRange};
use super::contradiction::Contradiction;
use super::record::{Body, Mark};

/// Clocks may step by this much. Metadata and the next block limit times with this tolerance.
const TOLERANCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest time between two blocks. A longer one is a damaged number.
const MAX_PAUSE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Compares each block with those before it.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    /// Expected output offset of the next record; `None` after a seek.
    output_end: Option<u64>,
    /// The next jump in the output is already explained.
    is_excused: bool,
    /// The latest time so far.
    clock: Option<TsNs>,
    /// Start and end of the session, from the metadata.
    session: Option<(TsNs, Option<TsNs>)>,
}

impl Continuity {
    pub(super) fn new() -> Continuity {
        Continuity { output_end: Some(0), ..Continuity::default() }
    }

    /// Limits times to a session, if the recording's first time agrees with its start.
    pub(super) fn set_session(&mut self, start: TsNs, end: Option<TsNs>, first: TsNs) {
        self.session = (distance(start, first) <= TOLERANCE).then_some((start, end));
    }

    /// Continues elsewhere in the file; `output_end` is the output before that place, if known.
    pub(super) fn restart(&mut self, output_end: Option<u64>) {
        (self.output_end, self.is_excused, self.clock) = (output_end, false, None);
    }

    /// Explains a jump of the output before the next block.
    pub(super) fn excuse(&mut self) {
        self.is_excused = true;
    }

    /// Compares a block with its predecessors, and limits its times. `next`: the time of the block after it.
    pub(super) fn check(&mut self, block: &mut Block, next: Option<TsNs>) -> Vec<Contradiction> {
        let mut contradictions = Vec::new();
        for record in block.records() {
            match record.body {
                Body::Data { off, bytes } => contradictions.extend(self.output(off, bytes.len() as u64)),
                Body::Mark(Mark::Gap(_)) => self.excuse(),
                _ => {}
            }
        }
        if block.damage().is_some() {
            self.excuse();
        }
        contradictions.extend(self.limit_times(block, next));
        contradictions
    }

    fn output(&mut self, off: u64, len: u64) -> Option<Contradiction> {
        let end = off.saturating_add(len);
        let expected = self.output_end.replace(end)?;
        let is_excused = std::mem::take(&mut self.is_excused);
        if off < expected {
            return Some(Contradiction::Repeated(off..expected.min(end)));
        }
        (off > expected && !is_excused).then_some(Contradiction::Missing(expected..off))
    }

    fn limit_times(&mut self, block: &mut Block, next: Option<TsNs>) -> Option<Contradiction> {
        let range = self.time_range(block, next)?;
        let start = block.header.start;
        let is_outside = |at: &TsNs| !range.contains(*at);
        let header = Some(start).filter(|at| at.0 > 0);
        let mut outside =
            header.into_iter().chain(block.records().map(|record| record.at)).filter(is_outside);
        let found = outside.next().map(|first| {
            let count = u32::try_from(1 + outside.count()).unwrap_or(u32::MAX);
            Contradiction::Times { block: block.file_off, count, first }
        });
        if found.is_some() {
            block.limit_times(range);
        }
        // A header alone proves nothing: no checksum protects it.
        let latest = block.records().map(|record| record.at).max();
        self.clock = self.clock.max(latest.filter(|at| at.0 > 0));
        found
    }

    /// Returns the possible times of a block.
    fn time_range(&self, block: &Block, next: Option<TsNs>) -> Option<TimeRange> {
        let first = block.records().next().map(|record| record.at);
        let start = Some(block.header.start).filter(|at| at.0 > 0);
        let agrees = |at: &TsNs| next.is_some_and(|next| distance(*at, next) <= MAX_PAUSE);
        let session = self.session.map(|(start, _)| start);
        let own = [first, start].into_iter().flatten().find(agrees).or(first).or(start);
        let reference = self.clock.or(session).or(own)?;
        let mut range = TimeRange {
            earliest: reference - MAX_PAUSE,
            latest: reference + MAX_PAUSE,
            reference: self.clock.unwrap_or(reference),
        };
        if let Some((start, end)) = self.session {
            range.earliest = range.earliest.max(start - TOLERANCE);
            range.latest = end.map_or(range.latest, |end| range.latest.min(end + TOLERANCE));
        }
        // A next block that begins long before this one is itself wrong.
        let is_later = |next: &TsNs| *next + TOLERANCE >= start.or(first).unwrap_or_default();
        if let Some(next) = next.filter(|next| range.contains(*next)).filter(is_later) {
            range.latest = range.latest.min((next + TOLERANCE).max(range.reference));
        }
        Some(range)
    }
}

fn distance(one: TsNs, other: TsNs) -> Duration {
    one.max(other).since(one.min(other))
}
