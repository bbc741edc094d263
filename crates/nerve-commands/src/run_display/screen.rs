//! Shows the progress of a run on stderr: rows redrawn in place on a terminal, otherwise lines.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_api::EventMessage;
use rustix::stdio::stderr;
use rustix::termios::tcgetwinsize;

use super::progress::Progress;
use super::rows::rows;
use crate::clock::now_seconds;
use crate::event_line::format_run_event;
use crate::out;

/// Columns and rows of a terminal that does not report its size.
const DEFAULT_WINDOW: (usize, usize) = (80, 24);

/// The output for progress.
#[derive(Debug)]
pub(super) enum Screen {
    /// A terminal: rows redrawn in place.
    Live(Live),
    /// No terminal: a line per event.
    Lines { zone: TimeZone },
}

/// Rows above the cursor that can be redrawn.
#[derive(Debug)]
pub(super) struct Live {
    colors: bool,
    /// Width of each drawn row, in columns.
    drawn: Vec<usize>,
}

impl Screen {
    /// Creates the output according to the type of standard error.
    pub(super) fn new() -> Screen {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        if io::stderr().is_terminal() && !dumb {
            let colors = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
            return Screen::Live(Live { colors, drawn: Vec::new() });
        }
        Screen::Lines { zone: TimeZone::system() }
    }

    /// Returns true if rows are redrawn in place.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Screen::Live(_))
    }

    /// Prints the line of an event, unless rows are drawn.
    pub(super) fn print_event(&mut self, event: &EventMessage, answer: &str) {
        if let Screen::Lines { zone } = self
            && let Some(line) = format_run_event(event, answer)
        {
            out::note(format_args!("{} {line}", format_clock(event.emitted_at.seconds(), zone)));
        }
    }

    /// Redraws the rows.
    pub(super) fn draw(&mut self, progress: &Progress) {
        if let Screen::Live(live) = self {
            live.draw(progress);
        }
    }

    /// Erases the rows.
    pub(super) fn erase(&mut self) {
        if let Screen::Live(live) = self {
            let text = live.redraw(&[], window().0);
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }

    /// Keeps the rows; further output appears below.
    pub(super) fn leave(&mut self) {
        if let Screen::Live(live) = self {
            live.drawn.clear();
        }
    }
}

impl Live {
    fn draw(&mut self, progress: &Progress) {
        let (width, height) = window();
        // Some terminals wrap when the last column is filled. The cursor needs the last row.
        let rows = rows(progress, now_seconds(), width.saturating_sub(1), height.saturating_sub(1));
        let text = self.redraw(
            &rows.iter().map(|row| (row.render(self.colors), row.columns())).collect::<Vec<_>>(),
            width,
        );
        // stderr may be closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Returns the output that replaces the drawn rows. They may be wrapped if the window became narrower.
    fn redraw(&mut self, rows: &[(String, usize)], width: usize) -> String {
        let up: usize = self.drawn.iter().map(|columns| columns.div_ceil(width.max(1)).max(1)).sum();
        let mut text = String::new();
        // Writing to a string cannot fail.
        if up > 0 {
            let _ = write!(text, "\x1b[{up}A");
        }
        text.push('\r');
        for (row, _) in rows {
            let _ = writeln!(text, "{row}\x1b[K");
        }
        text.push_str("\x1b[J");
        self.drawn = rows.iter().map(|(_, columns)| *columns).collect();
        text
    }
}

/// Formats a time as `10:11:12` in a time zone.
pub fn format_clock(at: f64, zone: &TimeZone) -> String {
    let at = if at > 0.0 { at } else { now_seconds() };
    let stamp = Timestamp::from_microsecond((at * 1e6) as i64).unwrap_or(Timestamp::MAX);
    stamp.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Returns columns and rows of the window.
fn window() -> (usize, usize) {
    match tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => DEFAULT_WINDOW,
    }
}

#[cfg(test)]
mod tests {
    use nerve_types::{Size, TsNs};
    use nerve_vt::terminal::TerminalState;

    use super::*;

    fn row(text: &str) -> (String, usize) {
        (text.to_string(), text.len())
    }

    #[test]
    fn redraw_replaces_rows() {
        let mut live = Live { colors: false, drawn: Vec::new() };
        let mut terminal = TerminalState::new(Size::new(20, 5));
        let mut show = |text: String| {
            terminal.process_data(TsNs(0), text.replace('\n', "\r\n").as_bytes());
            terminal.screen().text()
        };
        show("before\n".to_string());
        show(live.redraw(&[row("one"), row("two"), row("three")], 20));
        assert_eq!(show(live.redraw(&[row("1"), row("two too")], 20)).trim_end(), "before\n1\ntwo too");
        // Also at the bottom of the window.
        show(live.redraw(&[row("a"), row("b"), row("c"), row("d")], 20));
        assert_eq!(show(live.redraw(&[row("A"), row("B"), row("C"), row("D")], 20)).trim_end(), "A\nB\nC\nD");
    }

    #[test]
    fn formats_clock_time() {
        assert_eq!(format_clock(36_672.9, &TimeZone::UTC), "10:11:12");
    }
}
