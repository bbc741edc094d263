//! Sizes of terminals.

/// The size of a terminal in cells: from [`Size::MIN`] to [`Size::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Size {
    /// The smallest size that the terminal model accepts.
    pub const MIN: Size = Size { cols: 2, rows: 1 };
    /// The largest size. A screen of this size takes about 24 MB.
    pub const MAX: Size = Size { cols: 1000, rows: 1000 };

    /// Creates a size, clamped to the allowed range.
    pub fn new(cols: u16, rows: u16) -> Size {
        Size {
            cols: cols.clamp(Size::MIN.cols, Size::MAX.cols),
            rows: rows.clamp(Size::MIN.rows, Size::MAX.rows),
        }
    }

    /// Returns the number of cells.
    pub fn cells(self) -> usize {
        usize::from(self.cols) * usize::from(self.rows)
    }
}

impl Default for Size {
    /// 120 × 40, the size of the sample recordings.
    fn default() -> Size {
        Size { cols: 120, rows: 40 }
    }
}
