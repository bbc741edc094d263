//! What a row of Claude's output is, by its first columns.

use crate::parse::rows::{after_marker, indent, is_blank, is_duration, is_rule};

/// Frames of the spinner; the last one stays in the line that ends a turn.
const SPINNER: [char; 9] = ['·', '✢', '✳', '✶', '✻', '✽', '✺', '∗', '*'];

/// A row by its first columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark<'a> {
    /// Nothing.
    Blank,
    /// `●` (older `⏺`): text or a tool starts.
    Head(&'a str),
    /// `  ⎿  `: what came of the tool above.
    Result(&'a str),
    /// `✻ Worked for 3s`: the turn is over.
    End,
    /// `✶ Bloviating…`: it runs.
    Spinner,
    /// `∴`: thinking, in versions that show it.
    Thinking(&'a str),
    /// `❯` or `>`: a prompt.
    Prompt,
    /// The border of the composer or of a dialog.
    Rule,
    /// Part of what started above.
    Indented,
    /// Text at column 0 that starts nothing we know.
    Unknown,
}

impl Mark<'_> {
    /// Not merely a row of what started above it.
    pub(super) fn starts_something(&self) -> bool {
        !matches!(self, Mark::Blank | Mark::Result(_) | Mark::Indented | Mark::Unknown)
    }

    /// Reads one row.
    pub(super) fn of(row: &str) -> Mark<'_> {
        if is_blank(row) {
            return Mark::Blank;
        }
        if let Some(result) = row.strip_prefix("  ⎿ ") {
            return Mark::Result(result.strip_prefix([' ', '\u{a0}']).unwrap_or(result));
        }
        if indent(row) > 0 {
            return Mark::Indented;
        }
        if let Some(rest) = after_marker(row, &['●', '⏺']) {
            return Mark::Head(rest);
        }
        if let Some(rest) = after_marker(row, &['∴']) {
            return Mark::Thinking(rest);
        }
        if let Some(rest) = after_marker(row, &SPINNER) {
            return if is_end(rest) { Mark::End } else { Mark::Spinner };
        }
        if prompt(row).is_some() {
            return Mark::Prompt;
        }
        if is_rule(row, '─') { Mark::Rule } else { Mark::Unknown }
    }
}

/// The text behind a prompt marker at column 0.
pub(super) fn prompt(row: &str) -> Option<&str> {
    after_marker(row, &['❯', '>'])
}

/// `Worked for 0s · done 8:44 PM`: any verb, a duration, more behind a dot.
fn is_end(rest: &str) -> bool {
    let first = rest.split(" · ").next().unwrap_or(rest);
    first.split_once(" for ").is_some_and(|(verb, time)| !verb.contains(' ') && is_duration(time.trim_end()))
}

/// An interruption, in the words of old and new versions.
pub(super) fn is_interruption(result: &str) -> bool {
    result.starts_with("Interrupted")
}

/// One row that stands for a tool call or a thought that is folded away: `Read 1 file (ctrl+o to expand)`, `Thought for 2s`.
pub(super) struct Fold<'a> {
    /// The row's text without the hint.
    pub(super) label: &'a str,
    /// The tool, or `None` for a thought.
    pub(super) tool: Option<&'a str>,
    /// What the label says about it: `1 file`, `2s`.
    pub(super) detail: &'a str,
}

/// Reads a folded row (its indentation or marker already taken off).
pub(super) fn fold(text: &str) -> Option<Fold<'_>> {
    const HINT: &str = " (ctrl+o to expand)";
    let label = text.strip_suffix(HINT);
    let is_hinted = label.is_some();
    let label = label.unwrap_or(text).trim_end();
    if let Some(time) = label.strip_prefix("Thought for ") {
        return is_duration(time).then_some(Fold { label, tool: None, detail: time });
    }
    let (verb, detail) = label.split_once(' ')?;
    let tool = match verb {
        "Ran" | "Running" => "Bash",
        "Read" | "Reading" => "Read",
        "Searched" | "Searching" => "Search",
        "Listed" | "Listing" => "List",
        "Edited" | "Editing" | "Updated" | "Updating" => "Edit",
        "Wrote" | "Writing" | "Created" | "Creating" => "Write",
        "Fetched" | "Fetching" => "Fetch",
        _ if is_hinted && verb.starts_with(char::is_uppercase) => verb,
        _ => return None,
    };
    // Without the hint (full-screen) the label has to count something: `Ran 1 shell command`.
    let counts = detail.trim_start_matches("for ").starts_with(|c: char| c.is_ascii_digit());
    (is_hinted || counts).then_some(Fold { label, tool: Some(tool), detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_column_zero_counts() {
        assert_eq!(Mark::of("● text"), Mark::Head("text"));
        assert_eq!(Mark::of("⏺ text"), Mark::Head("text"));
        assert_eq!(Mark::of("  ● text"), Mark::Indented);
        assert_eq!(Mark::of("  ✻ Worked for 0s"), Mark::Indented);
        assert_eq!(Mark::of("●text"), Mark::Unknown);
    }

    #[test]
    fn any_verb_ends_a_turn() {
        for row in [
            "✻ Worked for 0s · done 8:44 PM",
            "✻ Sautéed for 1m 12s",
            "* Brewed for 8s · 1 shell still running",
        ] {
            assert_eq!(Mark::of(row), Mark::End, "{row}");
        }
        for row in
            ["✶ Bloviating…", "✻ 500 scripted error · retrying in 3s · attempt 4/10", "* Waiting for it…"]
        {
            assert_eq!(Mark::of(row), Mark::Spinner, "{row}");
        }
    }

    #[test]
    fn folded_rows() {
        let read = fold("Read 1 file · 1 failed (ctrl+o to expand)").expect("a fold");
        assert_eq!(
            (read.label, read.tool, read.detail),
            ("Read 1 file · 1 failed", Some("Read"), "1 file · 1 failed")
        );
        assert_eq!(fold("Thought for 2s").map(|fold| fold.detail), Some("2s"));
        assert_eq!(fold("Ran 1 shell command").and_then(|fold| fold.tool), Some("Bash"));
        assert_eq!(fold("Searched for 2 patterns").and_then(|fold| fold.tool), Some("Search"));
        assert!(fold("Read the manual").is_none());
        assert!(fold("Thought for a while").is_none());
    }
}
