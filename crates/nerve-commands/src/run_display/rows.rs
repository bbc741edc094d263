//! Renders the progress of a run as terminal rows. Does no I/O and reads no clock.

use std::time::Duration;

use anstyle::Style;
use unicode_width::UnicodeWidthChar;

use super::progress::{Progress, StepRow, StepState};
use crate::out;

/// Maximum width of the id column.
const ID_COLUMNS: usize = 32;
/// Width of the state and time columns, with spacing.
const STATE_AND_TIME_COLUMNS: usize = 20;
/// Minimum window width for the tokens and node columns.
const WIDE_COLUMNS: usize = 60;

/// A row of styled text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    pieces: Vec<(Style, String)>,
}

/// Renders at most `height` rows of at most `width` columns. `now`: seconds since the Unix epoch.
pub(super) fn rows(progress: &Progress, now: f64, width: usize, height: usize) -> Vec<Row> {
    let shown = select_steps(progress, height.saturating_sub(2));
    let longest = shown.iter().map(|row| columns(&row.step)).max().unwrap_or(0);
    let id_width = longest.min(ID_COLUMNS).min(width.saturating_sub(STATE_AND_TIME_COLUMNS).max(8));
    let mut rows: Vec<Row> = shown.iter().map(|step| step_row(step, now, id_width, width)).collect();
    rows.extend(hidden_summary(progress, &shown, width));
    rows.push(summary(progress, now, width));
    rows.truncate(height);
    rows
}

