//! The page with the results.

use std::fmt::Write as _;

use super::cells::Plan;
use super::options::SIZES;
use super::results::{self, Outcome, Results};
use crate::agents;

/// Characters of a note on the page.
const NOTE: usize = 65;

const HEAD: &str = "\
# Compatibility

<!-- Written by `cargo xtask matrix`; changes by hand are lost. -->

nerve drives these versions of the agents, unattended in a real terminal, against a scripted model
API on loopback. Each row is one version in one size of the terminal. What does not depend on the
size (·) runs at 120x40 only. A scenario also fails if nerve reports a wrong result, such as success
after a lost connection.

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
        let package =
            agents::AGENTS.iter().find(|agent| agent.name == variant.agent).map(|agent| agent.package);
        for version in results.versions(&variant.name) {
            let is_pin = |(name, pin): &(String, String)| Some(name.as_str()) == package && *pin == version;
            let pin = if pinned.iter().any(is_pin) { " (pinned)" } else { "" };
            for size in SIZES {
                let _ = write!(page, "| {version}{pin} | {size} |");
                let outcome = |title: &str| {
                    results.get(&[variant.name.as_str(), &version, size, title].map(String::from))
                };
                if plan.scenarios.iter().all(|(title, _)| outcome(title).is_none()) {
                    let _ = writeln!(page, " not run |{}", " |".repeat(plan.scenarios.len() - 1));
                    continue;
                }
                let mut cell_notes = Vec::new();
                for (title, depends_on_size) in &plan.scenarios {
                    let outcome = outcome(title);
                    let is_left_out = !Plan::runs(*depends_on_size, size);
                    let _ = write!(page, " {} |", if is_left_out { "·" } else { mark(outcome) });
                    if let Some(outcome) = outcome.filter(|outcome| !outcome.note.is_empty()) {
                        cell_notes.push((title.as_str(), shorten(&outcome.note)));
                    }
                }
                page.push('\n');
                let scenarios = plan.scenarios.iter().filter(|(_, depends)| Plan::runs(*depends, size));
                notes.push_str(&note_list(&format!("{version}, {size}"), &cell_notes, scenarios.count()));
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
        // The program names variants by their short names.
        let titled_line = plan.variants.iter().find_map(|variant| {
            let rest = line.strip_prefix(&variant.name)?.strip_prefix(": ")?;
            Some(format!("{}: {rest}", variant.title))
        });
        let _ = writeln!(page, "* {}", titled_line.as_ref().unwrap_or(line));
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

/// Lists the notes of a cell. If all of its scenarios, or all but the first, have the same note, it is listed once.
fn note_list(cell: &str, notes: &[(&str, String)], scenarios: usize) -> String {
    let mut list = String::new();
    let last = notes.last().map(|(_, note)| note);
    let repeated = last.filter(|last| {
        let repeats = notes.iter().filter(|(_, note)| note == *last).count();
        repeats > 1 && repeats + 1 >= scenarios
    });
    for (title, note) in notes.iter().filter(|(_, note)| Some(note) != repeated) {
        let _ = writeln!(list, "* {cell}, {title}: {note}");
    }
    if let Some(note) = repeated {
        let _ = writeln!(list, "* {cell}: {note}");
    }
    list
}

/// Returns the beginning of a note, without the reply that follows.
fn shorten(note: &str) -> String {
    let line = results::first_line(note);
    let line = line.split(": Response {").next().unwrap_or_default();
    let line = line.split(": CommandOutput {").next().unwrap_or_default();
    match line.char_indices().nth(NOTE) {
        Some((end, _)) => {
            let (start, rest) = line.split_at(end);
            let is_between_words = start.ends_with(' ') || rest.starts_with(' ');
            let words = start.rsplit_once(' ').filter(|_| !is_between_words);
            format!("{}…", words.map_or(start, |(words, _)| words).trim_end())
        }
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_of_all_scenarios_is_listed_once() {
        let lost = || "not usable after 'ready'".to_string();
        let notes = [("ready", "timed out".to_string()), ("short", lost()), ("long", lost())];
        let once = "* 1.0.0, 60x20, ready: timed out\n* 1.0.0, 60x20: not usable after 'ready'\n";
        assert_eq!(note_list("1.0.0, 60x20", &notes, 3), once);
        assert_eq!(note_list("1.0.0, 60x20", &notes, 9).lines().count(), 3);
    }

    #[test]
    fn long_note_is_cut_between_words() {
        let words = "longer ".repeat(NOTE);
        let note = shorten(&words);
        assert!(note.ends_with(" longer…") && note.chars().count() <= NOTE + 1, "{note}");
        assert_eq!(shorten("short: Response { id: 1 }"), "short");
    }
}
