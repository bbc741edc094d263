//! Prints data to stdout and messages to stderr, with colour only on a terminal.

use std::fmt::{self, Display};
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use nerve_types::text;
use serde::Serialize;
use tokio::sync::watch;

use crate::failure::Failure;

/// Time after which a wait shows progress, and interval of its updates.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Spaces between the columns of a table.
const GAP: usize = 2;

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

/// Prints rows under a header with aligned columns; prints nothing if there are no rows. Colours the column `state`.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    table_with_numbers(header, rows, &[])
}

/// Like [`table`], with the columns of these titles aligned to the right.
pub fn table_with_numbers(header: &[&str], rows: &[Vec<String>], numbers: &[&str]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let table = Table::new(header, rows).align_right(numbers);
    table.print_header()?;
    rows.iter().try_for_each(|row| table.print_row(row))
}

/// A table with columns of fixed widths, to which rows can be added later.
#[derive(Debug)]
pub struct Table<'a> {
    header: &'a [&'a str],
    /// Titles of the columns whose cells are aligned to the right.
    numbers: &'a [&'a str],
    /// Characters of each column.
    widths: Vec<usize>,
}

impl<'a> Table<'a> {
    /// Creates a table whose columns are as wide as these rows need.
    pub fn new(header: &'a [&'a str], rows: &[Vec<String>]) -> Table<'a> {
        let width = |column: usize| {
            let cells =
                rows.iter().filter_map(|row| row.get(column)).map(|cell| one_line(cell).chars().count());
            cells.chain([header[column].len()]).max().unwrap_or(0)
        };
        Table { header, numbers: &[], widths: (0..header.len()).map(width).collect() }
    }

    /// Aligns the columns with these titles to the right.
    #[must_use]
    pub fn align_right(self, numbers: &'a [&'a str]) -> Table<'a> {
        Table { numbers, ..self }
    }

    /// Returns the width of the rows, without the gap after the last column.
    pub fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP * self.widths.len().saturating_sub(1)
    }

    /// Prints the titles of the columns.
    pub fn print_header(&self) -> Result<()> {
        let titles = self.header.iter().enumerate();
        let titles: String =
            titles.map(|(column, title)| self.align(title.to_uppercase(), title, column)).collect();
        line(format_args!("{STRONG}{}{STRONG:#}", titles.trim_end()))
    }

    /// Prints a row, and colours the column `state`.
    pub fn print_row(&self, row: &[String]) -> Result<()> {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let text = one_line(cell);
            let shown = if self.header[column] == "state" { state(&text) } else { text.clone() };
            self.align(shown, &text, column)
        });
        line(cells.collect::<String>().trim_end())
    }

    /// Pads a cell. `text` is its visible part.
    fn align(&self, shown: String, text: &str, column: usize) -> String {
        let padding = " ".repeat(self.widths[column].saturating_sub(text.chars().count()));
        let gap = " ".repeat(GAP);
        match self.numbers.contains(&self.header[column]) {
            true => padding + &shown + &gap,
            false => shown + &padding + &gap,
        }
    }
}

/// Returns the width of the terminal on standard output, in columns; `None` if standard output is no terminal.
pub fn window_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns the table without its empty columns. While it needs more than `width` characters, further columns are dropped in
/// the order of `optional`.
pub fn select_columns<'a>(
    header: &[&'a str],
    rows: &[Vec<String>],
    width: Option<usize>,
    optional: &[&str],
) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let cells = |column: usize| rows.iter().map(move |row| row[column].chars().count());
    let needed = |column: &usize| cells(*column).chain([header[*column].len()]).max().unwrap_or(0) + GAP;
    let mut columns: Vec<usize> =
        (0..header.len()).filter(|column| cells(*column).any(|chars| chars > 0)).collect();
    let mut total: usize = columns.iter().map(needed).sum();
    for title in optional {
        let position = columns.iter().position(|column| header[*column] == *title);
        if let Some(index) = position.filter(|_| width.is_some_and(|width| total > width + GAP)) {
            total -= needed(&columns.remove(index));
        }
    }
    let pick = |row: &Vec<String>| columns.iter().map(|column| row[*column].clone()).collect();
    (columns.iter().map(|column| header[*column]).collect(), rows.iter().map(pick).collect())
}

