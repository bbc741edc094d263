//! Prints data to stdout and messages to stderr, with colour only on a terminal.

mod stderr;
mod table;

use std::fmt::{self, Display};
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use nerve_types::text;
use serde::Serialize;
use tokio::sync::watch;

pub use self::stderr::{dialog, failure};
pub use self::table::{
    Table, select_columns, shorten_column, shorten_middle, table, table_with_numbers, window_width,
};

/// Time after which a wait shows progress, and interval of its updates.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Success.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Work in progress, and warnings.
pub const WORKING: Style = AnsiColor::Yellow.on_default();
/// Failure.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Waiting for the user.
pub const WAITING: Style = AnsiColor::Magenta.on_default();
/// Names and titles.
pub const STRONG: Style = Style::new().bold();
/// Details.
pub const FAINT: Style = Style::new().dimmed();

/// Prints a line of data.
pub fn line(text: impl Display) -> Result<()> {
    check_write(writeln!(anstream::stdout(), "{text}"))
}

/// Prints text of a terminal or an agent. Control characters other than line ends and tabs are removed, so that the
/// text cannot control the reader's terminal.
pub fn text(text: &str) -> Result<()> {
    let clean = sanitize(text);
    let end = if clean.ends_with('\n') { "" } else { "\n" };
    piece(&format!("{clean}{end}"))
}

/// Prints sanitized text without a line end.
pub fn piece(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    check_write(out.write_all(sanitize(text).as_bytes()).and_then(|()| out.flush()))
}

/// Prints indented JSON.
pub fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    check_write(writeln!(io::stdout().lock(), "{text}"))
}

/// Prints JSON on one line, for streams of objects.
pub fn json_line(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)?;
    let mut out = io::stdout().lock();
    check_write(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Prints bytes unchanged.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    check_write(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Prints `name value` lines, without the empty values.
pub fn fields(fields: &[(&str, String)]) -> Result<()> {
    let present = fields.iter().filter(|(_, value)| !value.is_empty());
    let width = present.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in present {
        let shown = if *name == "state" { state(value) } else { one_line(value) };
        line(format_args!("{STRONG}{name:<width$}{STRONG:#}  {shown}"))?;
    }
    Ok(())
}

/// Prints a message to stderr.
pub fn note(text: impl Display) {
    // A failure to write to stderr cannot be reported.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Prints sanitized text to stderr without a line end.
pub fn note_piece(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(sanitize(text).as_bytes()).and_then(|()| err.flush());
}

/// Prints a warning to stderr.
pub fn warning(text: impl Display) {
    note(format_args!("{WORKING}warning{WORKING:#}: {text}"));
}

/// Prints a hint to stderr.
pub fn hint(text: impl Display) {
    note(format_args!("{STRONG}hint{STRONG:#}: {text}"));
}

/// Colours the name of a state.
pub fn state(word: &str) -> String {
    let style = match word.split([' ', ':']).next() {
        Some("ready" | "completed" | "reused") => GOOD,
        Some("busy" | "starting" | "stopping" | "running" | "queued") => WORKING,
        Some("blocked" | "suspended" | "waiting") => WAITING,
        Some("failed" | "cancelled" | "interrupted") => BAD,
        _ => FAINT,
    };
    format!("{style}{word}{style:#}")
}

/// Returns the mark of a check: `ok`, `FAIL`, or `-` for a failed check that is not essential.
pub fn mark(ok: bool, essential: bool) -> String {
    let (style, word) = match (ok, essential) {
        (true, _) => (GOOD, "ok"),
        (false, true) => (BAD, "FAIL"),
        (false, false) => (FAINT, "-"),
    };
    format!("{style}{word:<4}{style:#}")
}

/// Returns a text on one line, cut to `limit` characters with an ellipsis.
pub fn preview(text: &str, limit: usize) -> String {
    text::shorten(&one_line(text), limit)
}

/// Awaits `work` and shows the elapsed seconds on stderr, if that is a terminal and it takes more than a second.
pub async fn progress<T>(label: &str, work: impl Future<Output = T>) -> T {
    let (_step, steps) = watch::channel(label.to_string());
    progress_with_steps(steps, work).await
}

/// Awaits `work` like [`progress`], and shows the current one of its steps.
pub async fn progress_with_steps<T>(steps: watch::Receiver<String>, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let mut seconds = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_AFTER, PROGRESS_AFTER);
    let mut waited = 0;
    loop {
        tokio::select! {
            result = &mut work => {
                if waited > 0 {
                    let _ = write!(io::stderr().lock(), "\r\x1b[K");
                }
                return result;
            }
            _ = seconds.tick() => {
                waited += 1;
                let _ = write!(io::stderr().lock(), "\r\x1b[K{} … {waited} s", *steps.borrow());
            }
        }
    }
}

/// The reader of standard output closed it (`nerve … | head`). This ends the command successfully.
#[derive(Debug)]
pub struct BrokenPipe;

impl std::error::Error for BrokenPipe {}

impl fmt::Display for BrokenPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

/// Converts a write error; a closed standard output becomes [`BrokenPipe`].
fn check_write(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => anyhow::Error::new(BrokenPipe),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    })
}

/// Removes control characters other than line ends and tabs.
pub fn sanitize(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn one_line(text: &str) -> String {
    sanitize(&text::one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitize_removes_control_characters() {
        assert_eq!(sanitize("a\x1b]0;evil\x07b\r\n\tc\u{9b}31m"), "a]0;evilb\n\tc31m");
    }

    #[test]
    fn preview_is_one_line_and_marks_truncation() {
        assert_eq!(preview("one\n two", 20), "one two");
        assert_eq!(preview("äöüß", 3), "äöü…");
    }
}
