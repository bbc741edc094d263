//! Synchronized output (`?2026`): while an update is open, readers see the last complete frame.

use std::sync::OnceLock;
use std::time::Duration;

use alacritty_terminal::grid::Row;
use alacritty_terminal::term::cell::Cell;
use nerve_types::TsNs;

use super::cells;
use super::line::Line;
use crate::screen::Screen;

/// Time after which an open update is shown anyway.
const DEADLINE: Duration = Duration::from_millis(150);
/// The sequence that closes an update.
const CLOSE: &[u8] = b"\x1b[?2026l";

/// Bytes of look-ahead for the closing sequence.
const AHEAD: usize = 16 * 1024;

/// The open update, if any.
#[derive(Debug, Default)]
pub(super) struct Frames {
    open: Option<OpenFrame>,
}

#[derive(Debug)]
struct OpenFrame {
    since: TsNs,
    /// The frame before the update.
    before: Option<FrameView>,
}

/// A screen as cells. Its rows are converted when it is read, which is rare: most updates are closed before.
#[derive(Debug)]
pub(super) struct FrameView {
    cells: Vec<Row<Cell>>,
    screen_without_rows: Screen,
    screen: OnceLock<Screen>,
}

impl FrameView {
    /// Creates a view of these cells; `screen_without_rows` is the rest of the screen.
    pub(super) fn new(cells: Vec<Row<Cell>>, screen_without_rows: Screen) -> FrameView {
        FrameView { cells, screen_without_rows, screen: OnceLock::new() }
    }

    fn screen(&self) -> &Screen {
        self.screen.get_or_init(|| {
            let rows = self.cells.iter().map(|row| {
                let mut line = Line::default();
                cells::read(row, row.len(), &mut line);
                line.into_row()
            });
            Screen { rows: rows.collect(), ..self.screen_without_rows.clone() }
        })
    }
}

impl Frames {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Opens an update. Returns false if one is already open; its deadline stays.
    pub(super) fn open(&mut self, now: TsNs) -> bool {
        if self.open.is_some() {
            return false;
        }
        self.open = Some(OpenFrame { since: now, before: None });
        true
    }

    /// Returns true if the current view has to be saved, given the rest of this feed. Not needed if the update is
    /// closed within the feed, because no one can read the screen before the feed ends. The parser recognises the
    /// closing sequence in any state.
    pub(super) fn wants_view(&self, rest: &[u8]) -> bool {
        let missing = self.open.as_ref().is_some_and(|open| open.before.is_none());
        let near = &rest[..rest.len().min(AHEAD)];
        missing && memchr::memmem::find(near, CLOSE).is_none()
    }

    pub(super) fn keep(&mut self, view: FrameView) {
        if let Some(open) = &mut self.open {
            open.before = Some(view);
        }
    }

    /// Closes the update. Returns false if none was open.
    pub(super) fn close(&mut self) -> bool {
        self.open.take().is_some()
    }

    pub(super) fn view(&self) -> Option<&Screen> {
        self.open.as_ref()?.before.as_ref().map(FrameView::screen)
    }

    pub(super) fn deadline(&self) -> Option<TsNs> {
        self.open.as_ref().map(|open| open.since + DEADLINE)
    }
}