/// Shortens the cells of a column as far as a table needs to fit into `width` characters, but to no less than `min_width`.
pub fn shorten_column(
    header: &[&str],
    rows: &mut [Vec<String>],
    column: usize,
    width: usize,
    min_width: usize,
    shorten: impl Fn(&str, usize) -> String,
) {
    let excess = Table::new(header, rows).width().saturating_sub(width);
    let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let limit = longest.saturating_sub(excess).max(min_width);
    rows.iter_mut().for_each(|row| row[column] = shorten(&row[column], limit));
}

/// Returns a text with an ellipsis in its middle if it exceeds `limit` characters. More of the end stays, where paths differ.
pub fn shorten_middle(text: &str, limit: usize) -> String {
    let chars = text.chars().count();
    if chars <= limit {
        return text.to_string();
    }
    let start = limit / 3;
    let end = limit.saturating_sub(start + 1);
    let (before, after): (String, String) =
        (text.chars().take(start).collect(), text.chars().skip(chars - end).collect());
    format!("{before}…{after}")
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

/// Prints an error and its hint to stderr, as one JSON object if the command prints JSON.
pub fn failure(failure: &Failure, as_json: bool) {
    if as_json {
        // Cannot fail: the fields are plain data.
        let error = serde_json::to_string(failure).unwrap_or_default();
        let _ = writeln!(io::stderr().lock(), "{error}");
        return;
    }
    if let Some(partial) = &failure.text {
        // The error is reported also if the reader of standard output left.
        let _ = text(partial);
    }
    note(format_args!("{BAD}error{BAD:#}: {}", sanitize(&failure.message)));
    screen(failure.screen.as_deref().unwrap_or_default());
    if let Some(delivery) = failure.delivery {
        note(format_args!("{FAINT}delivery{FAINT:#}: {delivery}"));
    }
    choices(&failure.choices);
    if let Some(text) = &failure.hint {
        hint(sanitize(text));
    }
}

/// Prints a dialog to stderr: the screen and the numbered choices.
pub fn dialog(text: &str, choice_labels: &[String]) {
    screen(text);
    choices(choice_labels);
}

/// Prints the last rows of a screen to stderr. They usually explain an error; `node why` shows all.
fn screen(text: &str) {
    let text = sanitize(text.trim_end());
    if text.trim().is_empty() {
        return;
    }
    let rows: Vec<&str> = text.lines().collect();
    let end = &rows[rows.len().saturating_sub(ERROR_ROWS)..];
    let suffix = if end.len() < rows.len() { " (last rows)" } else { "" };
    note(format_args!("{FAINT}screen{suffix}{FAINT:#}:"));
    for row in end {
        note(format_args!("  {FAINT}|{FAINT:#} {row}"));
    }
}

/// Prints numbered choices to stderr.
fn choices(labels: &[String]) {
    for (number, label) in labels.iter().enumerate() {
        note(format_args!("  {}. {}", number + 1, one_line(label)));
    }
}

/// Rows of the screen in an error message.
const ERROR_ROWS: usize = 16;

/// Colours the name of a state.
pub fn state(word: &str) -> String {
    let style = match word.split_whitespace().next() {
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
    fn empty_and_wide_columns_are_left_out() {
        let header = ["id", "note", "size", "command"];
        let row = |cells: [&str; 4]| cells.map(String::from).to_vec();
        let rows = [row(["a", "", "12 B", "claude"]), row(["b", "", "3 B", "bash --norc"])];
        let titles = |width| select_columns(&header, &rows, width, &["command", "size"]).0;
        assert_eq!(titles(None), ["id", "size", "command"]);
        // Two, four and eleven characters, with two spaces between them.
        assert_eq!(titles(Some(21)), ["id", "size", "command"]);
        assert_eq!(titles(Some(20)), ["id", "size"]);
        assert_eq!(titles(Some(8)), ["id", "size"]);
        assert_eq!(titles(Some(1)), ["id"]);
        assert_eq!(select_columns(&header, &rows, Some(8), &["command"]).1[1], ["b", "3 B"]);
    }

    #[test]
    fn preview_is_one_line_and_marks_truncation() {
        assert_eq!(preview("one\n two", 20), "one two");
        assert_eq!(preview("äöüß", 3), "äöü…");
    }
}
