//! Computes where everything is in the window.

use nerve_types::Size;
use ratatui::layout::Rect;
use strum::{EnumString, IntoStaticStr};

use crate::view::effect::Source;

/// Minimum window height for the timeline and the frame.
const TIMELINE_FROM: u16 = 8;
/// The side on which snapshots are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Gutter {
    /// Left of the lines.
    Left,
    /// Right of the lines.
    #[default]
    Right,
    /// No gutter.
    None,
}

impl Gutter {
    fn cols(self) -> u16 {
        u16::from(self != Gutter::None)
    }
}

/// The areas of the window. They do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The whole window.
    pub window: Rect,
    /// The frame around a recording; `None` without room for one and around a running program. Its sides are
    /// omitted in narrow windows.
    pub frame: Option<Rect>,
    /// The lines.
    pub lines: Rect,
    /// The gutter, one column wide; empty without one.
    pub gutter: Rect,
    /// The row of the timeline; empty without one.
    pub timeline: Rect,
    /// The status line, in the last row.
    pub status: Rect,
}

impl Layout {
    /// Computes the layout for a terminal of `size`. A running program gets the whole window, a recording a frame
    /// and a timeline.
    pub fn new(source: Source, window: Rect, size: Size, gutter: Gutter) -> Layout {
        match source {
            Source::Live => Layout::live(window, gutter),
            Source::Recording if window.height < TIMELINE_FROM => {
                Layout::with_frame(window, size, gutter, 0, false)
            }
            Source::Recording => Layout::with_frame(window, size, gutter, 1, true),
        }
    }

    /// Computes the layout without frame and timeline.
    pub fn live(window: Rect, gutter: Gutter) -> Layout {
        let (above, timeline, status) = split_rows(window, 0);
        let (lines, gutter) = split_gutter(above, gutter);
        Layout { window, frame: None, lines, gutter, timeline, status }
    }

    /// Returns the terminal size of a program in a window of `cols` × `rows`, at least the minimum size.
    pub fn program_size(cols: u16, rows: u16, gutter: Gutter) -> Size {
        let lines = Layout::live(Rect::new(0, 0, cols, rows), gutter).lines;
        Size::new(lines.width, lines.height)
    }

    /// Computes a layout with a centred frame for `cols` × `rows`. The frame shrinks with the window.
    pub fn framed(window: Rect, cols: u16, rows: u16, gutter: Gutter) -> Layout {
        Layout::with_frame(window, Size::new(cols, rows), gutter, 0, true)
    }

    /// Computes a layout with this many timeline rows, and optionally a frame.
    fn with_frame(
        window: Rect,
        Size { cols, rows }: Size,
        gutter: Gutter,
        timeline: u16,
        has_frame: bool,
    ) -> Layout {
        let (above, timeline, status) = split_rows(window, timeline);
        let frame = (has_frame && above.width > 2 + gutter.cols() && above.height > 2).then(|| {
            let width = cols.max(1).saturating_add(gutter.cols() + 2);
            centered(above, width, rows.max(1).saturating_add(2))
        });
        let all = cols.max(1).saturating_add(gutter.cols());
        let content = match frame {
            Some(frame) if frame.width < all.saturating_add(2) => {
                let width = frame.width.min(all);
                let x = frame.x + (frame.width - width) / 2;
                Rect { x, y: frame.y + 1, width, height: frame.height - 2 }
            }
            Some(frame) => inner(frame),
            None => centered(above, all, rows.max(1)),
        };
        let (lines, gutter) = split_gutter(content, gutter);
        Layout { window, frame, lines, gutter, timeline, status }
    }

    /// Returns true if the frame has sides.
    pub(crate) fn has_sides(&self) -> bool {
        self.frame.is_some_and(|frame| frame.width >= self.lines.width + self.gutter.width + 2)
    }

    /// Returns the area above the timeline and the status line.
    pub(crate) fn above(&self) -> Rect {
        split_rows(self.window, self.timeline.height).0
    }

    /// Returns the modal's area: `size` plus a border, limited to the window.
    pub(crate) fn modal(&self, size: Size) -> Rect {
        centered(self.above(), size.cols.saturating_add(2), size.rows.saturating_add(2))
    }
}

