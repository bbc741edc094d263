//! Where the progress of a run is shown: rows that are drawn again in place on a terminal, lines anywhere else. All on stderr.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_proto::EventMessage;
use rustix::stdio::stderr;
use rustix::termios::tcgetwinsize;

use super::event_format;
use super::progress::Progress;
use super::rows::rows;
use crate::out;

/// Of a terminal that does not tell its size.
const DEFAULT_WINDOW: (usize, usize) = (80, 24);

/// Where progress is shown.
#[derive(Debug)]
pub(super) enum Screen {
    /// A terminal: rows in place.
    Live(Live),
    /// No terminal: a line an event.
    Lines { zone: TimeZone },
}

/// Rows that stand above the cursor and can be drawn over.
#[derive(Debug)]
pub(super) struct Live {
    colors: bool,
    /// Columns of each of them.
    drawn: Vec<usize>,
}

impl Screen {
    /// By what standard error is.
    pub(super) fn new() -> Screen {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        if io::stderr().is_terminal() && !dumb {
            let colors = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
            return Screen::Live(Live { colors, drawn: Vec::new() });
        }
        Screen::Lines { zone: TimeZone::system() }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, Screen::Live(_))
    }

    /// An event came in.
    pub(super) fn print_event(&mut self, event: &EventMessage, answer: &str) {
        if let Screen::Lines { zone } = self
            && let Some(line) = event_format::format_event(event, answer)
        {
            out::note(format_args!("{} {line}", format_clock(event.timestamp, zone)));
        }
    }

    /// Draws the rows anew.
    pub(super) fn draw(&mut self, progress: &Progress) {
        if let Screen::Live(live) = self {
            live.draw(progress);
        }
    }

    /// What comes next comes in place of the rows.
    pub(super) fn erase(&mut self) {
        if let Screen::Live(live) = self {
            let text = live.redraw(&[], window().0);
            let _ = io::stderr().lock().write_all(text.as_bytes());
        }
    }

    /// What comes next comes below the rows.
    pub(super) fn leave(&mut self) {
        if let Screen::Live(live) = self {
            live.drawn.clear();
        }
    }
}

impl Live {
    fn draw(&mut self, progress: &Progress) {
        let (width, height) = window();
        // The last column stays free: some terminals wrap when it is filled. The last row is the cursor's.
        let rows = rows(progress, now(), width.saturating_sub(1), height.saturating_sub(1));
        let text = self.redraw(
            &rows.iter().map(|row| (row.render(self.colors), row.columns())).collect::<Vec<_>>(),
            width,
        );
        // Nobody to show it to if stderr is gone.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// What draws rows over those that are there, in one write. A window that became narrower has wrapped them.
    fn redraw(&mut self, rows: &[(String, usize)], width: usize) -> String {
        let up: usize = self.drawn.iter().map(|columns| columns.div_ceil(width.max(1)).max(1)).sum();
        let mut text = String::new();
        // Writing to a text cannot fail.
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

/// The time, seconds since the Unix epoch.
pub(super) fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// `10:11:12`, as a clock in this time zone shows it.
pub(super) fn format_clock(at: f64, zone: &TimeZone) -> String {
    let at = if at > 0.0 { at } else { now() };
    let stamp = Timestamp::from_microsecond((at * 1e6) as i64).unwrap_or(Timestamp::MAX);
    stamp.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Columns and rows of the window.
fn window() -> (usize, usize) {
    match tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => DEFAULT_WINDOW,
    }
}

#[cfg(test)]
mod tests {
    use nerve_term::event::{Size, TsNs};
    use nerve_term::terminal::TerminalState;

    use super::*;

    fn row(text: &str) -> (String, usize) {
        (text.to_string(), text.len())
    }

    #[test]
    fn rows_are_drawn_over_those_that_are_there() {
        let mut live = Live { colors: false, drawn: Vec::new() };
        let mut terminal = TerminalState::new(Size::new(20, 5));
        let mut show = |text: String| {
            terminal.process_data(TsNs(0), text.replace('\n', "\r\n").as_bytes());
            terminal.screen().text()
        };
        show("before\n".to_string());
        show(live.redraw(&[row("one"), row("two"), row("three")], 20));
        assert_eq!(show(live.redraw(&[row("1"), row("two too")], 20)).trim_end(), "before\n1\ntwo too");
        // At the bottom of the window nothing of them is lost or left behind.
        show(live.redraw(&[row("a"), row("b"), row("c"), row("d")], 20));
        assert_eq!(show(live.redraw(&[row("A"), row("B"), row("C"), row("D")], 20)).trim_end(), "A\nB\nC\nD");
    }

    #[test]
    fn a_clock_shows_the_time_of_the_event() {
        assert_eq!(format_clock(36_672.9, &TimeZone::UTC), "10:11:12");
    }
}
