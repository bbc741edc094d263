//! The content of the screen, and the interface of the two renderers.

use super::line::Line;

/// The size of the terminal in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenSize {
    /// Columns.
    pub cols: usize,
    /// Rows.
    pub rows: usize,
}

impl ScreenSize {
    /// The size if the terminal reports none.
    pub const DEFAULT: ScreenSize = ScreenSize { cols: 80, rows: 24 };

    /// Clamps the size so that everything has at least one cell.
    pub(super) fn at_least_usable(self) -> ScreenSize {
        ScreenSize { cols: self.cols.max(12), rows: self.rows.max(6) }
    }
}

/// One state of the screen.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Final conversation lines that were in no earlier frame.
    pub(super) settled: Vec<Line>,
    /// The end of the conversation, which may still change.
    pub(super) pending: Vec<Line>,
    /// Spinner, composer and footer, or a dialog.
    pub(super) bottom: Vec<Line>,
    /// Cursor position: row in `bottom`, column.
    pub(super) cursor: (usize, usize),
}

/// A renderer. All methods append to `out`.
pub(super) trait Renderer {
    /// Initializes the terminal.
    fn start(&mut self, out: &mut Vec<u8>);
    /// Draws the differences to the previous frame.
    fn draw(&mut self, frame: Frame, out: &mut Vec<u8>);
    /// Rewrites the last pending line in place with carriage returns, once per update.
    fn overwrite(&mut self, updates: Vec<Line>, out: &mut Vec<u8>);
    /// Changes the size; the next frame is drawn completely.
    fn resize(&mut self, size: ScreenSize);
    /// Restores the terminal.
    fn finish(&mut self, out: &mut Vec<u8>);
}
