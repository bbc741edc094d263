//! What came of the agents, as a table in Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Behaviour, Row, Verdict};

/// The table; below it, what is not as it should be.
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
        let _ = write!(text, "| {} | {} |", row.way.title, row.version);
        for (_, verdict) in &row.verdicts {
            let mark = match verdict {
                Verdict::Done => "✓",
                Verdict::Partly(_) => "(✓)",
                Verdict::Failed(_) => "✗",
                Verdict::NotTried => "–",
            };
            let _ = write!(text, " {mark} |");
        }
        let times = [&row.times.ready, &row.times.submit, &row.times.reply].map(|times| median(times));
        let _ = writeln!(text, " {} |", times.join(" | "));
        for fault in row.faults() {
            // Of a screen that goes with it, the table has no room.
            let _ = writeln!(notes, "* {}: {}", row.way.title, first_line(&fault));
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
