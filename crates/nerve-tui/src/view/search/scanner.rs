//! Incremental search: scans a bounded number of lines per step, so that large documents do not block input.

use std::ops::Range;

use super::pattern::Pattern;

/// Lines scanned per step.
pub(crate) const LINES_PER_STEP: u64 = 20_000;

/// Search direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards later lines.
    Down,
    /// Towards earlier lines.
    Up,
}

impl Direction {
    /// Returns the opposite direction.
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Down => Direction::Up,
            Direction::Up => Direction::Down,
        }
    }
}

/// Scans for the next matching line, wrapping around the document's end once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scanner {
    direction: Direction,
    next: u64,
    /// Lines left to scan.
    left: u64,
    wrapped: bool,
}

/// Result of a scan step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanStep {
    /// The line matches.
    Found {
        /// Line number.
        line: u64,
        /// The scan has wrapped around.
        wrapped: bool,
    },
    /// No line matches.
    NotFound,
    /// The budget is used up; lines are left.
    Pending,
}

impl Scanner {
    /// Starts at line `from`, clamped to `lines`.
    pub(crate) fn new(direction: Direction, from: u64, lines: &Range<u64>) -> Scanner {
        let last = lines.end.saturating_sub(1).max(lines.start);
        Scanner {
            direction,
            next: from.clamp(lines.start, last),
            left: lines.end.saturating_sub(lines.start),
            wrapped: false,
        }
    }

    /// Returns the direction.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Scans at most `budget` lines. `text` returns a line's text, or `None` if the line was dropped.
    pub(crate) fn step(
        &mut self,
        pattern: &Pattern,
        lines: &Range<u64>,
        mut budget: u64,
        mut text: impl FnMut(u64) -> Option<String>,
    ) -> ScanStep {
        while self.left > 0 && !lines.is_empty() {
            if budget == 0 {
                return ScanStep::Pending;
            }
            let line = self.next;
            (budget, self.left) = (budget - 1, self.left - 1);
            let is_match = text(line).is_some_and(|text| pattern.is_in(&text));
            let wrapped = self.wrapped;
            self.advance(lines);
            if is_match {
                return ScanStep::Found { line, wrapped };
            }
        }
        ScanStep::NotFound
    }

    fn advance(&mut self, lines: &Range<u64>) {
        let last = lines.end - 1;
        let is_at_end = match self.direction {
            Direction::Down => self.next >= last,
            Direction::Up => self.next <= lines.start,
        };
        self.wrapped |= is_at_end;
        self.next = match (self.direction, is_at_end) {
            (Direction::Down, false) => self.next + 1,
            (Direction::Down, true) => lines.start,
            (Direction::Up, false) => self.next - 1,
            (Direction::Up, true) => last,
        };
    }
}

/// Counts the matches in all lines, a few lines per step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MatchCounter {
    start: u64,
    /// End of the lines counted so far.
    next: u64,
    total: u64,
    /// The match whose position is tracked.
    tracked: Option<MatchPosition>,
}

/// A line's position among the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MatchPosition {
    line: u64,
    /// Matches in earlier lines.
    before: u64,
    /// The line itself has a match. It may have been rewritten or hidden since.
    has_one: bool,
}

impl MatchCounter {
    /// Starts to count; `line` is the match whose position is tracked.
    pub(crate) fn new(lines: &Range<u64>, line: Option<u64>) -> MatchCounter {
        let tracked = line.map(|line| MatchPosition { line, before: 0, has_one: false });
        MatchCounter { start: lines.start, next: lines.start, total: 0, tracked }
    }

    /// Creates a completed count of 0 for the lines from `start` to `next`.
    pub(crate) fn none(start: u64, next: u64) -> MatchCounter {
        MatchCounter { start, next: next.max(start), total: 0, tracked: None }
    }

    /// Returns the first counted line.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the end of the counted lines.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Counts at most `budget` lines. Returns true if lines are left.
    pub(crate) fn step(
        &mut self,
        pattern: &Pattern,
        lines: &Range<u64>,
        budget: u64,
        mut text: impl FnMut(u64) -> Option<String>,
    ) -> bool {
        let start = self.next.max(lines.start);
        let end = lines.end.min(start.saturating_add(budget));
        for line in start..end {
            let count = text(line).map_or(0, |text| pattern.count(&text));
            self.total += count;
            match &mut self.tracked {
                Some(tracked) if line < tracked.line => tracked.before += count,
                Some(tracked) if line == tracked.line => tracked.has_one = count > 0,
                _ => {}
            }
        }
        self.next = self.next.max(end);
        self.next < lines.end
    }

    /// Returns the matches counted so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the 1-based position of the tracked line's first match; `None` until it is reached, or if it has
    /// none.
    pub(crate) fn position(&self) -> Option<u64> {
        self.tracked.filter(|tracked| tracked.has_one).map(|tracked| tracked.before + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 6] = ["one", "a two two", "", "three", "TWO", "end"];

    fn text(line: u64) -> Option<String> {
        LINES.get(line as usize).map(ToString::to_string)
    }

    fn scan(pattern: &str, direction: Direction, from: u64, budget: u64) -> (ScanStep, u32) {
        let pattern = Pattern::new(pattern).unwrap();
        let mut scan = Scanner::new(direction, from, &(0..6));
        for steps in 1.. {
            match scan.step(&pattern, &(0..6), budget, text) {
                ScanStep::Pending => {}
                step => return (step, steps),
            }
        }
        unreachable!()
    }

    #[test]
    fn scans_both_ways_with_wrapping() {
        let found = |line, wrapped| ScanStep::Found { line, wrapped };
        for budget in [1, 2, 100] {
            assert_eq!(scan("two", Direction::Down, 2, budget).0, found(4, false));
            assert_eq!(scan("two", Direction::Down, 5, budget).0, found(1, true));
            assert_eq!(scan("two", Direction::Up, 3, budget).0, found(1, false));
            assert_eq!(scan("two", Direction::Up, 0, budget).0, found(4, true));
            assert_eq!(scan("one", Direction::Down, 1, budget).0, found(0, true));
            assert_eq!(scan("absent", Direction::Up, 99, budget).0, ScanStep::NotFound);
        }
        assert_eq!(scan("absent", Direction::Down, 0, 2).1, 3, "of two lines each");
    }

    #[test]
    fn empty_document_has_no_match() {
        let pattern = Pattern::new("x").unwrap();
        assert_eq!(
            Scanner::new(Direction::Down, 7, &(3..3)).step(&pattern, &(3..3), 9, text),
            ScanStep::NotFound
        );
        assert!(!MatchCounter::new(&(3..3), None).step(&pattern, &(3..3), 9, text));
    }

    #[test]
    fn counts_matches_and_tracks_position() {
        let pattern = Pattern::new("two").unwrap();
        let mut count = MatchCounter::new(&(0..6), Some(4));
        while count.step(&pattern, &(0..6), 2, text) {
            assert!(count.total() < 3 || count.position().is_some());
        }
        assert_eq!((count.total(), count.position()), (3, Some(3)));
        let mut count = MatchCounter::new(&(0..6), Some(3));
        count.step(&pattern, &(0..6), 9, text);
        assert_eq!((count.total(), count.position()), (3, None), "none is in that line");
    }
}
