//! What somebody who types or clicks has before him: what is shown, and where in the window it is.

use ratatui::layout::{Position, Rect};

use crate::document::Document;
use crate::timeline::Timeline;

/// Where things are in the window; what is not shown is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Regions {
    /// The lines, and the task entry between them.
    pub lines: Rect,
    /// The column beside them that marks snapshots.
    pub gutter: Rect,
    /// The row of the timeline.
    pub timeline: Rect,
    /// The row of the status.
    pub status: Rect,
    /// The rows of the list of tools, one tool a row.
    pub list: Rect,
    /// The lines of the tool that is shown.
    pub tool: Rect,
    /// The furthest row that the help sheet can begin at.
    pub help: u16,
}

/// What somebody has before him when he does something.
#[derive(Debug, Clone, Copy)]
pub struct FrameContext<'a> {
    /// What the window is on.
    pub document: &'a Document<'a>,
    /// The end of the recording of which `document` is another moment; `None` where that is no other moment.
    pub end: Option<&'a Document<'a>>,
    /// What the tool that is shown has written.
    pub tool: Option<&'a Document<'a>>,
    /// The recording's time.
    pub timeline: Option<&'a Timeline>,
    /// Where it all is.
    pub regions: Regions,
}

impl<'a> FrameContext<'a> {
    /// Of lines that have the whole place.
    pub fn new(document: &'a Document<'a>, regions: Regions) -> FrameContext<'a> {
        FrameContext { document, end: None, tool: None, timeline: None, regions }
    }

    /// What knows all snapshots.
    pub(crate) fn end_document(&self) -> &'a Document<'a> {
        self.end.unwrap_or(self.document)
    }
}

/// The column and row within a rectangle, 0-based; `None` outside of it.
pub(crate) fn within(area: Rect, col: u16, row: u16) -> Option<(u16, u16)> {
    area.contains(Position::new(col, row)).then(|| (col - area.x, row - area.y))
}
