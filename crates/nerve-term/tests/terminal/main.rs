//! The terminal model from outside: what it answers, shows, numbers, keeps and dumps.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod dumps;
mod frames;
mod generate;
mod graphemes;
mod hostile;
mod input;
mod keys;
mod lines;
mod recordings;
mod replies;
mod screens;

use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::{Changes, LineIndex, TerminalState};

/// A terminal that was fed `bytes` at once.
fn fed(cols: u16, rows: u16, bytes: impl AsRef<[u8]>) -> TerminalState {
    let mut terminal = TerminalState::new(Size::new(cols, rows));
    feed(&mut terminal, bytes);
    terminal
}

fn feed(terminal: &mut TerminalState, bytes: impl AsRef<[u8]>) -> Changes {
    terminal.process_data(TsNs(0), bytes.as_ref())
}

/// What the terminal answers to `bytes`.
fn replies(bytes: &str) -> String {
    String::from_utf8(feed(&mut fed(80, 24, ""), bytes).replies).unwrap()
}

fn shown(terminal: &TerminalState) -> String {
    terminal.screen().text()
}

/// Every line kept, as text.
fn all_lines(terminal: &TerminalState) -> Vec<String> {
    let kept = terminal.first_kept_line().0..terminal.line_count();
    kept.map(|line| terminal.line_text(LineIndex(line)).unwrap()).collect()
}
