//! The frame that input refers to: the documents shown, and the regions of the window.

use ratatui::layout::{Position, Rect};

use crate::view::document::Document;
use crate::view::timeline::Timeline;

/// The regions of the window. Hidden ones are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Regions {
    /// The lines, including the task entry.
    pub lines: Rect,
    /// The column that marks snapshots.
    pub gutter: Rect,
    /// The timeline's row.
    pub timeline: Rect,
    /// The status line.
    pub status: Rect,
    /// The rows of the tool list, one per tool.
    pub list: Rect,
    /// The lines of the shown tool.
    pub tool: Rect,
    /// Last row of the help sheet that can be at the top.
    pub help: u16,
}

/// State of the frame that the user sees when an input event arrives.
#[derive(Debug, Clone, Copy)]
pub struct FrameContext<'a> {
    /// The document in the window.
    pub document: &'a Document<'a>,
    /// The recording's end, while `document` is an earlier moment.
    pub end: Option<&'a Document<'a>>,
    /// The terminal of the shown tool.
    pub tool: Option<&'a Document<'a>>,
    /// The recording's timeline.
    pub timeline: Option<&'a Timeline>,
    /// The regions.
    pub regions: Regions,
}

impl<'a> FrameContext<'a> {
    /// Creates a frame of one document.
    pub fn new(document: &'a Document<'a>, regions: Regions) -> FrameContext<'a> {
        FrameContext { document, end: None, tool: None, timeline: None, regions }
    }

    /// Returns the document that knows all snapshots.
    pub(crate) fn end_document(&self) -> &'a Document<'a> {
        self.end.unwrap_or(self.document)
    }
}

/// Returns the column and row within an area, 0-based; `None` outside.
pub(crate) fn within(area: Rect, col: u16, row: u16) -> Option<(u16, u16)> {
    area.contains(Position::new(col, row)).then(|| (col - area.x, row - area.y))
}
