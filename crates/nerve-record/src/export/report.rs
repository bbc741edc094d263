//! The interleaved report as Markdown, JSON, CSV or text.

use std::io::{self, Write};

use nerve_types::TsNs;
use nerve_types::activity::TsMs;
use nerve_vt::terminal::{LineIndex, Snapshot, TerminalState};
use serde::Serialize;

use super::items::{Item, interleaved};

/// Formats of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// A Markdown table; snapshots are rows with a badge.
    Md,
    /// An object with a list `items` of `{"kind": "line", …}` and `{"kind": "snapshot", …}`.
    Json,
    /// `kind,index,ts_ns,text`: a line's number or a snapshot's id, a snapshot's time and label.
    Csv,
    /// The lines; snapshots are lines that begin with `▶`.
    Txt,
}

/// Writes the final lines of a session and its snapshots, in the order of [`interleaved`].
///
/// # Errors
/// Any error of `out`.
pub fn report(format: ReportFormat, terminal: &TerminalState, out: &mut impl Write) -> io::Result<()> {
    match format {
        ReportFormat::Md => markdown(terminal, out),
        ReportFormat::Json => json(terminal, out),
        ReportFormat::Csv => csv(terminal, out),
        ReportFormat::Txt => text(terminal, out),
    }
}

fn text(terminal: &TerminalState, out: &mut impl Write) -> io::Result<()> {
    for item in interleaved(terminal) {
        match item {
            Item::Line { text, .. } => writeln!(out, "{text}")?,
            Item::Snapshot { snapshot, .. } => writeln!(out, "▶ {}", heading(snapshot))?,
        }
    }
    Ok(())
}

/// Formats `snapshot 7: label` on one line.
fn heading(snapshot: &Snapshot) -> String {
    let label =
        snapshot.label.as_deref().map_or_else(String::new, |label| format!(": {}", replace_controls(label)));
    let place = if snapshot.alternate { " (on the alternate screen)" } else { "" };
    format!("snapshot {}{label}{place}", snapshot.id)
}

/// Replaces control characters: labels are untrusted.
fn replace_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn markdown(terminal: &TerminalState, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "| line | text |\n|---:|:---|")?;
    for item in interleaved(terminal) {
        match item {
            Item::Line { line, text, .. } => writeln!(out, "| {} | {} |", line.0, code(&text))?,
            Item::Snapshot { snapshot, .. } => {
                let Snapshot { id, offset, col, .. } = snapshot;
                let name = snapshot
                    .label
                    .as_deref()
                    .map_or_else(String::new, |label| format!("{} · ", code(&replace_controls(label))));
                let place = if snapshot.alternate { " · on the alternate screen" } else { "" };
                let time = time(snapshot.at);
                writeln!(out, "| ▶ **{id}** | {name}{time} · byte {offset} · column {col}{place} |")?;
            }
        }
    }
    Ok(())
}

/// Formats text as a code span in a table cell (CommonMark §6.1, GFM §4.10).
fn code(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let edge = |c: char| c == '`' || c == ' ';
    let pad = if text.starts_with(edge) || text.ends_with(edge) { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

/// Formats a time as RFC 3339 in UTC with milliseconds.
fn time(at: TsNs) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or(jiff::Timestamp::MAX);
    format!("{stamp:.3}")
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Entry<'a> {
    Line {
        line: u64,
        text: &'a str,
        wrapped: bool,
    },
    Snapshot {
        snapshot_id: u64,
        taken_at: TsMs,
        label: Option<&'a str>,
        anchor_byte: u64,
        line: u64,
        col: u16,
        alternate: bool,
    },
}

fn json(terminal: &TerminalState, out: &mut impl Write) -> io::Result<()> {
    let mut before = "{\"items\":[\n";
    for item in interleaved(terminal) {
        out.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut *out, &entry(&item))?;
        before = ",\n";
    }
    out.write_all(if before == ",\n" { b"\n]}\n" } else { b"{\"items\":[]}\n" })
}

fn entry<'a>(item: &'a Item<'a>) -> Entry<'a> {
    match item {
        Item::Line { line: LineIndex(line), text, wrapped } => {
            Entry::Line { line: *line, text, wrapped: *wrapped }
        }
        Item::Snapshot { line, snapshot } => Entry::Snapshot {
            snapshot_id: snapshot.id,
            taken_at: snapshot.at.into(),
            label: snapshot.label.as_deref(),
            anchor_byte: snapshot.offset,
            line: line.0,
            col: snapshot.col,
            alternate: snapshot.alternate,
        },
    }
}

fn csv(terminal: &TerminalState, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "kind,index,ts_ns,text")?;
    for item in interleaved(terminal) {
        match item {
            Item::Line { line, text, .. } => writeln!(out, "line,{},,{}", line.0, field(&text))?,
            Item::Snapshot { snapshot, .. } => {
                let label = field(snapshot.label.as_deref().unwrap_or_default());
                writeln!(out, "snapshot,{},{},{label}", snapshot.id, snapshot.at.0)?;
            }
        }
    }
    Ok(())
}

/// Quotes a field where RFC 4180 requires it, and if it begins or ends with a blank. Control characters, which a terminal would
/// execute, are replaced, and a text that a spreadsheet would take for a formula begins with an apostrophe.
fn field(text: &str) -> String {
    let text = &replace_controls(text);
    let formula = text.trim_start().starts_with(['=', '+', '-', '@']);
    let text = &if formula { format!("'{text}") } else { text.clone() };
    let plain = !text.contains([',', '"', '\n', '\r']) && text.trim() == text;
    if plain { text.to_string() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_spans_survive_backticks_blanks_and_bars() {
        assert_eq!(code(""), "");
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a `b` ``c"), "```a `b` ``c```");
        assert_eq!(code("`x"), "`` `x ``");
        assert_eq!(code("  indented"), "`   indented `");
    }

    #[test]
    fn fields_are_quoted_when_required() {
        assert_eq!(field("plain text"), "plain text");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(field("  indented"), "\"  indented\"");
    }

    #[test]
    fn fields_contain_no_formulas_or_escape_sequences() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", " =1"] {
            let field = field(formula);
            assert!(field.trim_start_matches('"').starts_with('\''), "{field}");
        }
        assert_eq!(field("a-b=c"), "a-b=c");
        let field = field("\x1b]52;c;aGk=\x07\r\n\t=1\u{9b}31m");
        assert!(!field.chars().any(char::is_control), "{field:?}");
    }
}
