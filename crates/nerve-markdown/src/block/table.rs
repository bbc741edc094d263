//! Tables of GitHub's Markdown.

use crate::block::interrupts;
use crate::line::{CODE_INDENT, indent_of, is_blank};

/// Maximum number of columns. A text with more is no table.
const MAX_COLUMNS: usize = 256;

/// A table. Its rows have as many cells as its head.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) alignments: Vec<Option<Alignment>>,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The side to which the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alignment {
    Left,
    Center,
    Right,
}

impl Table {
    /// Reads the table that begins with the first line: a head, a line of dashes, rows. Returns it and the number of its lines.
    pub(crate) fn read(lines: &[&str]) -> Option<(Table, usize)> {
        let [head, dashes, rest @ ..] = lines else { return None };
        let alignments = read_alignments(dashes)?;
        let head = head.contains('|').then(|| split_cells(head))?;
        if head.len() != alignments.len() || head.len() > MAX_COLUMNS {
            return None;
        }
        let is_row = |line: &&&str| !is_blank(line) && !interrupts(line);
        let rows: Vec<Vec<String>> = rest
            .iter()
            .take_while(is_row)
            .map(|line| {
                let mut cells = split_cells(line);
                cells.resize(head.len(), String::new());
                cells
            })
            .collect();
        let count = 2 + rows.len();
        Some((Table { alignments, head, rows }, count))
    }
}

fn read_alignments(line: &str) -> Option<Vec<Option<Alignment>>> {
    let is_candidate = line.contains('-') && line.chars().all(|c| matches!(c, '-' | ':' | '|' | ' ' | '\t'));
    if !is_candidate || indent_of(line) >= CODE_INDENT {
        return None;
    }
    let alignment = |cell: String| {
        let dashes = cell.trim_matches(':');
        if dashes.is_empty() || dashes.contains(|c: char| c != '-') {
            return None;
        }
        Some(match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => Some(Alignment::Center),
            (true, false) => Some(Alignment::Left),
            (false, true) => Some(Alignment::Right),
            (false, false) => None,
        })
    };
    split_cells(line).into_iter().map(alignment).collect()
}

/// Returns the cells of a row. `\|` is a bar within a cell.
fn split_cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let (mut cells, mut cell, mut is_escaped) = (Vec::new(), String::new(), false);
    for c in line.strip_prefix('|').unwrap_or(line).chars() {
        match c {
            '|' if is_escaped => {
                cell.pop();
                cell.push(c);
            }
            '|' => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    cells.push(cell);
    // A bar at the end of the row begins no cell.
    if cells.len() > 1 && cells.last().is_some_and(|last| last.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Option<(Table, usize)> {
        Table::read(&text.lines().collect::<Vec<_>>())
    }

    #[test]
    fn rows_have_the_columns_of_the_head() {
        let (table, count) = table("| a | b |\n|:--|--:|\n| c |\nd | e | f\n\ng").unwrap();
        assert_eq!(table.alignments, [Some(Alignment::Left), Some(Alignment::Right)]);
        assert_eq!((table.head, count), (vec!["a".to_string(), "b".into()], 4));
        assert_eq!(table.rows, [["c", ""], ["d", "e"]]);
    }

    #[test]
    fn escaped_bars_are_text() {
        let (table, _) = table(
            r"a\|b | c
- | :-:
`x\|y` | \\|",
        )
        .unwrap();
        assert_eq!(table.head, ["a|b", "c"]);
        assert_eq!(table.rows, [["`x|y`", r"\\"]]);
        assert_eq!(table.alignments, [None, Some(Alignment::Center)]);
    }

    #[test]
    fn other_lines_are_no_table() {
        for text in
            ["a | b", "a | b\n---", "a\n---", "a | b\n--|--|--", "a | b\n-x | -", "a | b\n | ", "a|b\n:|-"]
        {
            assert!(table(text).is_none(), "{text}");
        }
    }
}
