//! What is printed, and where: data on stdout, everything else on stderr, colour only on a terminal.

use std::fmt::Display;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::{Value, json};

use crate::exit::{BrokenPipe, Failure};

/// Nothing is said about a wait that is shorter.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WORKING: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WAITING: Style = AnsiColor::Magenta.on_default();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Prints a line of data.
pub(crate) fn line(text: impl Display) -> Result<()> {
    check_write(writeln!(anstream::stdout(), "{text}"))
}

/// Prints text of a terminal or an agent: control characters other than line ends and tabs are taken out, so that nothing in it can
/// drive the reader's terminal.
pub(crate) fn text(text: &str) -> Result<()> {
    let clean = sanitize(text);
    let end = if clean.ends_with('\n') { "" } else { "\n" };
    piece(&format!("{clean}{end}"))
}

/// Prints a piece of text without ending the line.
pub(crate) fn piece(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    check_write(out.write_all(sanitize(text).as_bytes()).and_then(|()| out.flush()))
}

/// Prints JSON for people and programs.
pub(crate) fn json(value: &Value) -> Result<()> {
    check_write(writeln!(io::stdout().lock(), "{value:#}"))
}

/// Prints JSON on one line, for streams of objects.
pub(crate) fn json_line(value: &Value) -> Result<()> {
    let mut out = io::stdout().lock();
    check_write(writeln!(out, "{value}").and_then(|()| out.flush()))
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    check_write(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Prints rows under a header, columns aligned; nothing at all if there are no rows. A column named `state` is coloured.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let pad = |text: &str, column: usize| " ".repeat(width(column).saturating_sub(text.chars().count()) + 2);
    let titles: String =
        header.iter().enumerate().map(|(i, title)| title.to_uppercase() + &pad(title, i)).collect();
    line(format_args!("{STRONG}{}{STRONG:#}", titles.trim_end()))?;
    for row in &rows {
        let cells = row.iter().enumerate().map(|(i, cell)| {
            let shown = if header[i] == "state" { state(cell) } else { cell.clone() };
            let last = i + 1 == header.len();
            if last { shown } else { shown + &pad(cell, i) }
        });
        line(cells.collect::<String>())?;
    }
    Ok(())
}

/// Prints facts, one a line; those that say nothing are left out.
pub(crate) fn fields(fields: &[(&str, String)]) -> Result<()> {
    let present = fields.iter().filter(|(_, value)| !value.is_empty());
    let width = present.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in present {
        let shown = if *name == "state" { state(value) } else { one_line(value) };
        line(format_args!("{STRONG}{name:<width$}{STRONG:#}  {shown}"))?;
    }
    Ok(())
}

/// Says something on stderr that is not data.
pub(crate) fn note(text: impl Display) {
    // Nobody to tell if stderr is gone.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Says a piece of a line on stderr: of text of a terminal or an agent, as [`piece`].
pub(crate) fn note_piece(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(sanitize(text).as_bytes()).and_then(|()| err.flush());
}

/// Says something on stderr that the caller should change.
pub(crate) fn warning(text: impl Display) {
    note(format_args!("{WORKING}warning{WORKING:#}: {text}"));
}

/// Says on stderr what went wrong and what to do; as one JSON object if the command prints JSON.
pub(crate) fn failure(failure: &Failure, as_json: bool) {
    if as_json {
        let error = json!({
            "error": failure.message, "hint": failure.hint, "code": failure.code,
            "screen": failure.screen, "choices": failure.choices,
        });
        let _ = writeln!(io::stderr().lock(), "{error}");
        return;
    }
    note(format_args!("{BAD}error{BAD:#}: {}", sanitize(&failure.message)));
    if let Some(screen) = failure.screen.as_deref().filter(|screen| !screen.trim().is_empty()) {
        // The end of it: what explains an error stands there. `node why` shows all.
        let screen = sanitize(screen.trim_end());
        let rows: Vec<&str> = screen.lines().collect();
        let end = &rows[rows.len().saturating_sub(ERROR_ROWS)..];
        let which = if end.len() < rows.len() { " (its last rows)" } else { "" };
        note(format_args!("{FAINT}it shows{which}{FAINT:#}:"));
        for row in end {
            note(format_args!("  {FAINT}|{FAINT:#} {row}"));
        }
    }
    for (number, choice) in failure.choices.iter().enumerate() {
        note(format_args!("  {}. {}", number + 1, one_line(choice)));
    }
    if let Some(hint) = &failure.hint {
        note(format_args!("{STRONG}hint{STRONG:#}: {}", sanitize(hint)));
    }
}

/// Rows of a terminal that an error shows.
const ERROR_ROWS: usize = 16;

/// A state's word in its colour.
pub(crate) fn state(word: &str) -> String {
    let style = match word.split_whitespace().next() {
        Some("ready" | "completed" | "reused") => GOOD,
        Some("busy" | "starting" | "stopping" | "running" | "queued") => WORKING,
        Some("blocked" | "suspended" | "waiting") => WAITING,
        Some("failed" | "cancelled" | "interrupted") => BAD,
        _ => FAINT,
    };
    format!("{style}{word}{style:#}")
}

/// A check's mark: fine, or not.
pub(crate) fn mark(ok: bool, essential: bool) -> String {
    let (style, word) = match (ok, essential) {
        (true, _) => (GOOD, "ok"),
        (false, true) => (BAD, "FAIL"),
        (false, false) => (FAINT, "-"),
    };
    format!("{style}{word:<4}{style:#}")
}

/// The first line of a text, cut to `most` characters; an ellipsis says that something is missing.
pub(crate) fn preview(text: &str, most: usize) -> String {
    let clean = one_line(text);
    let mut short: String = clean.chars().take(most).collect();
    if short.len() < clean.len() {
        short.push('…');
    }
    short
}

/// Waits for something and says so on stderr, if that is a terminal and it takes more than a second.
pub(crate) async fn progress<T>(what: &str, work: impl Future<Output = T>) -> T {
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
                let _ = write!(io::stderr().lock(), "\r\x1b[K{what} … {waited} s");
            }
        }
    }
}

/// Tells a reader that went away (`nerve … | head`) from all other errors.
fn check_write(result: io::Result<()>) -> Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => anyhow::Error::new(BrokenPipe),
        _ => anyhow::Error::new(error).context("cannot write to standard output"),
    })
}

/// A text without control characters other than line ends and tabs.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    sanitize(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_text_cannot_drive_the_readers_terminal() {
        assert_eq!(sanitize("a\x1b]0;evil\x07b\r\n\tc\u{9b}31m"), "a]0;evilb\n\tc31m");
    }

    #[test]
    fn a_preview_is_one_line_and_says_when_it_is_cut() {
        assert_eq!(preview("one\n two", 20), "one two");
        assert_eq!(preview("äöüß", 3), "äöü…");
    }
}
