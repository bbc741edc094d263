//! The page with the results.

use std::fmt::Write as _;

use super::cells::Plan;
use super::options::SIZES;
use super::results::{Outcome, Results};

/// Characters of a note on the page.
const NOTE: usize = 65;

const HEAD: &str = "\
# Compatibility

<!-- Written by `cargo xtask matrix`; changes by hand are lost. -->

nerve drives these versions of the agents, unattended in a real terminal, against a scripted model
API on loopback. Each row is one version in one size of the terminal. What does not depend on the
size (·) runs at 120x40 only. A scenario fails, too, if nerve says something untrue, such as success
for an answer whose connection was lost.

✓ passed, (✓) passed with a remark, ✗ failed, – not possible, for the reason below; *not run* has no
result. `cargo xtask matrix` runs what is missing and writes this page;
`cargo xtask matrix --agents codex --versions 0.160.0 --sizes 60x20` runs some.

| scenario | expected |
|---|---|
| ready | the agent starts and becomes ready |
| short, long, slow | the model's text, whole: one line, 300 lines, words during seconds |
| 15 turns | fifteen short answers in quick succession |
| paste | 300 lines reach the model unchanged |
| tool, dialog, refusal | a tool without permission; one that is granted; one that is refused and does not run |
| interrupt | reported as interrupted; the next prompt is answered |
| 400, 401, 429, 529 | an error of the API ends the turn as failed; the next prompt is answered |
| cut before, cut after | the connection is lost before or after some text: failed, the text is kept |
| fork | it knows the conversation and leaves its source alone |
| exit | the end of the agent is reported |
| 20 nodes | created at once, each with a prompt that it answers |
| kill -9 | of the server in a turn: the next one finds the agent and its answer |
| ask | `nerve ask` prints the answer |
";

/// Renders the page.
pub(super) fn render(plan: &Plan, results: &Results, pinned: &[(String, String)]) -> String {
    let mut page = HEAD.to_string();
    for variant in &plan.variants {
        let mut notes = String::new();
        let _ = write!(page, "\n## {}\n\n| version | size |", variant.title);
        plan.scenarios.iter().for_each(|(title, _)| {
            let _ = write!(page, " {title} |");
        });
        let _ = writeln!(page, "\n|---|---|{}", ":-:|".repeat(plan.scenarios.len()));
        for version in results.versions(&variant.name) {
            for size in SIZES {
                let pin = if pinned.iter().any(|(_, pin)| *pin == version) { " (pinned)" } else { "" };
                let _ = write!(page, "| {version}{pin} | {size} |");
                let outcome = |title: &str| {
                    results.get(&[variant.name.as_str(), &version, size, title].map(String::from))
                };
                if plan.scenarios.iter().all(|(title, _)| outcome(title).is_none()) {
                    let _ = writeln!(page, " not run |{}", " |".repeat(plan.scenarios.len() - 1));
                    continue;
                }
                for (title, depends_on_size) in &plan.scenarios {
                    let outcome = outcome(title);
                    let is_left_out = !Plan::runs(*depends_on_size, size);
                    let _ = write!(page, " {} |", if is_left_out { "·" } else { mark(outcome) });
                    if let Some(outcome) = outcome.filter(|outcome| !outcome.note.is_empty()) {
                        let note = first_line(&outcome.note);
                        let _ = writeln!(notes, "* {version}, {size}, {title}: {note}");
                    }
                }
                page.push('\n');
            }
        }
        if !notes.is_empty() {
            let _ = write!(page, "\n{notes}");
        }
    }
    let mut measurements = results.measurements().peekable();
    if measurements.peek().is_some() {
        page.push_str("\n## Measurements\n\nOf the pinned versions, with a debug build of nerve.\n\n");
    }
    for line in measurements {
        let _ = writeln!(page, "* {line}");
    }
    page
}

fn mark(outcome: Option<&Outcome>) -> &'static str {
    match outcome.map(|outcome| outcome.verdict.as_str()) {
        Some("passed") => "✓",
        Some("partial") => "(✓)",
        Some("failed") => "✗",
        Some(_) => "–",
        None => "not run",
    }
}

/// Returns the beginning of a note, without the reply that follows.
fn first_line(note: &str) -> String {
    let line = note.lines().next().unwrap_or_default();
    let line = line.split(": Response {").next().unwrap_or_default();
    let line = line.split(": CommandOutput {").next().unwrap_or_default();
    match line.char_indices().nth(NOTE) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_string(),
    }
}
