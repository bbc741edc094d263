//! Classifies rows of Claude's output by their first columns.

use crate::parse::rows::{after_marker, dedent, indent, is_blank, is_duration, is_rule};

/// Frames of the spinner; the last one remains in the line that ends a turn.
const SPINNER: [char; 9] = ['·', '✢', '✳', '✶', '✻', '✽', '✺', '∗', '*'];

/// Kind of a row, by its first columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind<'a> {
    /// A blank row.
    Blank,
    /// `●` (older `⏺`): the beginning of text or a tool.
    Head(&'a str),
    /// `  ⎿  `: the result of the tool above.
    Result(&'a str),
    /// `✻ Worked for 3s`: the end of the turn.
    End,
    /// `✶ Bloviating…`: the turn is running.
    Spinner,
    /// `∴`: thinking, in versions that show it.
    Thinking(&'a str),
    /// `❯` or `>`: a prompt.
    Prompt,
    /// A row of the program itself: a compaction of the conversation, or the request to rate the session.
    Notice,
    /// The border of the composer or of a dialog.
    Rule,
    /// A continuation of the item above.
    Indented,
    /// Text at column 0 that starts no known item.
    Unknown,
}

impl RowKind<'_> {
    /// Returns true for a row that starts an item.
    pub(super) fn starts_item(&self) -> bool {
        !matches!(self, RowKind::Blank | RowKind::Result(_) | RowKind::Indented | RowKind::Unknown)
    }

    /// Classifies a row.
    pub(super) fn classify(row: &str) -> RowKind<'_> {
        if is_blank(row) {
            return RowKind::Blank;
        }
        // Captures of 2.0.x may lack the indentation.
        if indent(row) <= 2
            && let Some(result) = after_marker(dedent(row, 2), &['⎿'])
        {
            return RowKind::Result(result.strip_prefix([' ', '\u{a0}']).unwrap_or(result));
        }
        if is_notice(row) {
            return RowKind::Notice;
        }
        if indent(row) > 0 {
            return RowKind::Indented;
        }
        if let Some(rest) = after_marker(row, &['●', '⏺']) {
            return RowKind::Head(rest);
        }
        if let Some(rest) = after_marker(row, &['∴']) {
            return RowKind::Thinking(rest);
        }
        if let Some(rest) = after_marker(row, &SPINNER) {
            return if is_end(rest) { RowKind::End } else { RowKind::Spinner };
        }
        if prompt(row).is_some() {
            return RowKind::Prompt;
        }
        if is_rule(row, '─') { RowKind::Rule } else { RowKind::Unknown }
    }
}

/// Returns the text behind a prompt marker at column 0.
pub(super) fn prompt(row: &str) -> Option<&str> {
    after_marker(row, &['❯', '>'])
}

/// Returns true for a row that the program itself adds to the conversation: `✻ Conversation compacted (ctrl+o for
/// history)`, in older versions inside a horizontal line, or the request to rate the session.
fn is_notice(row: &str) -> bool {
    const COMPACTED: &str = "Conversation compacted";
    if after_marker(row, &SPINNER).is_some_and(|rest| rest.starts_with(COMPACTED)) {
        return true;
    }
    let inner = row.trim().trim_matches(['═', '─', '━']);
    if inner.len() < row.trim().len() {
        return inner.trim_start().starts_with(COMPACTED);
    }
    let text = after_marker(row, &['●', '⏺']).unwrap_or(row).trim_end();
    matches!(text, "How is Claude doing this session?" | "How is Claude doing this session? (optional)")
}

/// Returns true for `Worked for 0s · done 8:44 PM`: any verb, a duration, optional details behind a dot.
fn is_end(rest: &str) -> bool {
    let first = rest.split(" · ").next().unwrap_or(rest);
    first.split_once(" for ").is_some_and(|(verb, time)| !verb.contains(' ') && is_duration(time.trim_end()))
}

