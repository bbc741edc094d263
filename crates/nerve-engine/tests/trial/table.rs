//! The results of all agents as a Markdown table.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Behaviour, Row, Verdict};

/// Renders the table, followed by the behaviours that did not pass.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut head = String::from("| agent | version |");
    let mut rule = String::from("|---|---|");
    for behaviour in Behaviour::ALL {
        let _ = write!(head, " {} |", behaviour.title());
        rule.push_str(":-:|");
    }
    let mut text =
        format!("{head} start → ready | submit → request | last byte → reply |\n{rule}--:|--:|--:|\n");
    let mut notes = String::new();
    for row in rows {
        let _ = write!(text, "| {} | {} |", row.variant.title, row.version);
        for (_, verdict) in &row.verdicts {
            let mark = match verdict {
                Verdict::Passed => "✓",
                Verdict::Partial(_) => "(✓)",
                Verdict::Failed(_) => "✗",
                Verdict::NotTried => "–",
            };
            let _ = write!(text, " {mark} |");
        }
        let times = [&row.times.ready, &row.times.submit, &row.times.reply].map(|times| median(times));
        let _ = writeln!(text, " {} |", times.join(" | "));
        for fault in row.faults() {
            // Without the screen, which is too long for the table.
            let _ = writeln!(notes, "* {}: {}", row.variant.title, first_line(&fault));
        }
    }
    if !notes.is_empty() {
        let _ = write!(text, "\n{notes}");
    }
    text
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

fn median(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort();
    match times.get(times.len() / 2) {
        Some(time) if time.as_millis() >= 1000 => format!("{:.1} s", time.as_secs_f64()),
        Some(time) => format!("{} ms", time.as_millis()),
        None => "–".to_string(),
    }
}
