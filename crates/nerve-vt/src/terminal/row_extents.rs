//! Upper bounds of the used columns in each row of the main screen. They make storing short rows cheap.

use std::collections::VecDeque;

use nerve_types::Size;

/// An upper bound for each row: the columns from it on are blank.
#[derive(Debug)]
pub(super) struct Extents {
    ends: VecDeque<u16>,
    cols: u16,
}

impl Extents {
    /// Creates the extents of a blank screen.
    pub(super) fn new(size: Size) -> Extents {
        Extents { ends: vec![0; usize::from(size.rows)].into(), cols: size.cols }
    }

    /// Creates the extents of a screen with unknown contents.
    pub(super) fn full(size: Size) -> Extents {
        Extents { ends: vec![size.cols; usize::from(size.rows)].into(), cols: size.cols }
    }

    pub(super) fn get(&self, row: i32) -> usize {
        let end = usize::try_from(row).ok().and_then(|row| self.ends.get(row));
        usize::from(end.copied().unwrap_or(self.cols))
    }

    pub(super) fn set(&mut self, row: i32, end: usize) {
        let cols = self.cols;
        if let Some(slot) = usize::try_from(row).ok().and_then(|row| self.ends.get_mut(row)) {
            *slot = u16::try_from(end).unwrap_or(cols).min(cols);
        }
    }

    pub(super) fn touch(&mut self, row: i32, end: usize) {
        if self.get(row) < end {
            self.set(row, end);
        }
    }

    /// Removes rows at the top and adds blank ones at the bottom.
    pub(super) fn scroll_up(&mut self, count: usize) {
        for _ in 0..count {
            self.ends.pop_front();
            self.ends.push_back(0);
        }
    }

    pub(super) fn fill(&mut self) {
        self.ends.iter_mut().for_each(|end| *end = self.cols);
    }
}
