//! Tables on stdout.

use std::io;

use anyhow::Result;

use super::{STRONG, line, one_line, state};

/// Spaces between the columns of a table.
const GAP: usize = 2;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
