//! Tests of the terminal model through its public interface.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]

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

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{FeedResult, LineIndex, TerminalState};

/// Returns a terminal after `bytes`.
fn terminal_with(cols: u16, rows: u16, bytes: impl AsRef<[u8]>) -> TerminalState {
    let mut terminal = TerminalState::new(Size::new(cols, rows));
    feed(&mut terminal, bytes);
    terminal
}

fn feed(terminal: &mut TerminalState, bytes: impl AsRef<[u8]>) -> FeedResult {
    terminal.process_data(TsNs(0), bytes.as_ref())
}

/// Returns the terminal's replies to `bytes`.
fn replies(bytes: &str) -> String {
    String::from_utf8(feed(&mut terminal_with(80, 24, ""), bytes).replies).unwrap()
}

fn screen_text(terminal: &TerminalState) -> String {
    terminal.screen().text()
}

/// Returns the text of every stored line.
fn all_lines(terminal: &TerminalState) -> Vec<String> {
    let kept = terminal.first_kept_line().0..terminal.line_count();
    kept.map(|line| terminal.line_text(LineIndex(line)).unwrap()).collect()
}
