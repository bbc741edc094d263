//! Tests of the viewer: keys and output in, rows and cells out.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod alt_screen_snapshots;
mod bindings;
mod chrome;
mod drawing;

mod keys;
mod last_alt_screen;
mod live;
mod mouse;
mod pictures;
mod proptests;
mod purity;
mod search;
mod svg;
mod task_entry;
mod tools;
mod viewport;
mod window;

use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::document::Document;
use nerve_tui::view::keys::{Code, Input, Key};
use nerve_tui::view::regions::{FrameContext, Regions};
use nerve_tui::view::timeline::Timeline;
use nerve_tui::view::viewer::{Effect, Source, Viewer};
use nerve_tui::view::viewport::Row;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{Snapshot, TerminalState};
use ratatui::layout::Rect;

/// Columns of the window.
const COLS: u16 = 20;

/// A viewer on a terminal.
struct Harness {
    terminal: TerminalState,
    /// The recording's end, while the terminal is another moment of it.
    end: Option<TerminalState>,
    timeline: Option<Timeline>,
    viewer: Viewer,
    /// The terminal of the open tool.
    tool: Option<TerminalState>,
    regions: Regions,
}

impl Harness {
    /// On a recording with these lines, in a window of so many rows; its task entry is closed: it is of no concern to most.
    fn new(lines: &[&str], rows: u16) -> Harness {
        let mut harness = Harness::after(lines, rows);
        harness.keys("esc j");
        harness
    }

    /// A hundred lines: `line 1` to `line 100`.
    fn hundred(rows: u16) -> Harness {
        let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
        Harness::new(&lines.iter().map(String::as_str).collect::<Vec<_>>(), rows)
    }

    /// As it is shown at first.
    fn after(lines: &[&str], rows: u16) -> Harness {
        let terminal = TerminalState::new(Size::new(40, 5));
        let mut harness = Harness::on(Source::Recording, terminal, rows);
        harness.write(&lines.join("\r\n"));
        harness
    }

    /// On a program whose screen is the window.
    fn live(lines: &[&str], rows: u16) -> Harness {
        let terminal = TerminalState::new(Size::new(COLS, rows));
        let mut harness = Harness::on(Source::Live, terminal, rows);
        harness.write(&lines.join("\r\n"));
        harness
    }

    fn on(source: Source, terminal: TerminalState, rows: u16) -> Harness {
        let viewer = Viewer::new(source, Bindings::default());
        let regions = Regions::default();
        let mut harness = Harness { terminal, end: None, timeline: None, viewer, tool: None, regions };
        harness.resize(rows);
        harness
    }

    /// Lines, a gutter right of them, the timeline and the status below; the modal is over all lines.
    fn resize(&mut self, rows: u16) {
        let lines = Rect::new(0, 0, COLS, rows);
        self.regions = Regions {
            lines,
            gutter: Rect::new(COLS, 0, 1, rows),
            timeline: Rect::new(0, rows, COLS, 1),
            status: Rect::new(0, rows + 1, COLS, 1),
            list: lines,
            tool: lines,
            help: 100,
        };
        self.viewer.set_regions(&self.regions);
    }

    fn document(&self) -> Document<'_> {
        match self.viewer.source() {
            Source::Live => Document::live(&self.terminal),
            Source::Recording => Document::recorded(&self.terminal),
        }
    }

    fn write(&mut self, text: &str) {
        self.terminal.process_data(TsNs(0), text.as_bytes());
        let document = match self.viewer.source() {
            Source::Live => Document::live(&self.terminal),
            Source::Recording => Document::recorded(&self.terminal),
        };
        self.viewer.update_document(&document);
    }

    fn snapshot(&mut self, id: u64) {
        let offset = self.terminal.offset();
        self.terminal.record_snapshot(Snapshot { id, offset, ..Snapshot::default() });
    }

    /// Lines `line 1` to that number; a snapshot on each of these, with the line's number as its id.
    fn numbered(&mut self, lines: u64, snapshots: &[u64]) {
        for number in 1..=lines {
            self.write(&format!("line {number}"));
            if snapshots.contains(&number) {
                self.snapshot(number);
            }
            if number < lines {
                self.write("\r\n");
            }
        }
    }

    /// Types keys by name; says what was asked of others.
    fn keys(&mut self, names: &str) -> Vec<Effect> {
        let keys: Vec<Key> = names.split(' ').map(|name| name.parse().unwrap()).collect();
        keys.into_iter().filter_map(|key| self.key(key)).collect()
    }

    fn key(&mut self, key: Key) -> Option<Effect> {
        self.input(Input::Key(key))
    }

    fn input(&mut self, input: Input) -> Option<Effect> {
        let document = match self.viewer.source() {
            Source::Live => Document::live(&self.terminal),
            Source::Recording => Document::recorded(&self.terminal),
        };
        let tool = self.tool.as_ref().map(Document::live);
        let end = self.end.as_ref().map(Document::recorded);
        let (end, timeline) = (end.as_ref(), self.timeline.as_ref());
        let frame =
            FrameContext { end, tool: tool.as_ref(), timeline, ..FrameContext::new(&document, self.regions) };
        let asked = self.viewer.input(input, &frame);
        while self.viewer.advance_search(&document) {}
        self.viewer.set_regions(&self.regions);
        if let Some(tool) = &tool {
            self.viewer.update_tool_document(tool);
            while self.viewer.advance_tool_search(tool) {}
        }
        asked
    }

    /// Types a text as it stands.
    fn types(&mut self, text: &str) {
        for char in text.chars() {
            self.key(if char == '\n' { Key::plain(Code::Enter) } else { Key::char(char) });
        }
    }

    /// The text of the lines in the window.
    fn shown(&self) -> Vec<String> {
        let document = self.document();
        let text = |row| match row {
            Row::Line { number, .. } => document.text(number).unwrap_or_default(),
            _ => String::new(),
        };
        self.viewer.viewport().rows().map(text).collect()
    }

    fn first(&self) -> String {
        self.shown().remove(0)
    }

    /// The window in a row: the numbers in its lines, those that are dimmed in brackets, `-` for rows of the task entry.
    fn window(&self) -> String {
        let document = self.document();
        let words = self.viewer.viewport().rows().map(|row| match row {
            Row::Line { number, dimmed } => {
                let text = document.text(number).unwrap_or_default().replace("line ", "");
                if dimmed { format!("[{text}]") } else { text }
            }
            Row::Entry(_) => "-".to_string(),
            Row::Blank => "~".to_string(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn message(&self) -> &str {
        self.viewer.message().unwrap_or_default()
    }
}

/// A key by its name.
fn key(name: &str) -> Key {
    name.parse().unwrap()
}