/// Returns true for an interruption, in the wording of old and new versions.
pub(super) fn is_interruption(result: &str) -> bool {
    result.starts_with("Interrupted")
}

/// A row that summarizes a folded tool call or thought: `Read 1 file (ctrl+o to expand)`, `Thought for 2s`.
pub(super) struct Fold<'a> {
    /// The row's text without the hint.
    pub(super) label: &'a str,
    /// The tool, or `None` for a thought.
    pub(super) tool: Option<&'a str>,
    /// Details of the label: `1 file`, `2s`.
    pub(super) detail: &'a str,
}

/// Parses a folded row without its indentation or marker.
pub(super) fn parse_fold(text: &str) -> Option<Fold<'_>> {
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
    // Without the hint (full-screen) the label must contain a count: `Ran 1 shell command`.
    let has_count = detail.trim_start_matches("for ").starts_with(|c: char| c.is_ascii_digit());
    (is_hinted || has_count).then_some(Fold { label, tool: Some(tool), detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_column_zero_matters() {
        assert_eq!(RowKind::classify("● text"), RowKind::Head("text"));
        assert_eq!(RowKind::classify("⏺ text"), RowKind::Head("text"));
        assert_eq!(RowKind::classify("  ● text"), RowKind::Indented);
        assert_eq!(RowKind::classify("  ✻ Worked for 0s"), RowKind::Indented);
        assert_eq!(RowKind::classify("●text"), RowKind::Unknown);
    }

    #[test]
    fn results_may_lack_their_indentation() {
        for row in ["  ⎿  text", "  ⎿ \u{a0}text", "\u{a0}\u{a0}⎿\u{a0} text", "⎿  text", " ⎿ text"]
        {
            assert_eq!(RowKind::classify(row), RowKind::Result("text"), "{row:?}");
        }
        assert_eq!(RowKind::classify("     ⎿  text"), RowKind::Indented);
        assert_eq!(RowKind::classify("⎿text"), RowKind::Unknown);
    }

    #[test]
    fn rows_of_the_program_are_notices() {
        for row in [
            "✻ Conversation compacted (ctrl+o for history)",
            "═════════ Conversation compacted · ctrl+o for history ═════════",
            "● How is Claude doing this session? (optional)",
        ] {
            assert_eq!(RowKind::classify(row), RowKind::Notice, "{row}");
        }
        assert_eq!(RowKind::classify("────────────────"), RowKind::Rule);
        assert_eq!(RowKind::classify("● Conversation compacted"), RowKind::Head("Conversation compacted"));
    }

    #[test]
    fn any_verb_ends_a_turn() {
        for row in [
            "✻ Worked for 0s · done 8:44 PM",
            "✻ Sautéed for 1m 12s",
            "* Brewed for 8s · 1 shell still running",
        ] {
            assert_eq!(RowKind::classify(row), RowKind::End, "{row}");
        }
        for row in
            ["✶ Bloviating…", "✻ 500 scripted error · retrying in 3s · attempt 4/10", "* Waiting for it…"]
        {
            assert_eq!(RowKind::classify(row), RowKind::Spinner, "{row}");
        }
    }

    #[test]
    fn folded_rows_name_tool_and_detail() {
        let read = parse_fold("Read 1 file · 1 failed (ctrl+o to expand)").expect("a fold");
        assert_eq!(
            (read.label, read.tool, read.detail),
            ("Read 1 file · 1 failed", Some("Read"), "1 file · 1 failed")
        );
        assert_eq!(parse_fold("Thought for 2s").map(|fold| fold.detail), Some("2s"));
        assert_eq!(parse_fold("Ran 1 shell command").and_then(|fold| fold.tool), Some("Bash"));
        assert_eq!(parse_fold("Searched for 2 patterns").and_then(|fold| fold.tool), Some("Search"));
        assert!(parse_fold("Read the manual").is_none());
        assert!(parse_fold("Thought for a while").is_none());
    }
}