impl Row {
    /// Returns the text of the row, with or without colors.
    pub(super) fn render(&self, colors: bool) -> String {
        let piece = |(style, text): &(Style, String)| match colors {
            true => format!("{style}{text}{style:#}"),
            false => text.clone(),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// Returns the width in columns.
    pub(super) fn columns(&self) -> usize {
        self.pieces.iter().map(|(_, text)| columns(text)).sum()
    }

    /// Appends text, truncated to the row width `width`.
    fn push(&mut self, style: Style, text: &str, width: usize) {
        let limit = width.saturating_sub(self.columns());
        self.pieces.push((style, truncate(text, limit)));
    }
}

/// Selects at most `limit` steps, in order. Prefers active steps, then failed, the latest completed, and the next pending ones.
fn select_steps(progress: &Progress, limit: usize) -> Vec<&StepRow> {
    let mut steps: Vec<&StepRow> = progress.steps.iter().collect();
    if steps.len() > limit {
        let rank = |row: &StepRow| match row.state {
            state if state.is_active() => 0,
            StepState::Failed => 1,
            StepState::Pending => 3,
            _ => 2,
        };
        // The sort is stable, so pending steps keep their order.
        steps.sort_by(|one, other| {
            let latest = other.ended.unwrap_or(0.0).total_cmp(&one.ended.unwrap_or(0.0));
            rank(one).cmp(&rank(other)).then(latest)
        });
        steps.truncate(limit);
    }
    let position = |row: &&StepRow| progress.steps.iter().position(|known| std::ptr::eq(known, *row));
    steps.sort_by_cached_key(|row| (row.group, position(row)));
    steps
}

fn step_row(step: &StepRow, now: f64, id_width: usize, width: usize) -> Row {
    let mut row = Row::default();
    let state = step.state.label();
    row.push(style(step.state), &format!("{state:<9}"), width);
    row.push(Style::new(), " ", width);
    let name = truncate(&step.step, id_width);
    let pad = " ".repeat(id_width.saturating_sub(columns(&name)));
    row.push(Style::new(), &format!("{name}{pad}"), width);
    if step.state == StepState::Pending {
        return row;
    }
    row.push(Style::new(), &format!("  {:>7}", elapsed(step, now)), width);
    if width >= WIDE_COLUMNS {
        let tokens =
            if step.tokens > 0 { format!("{} tokens", group_digits(step.tokens)) } else { String::new() };
        row.push(out::FAINT, &format!("  {tokens:>14}"), width);
    }
    match &step.error {
        Some(error) => row.push(Style::new(), &format!("  {}", out::preview(error, 200)), width),
        None if width >= WIDE_COLUMNS && !step.node.is_empty() => {
            row.push(out::FAINT, &format!("  {}", step.node), width)
        }
        None => {}
    }
    row
}

fn elapsed(step: &StepRow, now: f64) -> String {
    match step.state {
        StepState::Reused | StepState::Skipped => String::new(),
        _ => format_duration(step.ended.unwrap_or(now) - step.started),
    }
}

/// Summarizes the steps that are not shown.
fn hidden_summary(progress: &Progress, shown: &[&StepRow], width: usize) -> Option<Row> {
    if shown.len() == progress.steps.len() {
        return None;
    }
    let count = |matches: &dyn Fn(StepState) -> bool| {
        let all = progress.steps.iter().filter(|row| matches(row.state)).count();
        all - shown.iter().filter(|row| matches(row.state)).count()
    };
    let counts = [
        (count(&StepState::is_active), "active"),
        (count(&|state| matches!(state, StepState::Failed | StepState::Cancelled)), "failed or cancelled"),
        (count(&StepState::is_done), "done"),
        (count(&|state| state == StepState::Pending), "pending"),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, label)| format!("{count} {label}"))
        .collect();
    let mut row = Row::default();
    row.push(out::FAINT, &format!("… and {}", parts.join(", ")), width);
    Some(row)
}

fn summary(progress: &Progress, now: f64, width: usize) -> Row {
    let mut parts = vec![match &progress.status {
        Some(status) => status.clone(),
        None => format!("{} of {} steps done", progress.done_count(), progress.total),
    }];
    let tokens = progress.tokens();
    if tokens > 0 {
        parts.push(format!("{} tokens", group_digits(tokens)));
    }
    if let Some(started) = progress.started {
        parts.push(format_duration(progress.ended.unwrap_or(now) - started));
    }
    let mut row = Row::default();
    row.push(out::STRONG, &parts.join(" · "), width);
    row
}

fn style(state: StepState) -> Style {
    match state {
        StepState::Done => out::GOOD,
        StepState::Queued | StepState::Running | StepState::Retrying => out::WORKING,
        StepState::Failed | StepState::Cancelled => out::BAD,
        StepState::Waiting => out::WAITING,
        StepState::Pending | StepState::Reused | StepState::Skipped => out::FAINT,
    }
}

/// Formats seconds as `0.3 s`, `12 s`, `2:05` or `1:02:03`.
pub fn format_duration(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match seconds.as_secs() {
        0..10 => format!("{:.1} s", seconds.as_secs_f64()),
        whole @ 10..60 => format!("{whole} s"),
        whole @ 60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        whole => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

/// Formats a number as `1,204`.
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn columns(text: &str) -> usize {
    text.chars().map(|char| char.width().unwrap_or(0)).sum()
}

/// Truncates a text to `limit` columns, with an ellipsis.
fn truncate(text: &str, limit: usize) -> String {
    let text: String = text.chars().filter(|char| !char.is_control()).collect();
    if columns(&text) <= limit {
        return text;
    }
    let mut truncated = String::new();
    let mut used = 0;
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used + 1 > limit {
            break;
        }
        truncated.push(char);
    }
    if limit > 0 {
        truncated.push('…');
    }
    truncated
}

#[cfg(test)]
mod tests {
    use nerve_api::EventType;
    use serde_json::json;

    use super::super::progress::tests::event;
    use super::*;

    fn progress() -> Progress {
        let mut progress = Progress::new("r", "g", &["fetch".into(), "ask".into(), "ship".into()]);
        let mut apply = |kind, at, data| progress.apply(&event(kind, at, data));
        apply(EventType::GraphStarted, 100.0, json!({"graph_id": "g", "steps": 3}));
        apply(EventType::StepStarted, 100.0, json!({"step_id": "fetch", "node_id": "sh"}));
        apply(
            EventType::StepCompleted,
            100.3,
            json!({"step_id": "fetch", "state": "completed", "tokens_used": 1204}),
        );
        apply(EventType::StepStarted, 100.3, json!({"step_id": "ask", "node_id": "me"}));
        progress
    }

    fn shown(progress: &Progress, now: f64, width: usize, height: usize) -> Vec<String> {
        let rows = rows(progress, now, width, height);
        assert!(rows.len() <= height && rows.iter().all(|row| row.columns() <= width), "{rows:#?}");
        rows.iter().map(|row| row.render(false).trim_end().to_string()).collect()
    }

    #[test]
    fn shows_state_time_and_tokens() {
        assert_eq!(
            shown(&progress(), 112.5, 80, 24),
            [
                "done      fetch    0.3 s    1,204 tokens  sh",
                "running   ask       12 s                  me",
                "-         ship",
                "1 of 3 steps done · 1,204 tokens · 12 s",
            ]
        );
        assert_eq!(shown(&progress(), 112.5, 20, 24)[1], "running   ask      …");
    }

    #[test]
    fn rows_fit_the_window() {
        let steps: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
        let mut progress = Progress::new("r", "g", &steps);
        for n in 0..30 {
            progress.apply(&event(
                EventType::StepStarted,
                f64::from(n),
                json!({ "step_id": format!("s{n}") }),
            ));
            let (kind, data) = match n {
                5 => (EventType::StepFailed, json!({"step_id": "s5", "error": "exit code 3\nand more"})),
                29 => continue,
                _ => (EventType::StepCompleted, json!({"step_id": format!("s{n}"), "state": "completed"})),
            };
            progress.apply(&event(kind, f64::from(n) + 0.5, data));
        }
        let rows = shown(&progress, 40.0, 80, 7);
        assert_eq!(
            rows,
            [
                "failed    s5     0.5 s                  exit code 3 and more",
                "done      s26    0.5 s",
                "done      s27    0.5 s",
                "done      s28    0.5 s",
                "running   s29     11 s",
                "… and 25 done, 20 pending",
                "28 of 50 steps done",
            ]
        );
        for height in 1..60 {
            for width in [1, 2, 9, 10, 39, 60, 200] {
                shown(&progress, 40.0, width, height);
            }
        }
    }

    #[test]
    fn handles_wide_characters_and_escapes() {
        let mut progress = Progress::new("r", "g", &["日本語の長い名前のステップ".into()]);
        let failed = json!({"step_id": "日本語の長い名前のステップ", "error": "\u{1b}[2Jgone"});
        progress.apply(&event(EventType::StepFailed, 1.0, failed));
        for width in 1..80 {
            let rows = shown(&progress, 2.0, width, 5);
            assert!(!rows.concat().contains('\u{1b}'));
        }
        assert_eq!(shown(&progress, 2.0, 30, 5)[0], "failed    日本語の…     0.0 s…");
    }

    #[test]
    fn formats_numbers_and_durations() {
        assert_eq!(
            (group_digits(7), group_digits(1204), group_digits(1_234_567)),
            ("7".into(), "1,204".into(), "1,234,567".into())
        );
        let spans: Vec<String> = [0.0, 9.94, 59.9, 125.0, 3723.0, -1.0].map(format_duration).to_vec();
        assert_eq!(spans, ["0.0 s", "9.9 s", "59 s", "2:05", "1:02:03", "0.0 s"]);
    }
}
