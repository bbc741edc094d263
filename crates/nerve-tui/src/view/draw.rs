//! Draws the viewer into cells: frame, lines, modal, timeline and status line.

use nerve_types::Size;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, Borders, Widget};

use crate::view::cells;
use crate::view::decorations::Decorations;
use crate::view::keys::{Context, Operation};
use crate::view::layout::{inner, outer};
use crate::view::regions::{FrameContext, Regions};
use crate::view::task_entry::render;
use crate::view::task_entry::{Target, TaskEntry};
use crate::view::timeline::clock;
use crate::view::viewer::{Mode, Source, Viewer};
use crate::view::{help, message, status, tools_modal};

pub use crate::view::layout::{Gutter, Layout};
pub use crate::view::status_info::{Capabilities, StatusInfo};

/// Preferred width of the tool list in columns.
const LIST: u16 = 90;

/// The result of drawing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrawResult {
    /// Window column and row of the cursor; `None` while it is hidden.
    pub cursor: Option<(u16, u16)>,
}

/// Draws a frame into a blank buffer. `decorations` is kept from frame to frame. The regions of `frame` must come
/// from `layout` ([`Layout::regions`]).
pub fn draw(
    viewer: &Viewer,
    frame: &FrameContext<'_>,
    info: &StatusInfo,
    layout: &Layout,
    buffer: &mut Buffer,
    decorations: &mut Decorations,
) -> DrawResult {
    let Layout { lines, gutter, .. } = *layout;
    let pager = &viewer.pager;
    let mut cursor = None;
    if let Mode::Help(from) = viewer.mode() {
        let area = layout.above();
        help::draw(viewer.bindings(), viewer.source(), info.capabilities, *from, area, buffer);
    } else {
        if let Some(frame) = layout.frame {
            let style = Style::new().add_modifier(Modifier::DIM);
            let borders = if layout.has_sides() { Borders::ALL } else { Borders::TOP | Borders::BOTTOM };
            Block::new().borders(borders).border_style(style).render(frame, buffer);
        }
        cells::lines(frame.document, pager, lines, gutter, buffer, decorations);
        if viewer.source() == Source::Live {
            cells::edge(frame.document, pager, lines, buffer);
        }
        let entry = viewer.entry().and_then(|entry| draw_entry(viewer, entry, frame, info, lines, buffer));
        cursor = match viewer.mode() {
            Mode::Live => cells::cursor(frame.document, pager, lines),
            Mode::Entry => entry,
            _ => None,
        };
        if viewer.modal().is_some() {
            let at = draw_modal(viewer, frame, layout, buffer, decorations);
            cursor = at.filter(|_| *viewer.mode() == Mode::Tool);
        }
    }
    if let Some(timeline) = frame.timeline {
        timeline.draw(layout.timeline, buffer);
    }
    status::draw(viewer, frame, info, layout, buffer);
    let covered = message::draw(viewer, layout, buffer);
    // A message hides the cursor below it.
    DrawResult { cursor: cursor.filter(|at| !covered.contains((*at).into())) }
}

/// Draws the task entry and returns its cursor position.
fn draw_entry(
    viewer: &Viewer,
    entry: &TaskEntry,
    frame: &FrameContext<'_>,
    info: &StatusInfo,
    lines: Rect,
    buffer: &mut Buffer,
) -> Option<(u16, u16)> {
    let (row, height) = viewer.viewport().entry()?;
    let (title, hint) = (title(entry, frame, info), hint(viewer, entry));
    let text = entry.text_area();
    let write = |area: Rect, buffer: &mut Buffer| {
        // The text area wraps anew when it is moved, so it is drawn at the origin of its own buffer.
        let own = Rect::new(0, 0, area.width, area.height);
        let mut drawn = Buffer::empty(own);
        Widget::render(text, own, &mut drawn);
        let ((top, left), at) = (text.scroll_offset(), text.screen_cursor());
        let inner =
            |at: usize, by: u16, most: u16| u16::try_from(at).ok()?.checked_sub(by).filter(|at| *at < most);
        let cursor = inner(at.col, left, own.width).zip(inner(at.row, top, own.height));
        for (x, y) in (0..own.height).flat_map(|y| (0..own.width).map(move |x| (x, y))) {
            if let (Some(from), Some(to)) = (drawn.cell((x, y)), buffer.cell_mut((area.x + x, area.y + y))) {
                *to = from.clone();
                if cursor == Some((x, y)) {
                    // The terminal draws the cursor itself.
                    to.modifier.remove(Modifier::REVERSED);
                }
            }
        }
        cursor.map(|(x, y)| (area.x + x, area.y + y))
    };
    render::draw(lines, row, height, &title, &hint, write, buffer)
}

