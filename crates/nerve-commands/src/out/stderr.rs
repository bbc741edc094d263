//! Errors and dialogs on stderr.

use std::io::{self, Write};

use super::{BAD, FAINT, hint, note, one_line, sanitize, text};
use crate::failure::Failure;

/// Rows of the screen in an error message.
const ERROR_ROWS: usize = 16;

/// Prints an error and its hint to stderr, as one JSON object if the command prints JSON.
pub fn failure(failure: &Failure, is_json: bool) {
    if is_json {
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
