//! The text of a pane, as multiplexers print it.

/// Returns the last `count` rows without trailing blanks and without empty rows at the end.
pub(crate) fn last_rows(text: &str, count: usize) -> String {
    let rows: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    rows[rows.len().saturating_sub(count)..].join("\n")
}
