//! What is to be seen, and the two ways to draw it.

use super::classic::Classic;
use super::full_screen::FullScreen;
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
    /// The size of a terminal that tells none.
    pub const DEFAULT: ScreenSize = ScreenSize { cols: 80, rows: 24 };

    /// A size in which everything has at least a cell.
    pub(super) fn at_least_usable(self) -> ScreenSize {
        ScreenSize { cols: self.cols.max(12), rows: self.rows.max(6) }
    }
}

/// One state of the screen.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Conversation lines that are final and were not in a frame before.
    pub(super) settled: Vec<Line>,
    /// The end of the conversation, which may still change.
    pub(super) pending: Vec<Line>,
    /// Spinner, composer and footer, or a dialog.
    pub(super) bottom: Vec<Line>,
    /// Where the cursor rests: row in `bottom`, column.
    pub(super) cursor: (usize, usize),
}

/// A way to draw. All methods append to `out`.
pub(super) trait Renderer {
    /// Takes the terminal over.
    fn start(&mut self, out: &mut Vec<u8>);
    /// Draws what differs from the frame before; nothing when nothing does.
    fn draw(&mut self, frame: Frame, out: &mut Vec<u8>);
    /// Rewrites the last pending line in place, once for each update, with carriage returns.
    fn overwrite(&mut self, updates: Vec<Line>, out: &mut Vec<u8>);
    /// The terminal has another size; the next frame is drawn in full.
    fn resize(&mut self, size: ScreenSize);
    /// Gives the terminal back.
    fn finish(&mut self, out: &mut Vec<u8>);
}

pub(super) fn renderer(full_screen: bool, size: ScreenSize) -> Box<dyn Renderer> {
    if full_screen { Box::new(FullScreen::new(size)) } else { Box::new(Classic::new(size)) }
}
