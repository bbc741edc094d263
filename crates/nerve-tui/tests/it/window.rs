//! A viewer in a window, drawn as the binary draws it.

use std::time::Duration;

use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::decorations::Decorations;
use nerve_tui::view::document::Document;
use nerve_tui::view::draw::{DrawResult, Gutter, Layout, StatusInfo, draw};
use nerve_tui::view::keys::{Code, Input, Key};
use nerve_tui::view::regions::{FrameContext, Regions};
use nerve_tui::view::timeline::Timeline;
use nerve_tui::view::viewer::{Effect, Source, Viewer};
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{Snapshot, TerminalState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub(crate) struct Window {
    pub(crate) terminal: TerminalState,
    /// The recording's end, while the terminal is another moment of it.
    pub(crate) end: Option<TerminalState>,
    /// Output before the first line of the recording's end is still being read.
    pub(crate) lacks_begin: bool,
    pub(crate) tool: Option<TerminalState>,
    pub(crate) viewer: Viewer,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) info: StatusInfo,
    pub(crate) gutter: Gutter,
    /// Columns and rows.
    pub(crate) size: (u16, u16),
    /// Of all that was drawn.
    pub(crate) decorations: Decorations,
    regions: Regions,
}

impl Window {
    /// On a terminal of that size.
    pub(crate) fn new(source: Source, terminal: (u16, u16), size: (u16, u16)) -> Window {
        Window {
            terminal: TerminalState::new(Size::new(terminal.0, terminal.1)),
            end: None,
            lacks_begin: false,
            tool: None,
            viewer: Viewer::new(source, Bindings::default()),
            timeline: None,
            info: StatusInfo::default(),
            gutter: Gutter::Right,
            size,
            decorations: Decorations::default(),
            regions: Regions::default(),
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.terminal.process_data(TsNs(0), text.as_bytes());
        self.drawn();
    }

    /// `line 1` to `line 100`.
    pub(crate) fn hundred(&mut self) {
        let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
        self.write(&lines.join("\r\n"));
    }

    pub(crate) fn snapshot(&mut self, id: u64, label: Option<&str>) {
        let label = label.map(str::to_string);
        self.terminal.record_snapshot(Snapshot { id, label, ..Snapshot::default() });
        self.drawn();
    }

    /// Shows a tool that has written this text in a terminal of this size.
    pub(crate) fn tool_writes(&mut self, (cols, rows): (u16, u16), text: &str) {
        let mut tool = TerminalState::new(Size::new(cols, rows));
        tool.process_data(TsNs(0), text.as_bytes());
        self.tool = Some(tool);
        self.drawn();
    }

    /// Presses keys by name.
    pub(crate) fn keys(&mut self, names: &str) -> Vec<Effect> {
        let keys: Vec<Key> = names.split(' ').map(|name| name.parse().unwrap()).collect();
        keys.into_iter().filter_map(|key| self.input(Input::Key(key))).collect()
    }

    /// Types a text as it stands.
    pub(crate) fn types(&mut self, text: &str) {
        for char in text.chars() {
            let key = if char == '\n' { Key::plain(Code::Enter) } else { Key::char(char) };
            self.input(Input::Key(key));
        }
    }

    pub(crate) fn input(&mut self, input: Input) -> Option<Effect> {
        let lacks_begin = self.lacks_begin;
        let document = document(&self.terminal, self.viewer.source());
        let document = known(document, lacks_begin && self.end.is_none());
        let viewer = &mut self.viewer;
        let tool = self.tool.as_ref().map(Document::live);
        let end = self.end.as_ref().map(|end| known(Document::recorded(end), lacks_begin));
        let frame = FrameContext {
            end: end.as_ref(),
            tool: tool.as_ref(),
            timeline: self.timeline.as_ref(),
            ..FrameContext::new(&document, self.regions)
        };
        let asked = viewer.input(input, &frame);
        while viewer.advance_search(&document) {}
        self.drawn();
        asked
    }

    /// The cells, and what drawing does not do itself.
    pub(crate) fn drawn(&mut self) -> (Buffer, DrawResult) {
        let area = Rect::new(0, 0, self.size.0, self.size.1);
        let mut buffer = Buffer::empty(area);
        let lacks_begin = self.lacks_begin;
        let Window { terminal, end, tool, viewer, timeline, info, gutter, decorations, .. } = self;
        let document = known(document(terminal, viewer.source()), lacks_begin && end.is_none());
        let layout = Layout::new(viewer.source(), area, terminal.size(), *gutter);
        let end = end.as_ref().map(|end| known(Document::recorded(end), lacks_begin));
        let size = tool.as_ref().map(TerminalState::size);
        let tool = tool.as_ref().map(Document::live);
        self.regions = layout.regions(viewer, size, info.capabilities);
        viewer.set_regions(&self.regions);
        viewer.update_document(&document);
        if let Some(tool) = &tool {
            viewer.update_tool_document(tool);
        }
        let (end, timeline) = (end.as_ref(), timeline.as_ref());
        let frame =
            FrameContext { end, tool: tool.as_ref(), timeline, ..FrameContext::new(&document, self.regions) };
        let drawn = draw(viewer, &frame, info, &layout, &mut buffer, decorations);
        (buffer, drawn)
    }

    pub(crate) fn text(&mut self) -> String {
        text(&self.drawn().0)
    }
}

/// On a recording of 40 × 5 that is looked at.
pub(crate) fn after(cols: u16, rows: u16) -> Window {
    let mut window = Window::new(Source::Recording, (40, 5), (cols, rows));
    window.info.name = "run.ahr".into();
    window.info.time = Some((Duration::from_secs(65), Duration::from_secs(125)));
    window
}

/// On a program that has all of the window.
pub(crate) fn live(cols: u16, rows: u16) -> Window {
    let mut window = Window::new(Source::Live, (cols - 1, rows - 1), (cols, rows));
    window.info.name = "claude".into();
    window
}

fn document(terminal: &TerminalState, source: Source) -> Document<'_> {
    match source {
        Source::Live => Document::live(terminal),
        Source::Recording => Document::recorded(terminal),
    }
}

fn known(document: Document<'_>, lacks_begin: bool) -> Document<'_> {
    if lacks_begin { document.loading_earlier() } else { document }
}

/// The rows of a buffer without the blanks at their ends.
pub(crate) fn text(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(buffer.area.width.into());
    let row = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    rows.map(|cells| format!("{}\n", row(cells).trim_end())).collect()
}