/// Returns the box whose [`inner`] area is given, or that area if a border does not fit into `limits`.
pub(crate) fn outer(inner: Rect, limits: Rect) -> Rect {
    let has_room = inner.x > limits.x
        && inner.y > limits.y
        && inner.right() < limits.right()
        && inner.bottom() < limits.bottom();
    if !has_room {
        return inner;
    }
    Rect { x: inner.x - 1, y: inner.y - 1, width: inner.width + 2, height: inner.height + 2 }
}

/// Returns the area within a border, or the whole area if it is too small for a border.
pub(crate) fn inner(area: Rect) -> Rect {
    if area.width < 3 || area.height < 3 {
        return area;
    }
    Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 }
}

/// Splits the window into content, timeline and status line.
fn split_rows(window: Rect, timeline: u16) -> (Rect, Rect, Rect) {
    let status = Rect { y: window.bottom().saturating_sub(1), height: window.height.min(1), ..window };
    let above = Rect { height: window.height.saturating_sub(1 + timeline), ..window };
    let timeline =
        Rect { y: above.bottom(), height: timeline.min(window.height.saturating_sub(1)), ..window };
    (above, timeline, status)
}

/// Splits off the gutter. A single column belongs to the lines.
fn split_gutter(area: Rect, gutter: Gutter) -> (Rect, Rect) {
    let side = gutter.cols().min(area.width.saturating_sub(1));
    let is_left = gutter == Gutter::Left;
    let lines = Rect { x: if is_left { area.x + side } else { area.x }, width: area.width - side, ..area };
    let x = if is_left { area.x } else { lines.right() };
    (lines, Rect { x, width: side, ..area })
}

/// Returns a centred area of at most this size.
fn centered(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_never_overlap() {
        for (cols, rows) in (0..14).flat_map(|cols| (0..14).map(move |rows| (cols, rows))) {
            let window = Rect::new(3, 2, cols, rows);
            for gutter in [Gutter::Left, Gutter::Right, Gutter::None] {
                for source in [Source::Live, Source::Recording] {
                    let layout = Layout::new(source, window, Size::new(5, 4), gutter);
                    let parts = [layout.lines, layout.gutter, layout.timeline, layout.status];
                    for part in parts.iter().filter(|part| !part.is_empty()) {
                        assert_eq!(part.intersection(window), *part, "{source:?} {gutter:?} {layout:?}");
                    }
                    for (at, part) in parts.iter().enumerate() {
                        assert!(parts[..at].iter().all(|other| !part.intersects(*other)), "{layout:?}");
                    }
                    assert!(cols == 0 || rows < 2 || !layout.lines.is_empty(), "{layout:?}");
                    let modal = layout.modal(Size::new(200, 200));
                    assert!(modal.is_empty() || modal.intersection(window) == modal);
                    assert!(!modal.intersects(layout.status));
                }
            }
        }
    }

    #[test]
    fn live_layout_uses_the_whole_window() {
        assert_eq!(Layout::program_size(80, 24, Gutter::Right), Size::new(79, 23));
        assert_eq!(Layout::program_size(80, 24, Gutter::None), Size::new(80, 23));
        assert_eq!(Layout::program_size(1, 1, Gutter::Left), Size::new(2, 1));
        let layout = Layout::live(Rect::new(0, 0, 80, 24), Gutter::Left);
        assert_eq!((layout.lines.x, layout.gutter.x, layout.frame), (1, 0, None));
    }

    #[test]
    fn lines_have_priority_over_the_frame() {
        let lines = |cols| {
            let window = Rect::new(0, 0, cols, 24);
            let layout = Layout::new(Source::Recording, window, Size::new(79, 20), Gutter::Right);
            (layout.lines.x, layout.lines.width, layout.has_sides())
        };
        let wide = [(82, (1, 79, true)), (90, (5, 79, true))];
        let narrow = [(81, (0, 79, false)), (80, (0, 79, false)), (79, (0, 78, false)), (10, (0, 9, false))];
        for (cols, expected) in wide.into_iter().chain(narrow) {
            assert_eq!(lines(cols), expected, "{cols} columns");
        }
    }

    #[test]
    fn timeline_and_frame_need_eight_rows() {
        let rows = |rows| {
            let layout =
                Layout::new(Source::Recording, Rect::new(0, 0, 80, rows), Size::new(40, 40), Gutter::Right);
            (layout.timeline.height, layout.lines.height)
        };
        assert_eq!((rows(5), rows(7), rows(8)), ((0, 4), (0, 6), (1, 4)));
    }
}
