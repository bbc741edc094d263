//! Looking for text in the lines of a document, a bounded number of lines at a time: a million lines must not hold up a key.

use std::ops::Range;

use super::pattern::Pattern;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To later lines.
    Down,
    /// To earlier lines.
    Up,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Down => Direction::Up,
            Direction::Up => Direction::Down,
        }
    }
}

/// The way to the next line with a match: from one line on, around the end of the document, back to that line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanner {
    direction: Direction,
    next: u64,
    /// Lines still to look at.
    left: u64,
    wrapped: bool,
}

/// How far a hunt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanStep {
    /// In this line. `wrapped`: it went around the end.
    Found {
        /// Its number.
        line: u64,
        /// Behind the end of the document, or before its start.
        wrapped: bool,
    },
    /// In none.
    NotFound,
    /// Not through yet.
    Pending,
}

impl Scanner {
    /// Begins at line `from`, or at the end it is beyond of. `lines` of the document are looked at.
    pub fn new(direction: Direction, from: u64, lines: &Range<u64>) -> Scanner {
        let last = lines.end.saturating_sub(1).max(lines.start);
        Scanner {
            direction,
            next: from.clamp(lines.start, last),
            left: lines.end.saturating_sub(lines.start),
            wrapped: false,
        }
    }

    /// Looks at `budget` lines at most. `text` gives a line's text, `None` where it is not there any more.
    pub fn step(
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
            let found = text(line).is_some_and(|text| pattern.is_in(&text));
            let wrapped = self.wrapped;
            self.advance(lines);
            if found {
                return ScanStep::Found { line, wrapped };
            }
        }
        ScanStep::NotFound
    }

    fn advance(&mut self, lines: &Range<u64>) {
        let last = lines.end - 1;
        let beyond = match self.direction {
            Direction::Down => self.next >= last,
            Direction::Up => self.next <= lines.start,
        };
        self.wrapped |= beyond;
        self.next = match (self.direction, beyond) {
            (Direction::Down, false) => self.next + 1,
            (Direction::Down, true) => lines.start,
            (Direction::Up, false) => self.next - 1,
            (Direction::Up, true) => last,
        };
    }
}

/// The matches in all lines, counted a few lines at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatchCounter {
    start: u64,
    /// Lines counted so far end here.
    next: u64,
    total: u64,
    /// The line whose place is wanted.
    of: Option<MatchPosition>,
}

/// A line's place among the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MatchPosition {
    line: u64,
    /// Matches in lines before it.
    before: u64,
    /// It has one itself: it may have become another line, or be hidden now.
    has_one: bool,
}

impl MatchCounter {
    /// Begins anew; `line` is the one whose place among the matches is wanted.
    pub fn new(lines: &Range<u64>, line: Option<u64>) -> MatchCounter {
        let of = line.map(|line| MatchPosition { line, before: 0, has_one: false });
        MatchCounter { start: lines.start, next: lines.start, total: 0, of }
    }

    /// Nothing was found in the lines from `start` to `next`.
    pub fn none(start: u64, next: u64) -> MatchCounter {
        MatchCounter { start, next: next.max(start), total: 0, of: None }
    }

    /// The first line that is counted in.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The first line that is not counted yet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Counts in `budget` lines at most; true when there are lines left.
    pub fn step(
        &mut self,
        pattern: &Pattern,
        lines: &Range<u64>,
        budget: u64,
        mut text: impl FnMut(u64) -> Option<String>,
    ) -> bool {
        let start = self.next.max(lines.start);
        let end = lines.end.min(start.saturating_add(budget));
        for line in start..end {
            let found = text(line).map_or(0, |text| pattern.count(&text));
            self.total += found;
            match &mut self.of {
                Some(of) if line < of.line => of.before += found,
                Some(of) if line == of.line => of.has_one = found > 0,
                _ => {}
            }
        }
        self.next = self.next.max(end);
        self.next < lines.end
    }

    /// All matches in the lines counted so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Which of them is the first one in the line that was asked for, 1-based; `None` before that line was reached, and if none is in it.
    pub fn position(&self) -> Option<u64> {
        self.of.filter(|of| of.has_one).map(|of| of.before + 1)
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
    fn both_ways_around_the_ends_and_in_small_steps() {
        let found = |line, wrapped| ScanStep::Found { line, wrapped };
        for budget in [1, 2, 100] {
            assert_eq!(scan("two", Direction::Down, 2, budget).0, found(4, false));
            assert_eq!(scan("two", Direction::Down, 5, budget).0, found(1, true));
            assert_eq!(scan("two", Direction::Up, 3, budget).0, found(1, false));
            assert_eq!(scan("two", Direction::Up, 0, budget).0, found(4, true));
            assert_eq!(scan("one", Direction::Down, 1, budget).0, found(0, true));
            assert_eq!(scan("nobody", Direction::Up, 99, budget).0, ScanStep::NotFound);
        }
        assert_eq!(scan("nobody", Direction::Down, 0, 2).1, 3, "of two lines each");
    }

    #[test]
    fn an_empty_document_holds_nothing() {
        let pattern = Pattern::new("x").unwrap();
        assert_eq!(
            Scanner::new(Direction::Down, 7, &(3..3)).step(&pattern, &(3..3), 9, text),
            ScanStep::NotFound
        );
        assert!(!MatchCounter::new(&(3..3), None).step(&pattern, &(3..3), 9, text));
    }

    #[test]
    fn matches_are_counted_and_the_one_found_has_a_place_among_them() {
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
