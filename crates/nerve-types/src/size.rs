//! Sizes of terminals.

/// The size of a terminal in cells. The engine requires at least 2 columns and 1 row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns, 2–4096.
    pub cols: u16,
    /// Rows, 1–4096.
    pub rows: u16,
}

impl Size {
    /// Creates a size, clamped to the allowed range.
    pub fn new(cols: u16, rows: u16) -> Size {
        Size { cols: cols.clamp(2, 4096), rows: rows.clamp(1, 4096) }
    }
}

impl Default for Size {
    /// 120 × 40, the size of the sample recordings.
    fn default() -> Size {
        Size { cols: 120, rows: 40 }
    }
}