/// Returns the title: the snapshot to branch from.
fn title(entry: &TaskEntry, frame: &FrameContext<'_>, info: &StatusInfo) -> String {
    let document = frame.document;
    if let Some(Target::Snapshot { id, .. } | Target::Moment { id }) = entry.target() {
        let snapshot = document.snapshot(id).or_else(|| frame.end?.snapshot(id));
        let description = snapshot.map(|snapshot| info.of_snapshot(snapshot)).unwrap_or_default();
        // A snapshot of the alternate screen is identified by its position, not by its lines.
        let (place, is_erased) = match snapshot.is_some_and(|snapshot| snapshot.alternate) {
            true => (frame.end_document().place_of_snapshot(id), false),
            false => (None, document.is_erased(id)),
        };
        let count = frame.end_document().snapshots();
        let place = place.map(|place| format!(" ({place} of {count})")).unwrap_or_default();
        let erased = if is_erased { ", whose lines were erased" } else { "" };
        return format!("branch from snapshot {id}{place}{description}{erased}");
    }
    let end = info.time.map(|(_, of)| clock(of));
    let snapshot = document.end_snapshot();
    let at = snapshot.map_or(end, |snapshot| info.since(snapshot.at));
    let label = snapshot.and_then(|snapshot| snapshot.label.as_deref()).filter(|label| *label != "end");
    let label = label.map(|label| format!(" '{label}'")).unwrap_or_default();
    let at = at.map(|at| format!(", {at}")).unwrap_or_default();
    format!("branch from the end{label}{at}")
}

/// Returns the key hints.
fn hint(viewer: &Viewer, entry: &TaskEntry) -> String {
    if entry.is_sent() {
        return "sending the task …".to_string();
    }
    let keys =
        [(Operation::Submit, "sends"), (Operation::NewLine, "new line"), (Operation::CloseEntry, "closes")];
    let key = |operation| viewer.bindings().keys_in(Context::Entry, operation).into_iter().next();
    let hints =
        keys.into_iter().filter_map(|(operation, words)| Some(format!("{} {words}", key(operation)?)));
    hints.collect::<Vec<_>>().join(" · ")
}

/// Draws the tool list or the shown tool, and returns the tool's cursor position.
fn draw_modal(
    viewer: &Viewer,
    frame: &FrameContext<'_>,
    layout: &Layout,
    buffer: &mut Buffer,
    decorations: &mut Decorations,
) -> Option<(u16, u16)> {
    let (regions, limits) = (&frame.regions, layout.above());
    let Some(shown) = viewer.modal()?.shown() else {
        let modal = viewer.modal()?;
        let status = format!("{} running of {}", viewer.tools.list.running(), viewer.tools.list.len());
        tools_modal::frame(outer(regions.list, limits), "tools", &status, buffer);
        let first = modal.first_row(regions.list.height);
        tools_modal::list(regions.list, viewer.tools(), first, modal.row(), buffer);
        return None;
    };
    let tool = viewer.tools.list.get(shown.id());
    let title = tool.map(|tool| tools_modal::one_line(&tool.command)).unwrap_or_default();
    let mut status = tool.map(|tool| tools_modal::state(tool.state).0).unwrap_or_default();
    if *viewer.mode() == Mode::ToolScrolling && frame.tool.is_some() {
        let (line, share) = status::place(shown.pager());
        status = format!("{status} · {line} · {share}");
    }
    tools_modal::frame(outer(regions.tool, limits), &title, &status, buffer);
    let tool = frame.tool?;
    cells::lines(tool, shown.pager(), regions.tool, Rect::default(), buffer, decorations);
    cells::cursor(tool, shown.pager(), regions.tool)
}

impl Layout {
    /// Returns the regions for mouse input, including the modal's. `tool` is the terminal size of the shown tool.
    pub fn regions(&self, viewer: &Viewer, tool: Option<Size>, capabilities: Capabilities) -> Regions {
        let (list, tool) = match viewer.modal().map(|modal| modal.shown()) {
            None => (Rect::default(), Rect::default()),
            Some(None) => {
                let rows = u16::try_from(viewer.tools().len()).unwrap_or(u16::MAX);
                (inner(self.modal(Size::new(LIST, rows))), Rect::default())
            }
            // As large as possible until the size is known.
            Some(Some(_)) => {
                (Rect::default(), inner(self.modal(tool.unwrap_or(Size::new(u16::MAX, u16::MAX)))))
            }
        };
        let help = match viewer.mode() {
            Mode::Help(_) => help::max_row(viewer.bindings(), viewer.source(), capabilities, self.above()),
            _ => u16::MAX,
        };
        let Layout { lines, gutter, timeline, status, .. } = *self;
        Regions { lines, gutter, timeline, status, list, tool, help }
    }
}
