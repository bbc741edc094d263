//! Tests of the viewer: keys and output in, rows and cells out.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod drawing;
mod keys;
mod viewport;

use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::{Snapshot, TerminalState};
use nerve_view::bindings::Bindings;
use nerve_view::document::Document;
use nerve_view::keys::{Code, Key};
use nerve_view::viewer::{Asked, Viewer};
use nerve_view::viewport::Row;

/// A viewer on a terminal.
struct Stage {
    terminal: TerminalState,
    viewer: Viewer,
}

impl Stage {
    /// With these lines, in a window of so many rows.
    fn new(lines: &[&str], rows: u16) -> Stage {
        let mut stage = Stage {
            terminal: TerminalState::new(Size::new(40, 5)),
            viewer: Viewer::new(Bindings::default()),
        };
        stage.viewer.resize(20, rows);
        stage.write(&lines.join("\r\n"));
        stage
    }

    /// A hundred lines: `line 1` to `line 100`.
    fn hundred(rows: u16) -> Stage {
        let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
        Stage::new(&lines.iter().map(String::as_str).collect::<Vec<_>>(), rows)
    }

    fn write(&mut self, text: &str) {
        self.terminal.process_data(TsNs(0), text.as_bytes());
        self.viewer.sees(&Document::of(&self.terminal));
    }

    fn snapshot(&mut self, id: u64) {
        self.terminal.record_snapshot(Snapshot { id, ..Snapshot::default() });
    }

    /// Types keys by name; says what was asked of others.
    fn keys(&mut self, names: &str) -> Vec<Asked> {
        let keys: Vec<Key> = names.split(' ').map(|name| name.parse().unwrap()).collect();
        keys.into_iter().filter_map(|key| self.key(key)).collect()
    }

    fn key(&mut self, key: Key) -> Option<Asked> {
        let document = Document::of(&self.terminal);
        let asked = self.viewer.key(key, &document);
        while self.viewer.work(&document) {}
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
        let document = Document::of(&self.terminal);
        let text = |row| match row {
            Row::Line { number, .. } => document.text(number).unwrap_or_default(),
            _ => String::new(),
        };
        self.viewer.viewport().rows().map(text).collect()
    }

    fn first(&self) -> String {
        self.shown().remove(0)
    }
}
