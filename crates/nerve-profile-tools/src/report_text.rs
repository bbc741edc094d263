//! The report of a test as text.

use std::fmt::Write as _;

use crate::report::{Mismatch, ProfileReport, RecordingReport, StateReport};

impl ProfileReport {
    /// Returns the report as lines of text for people. `shorten` limits the length of rows and patterns.
    pub fn to_text(&self, shorten: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for recording in &self.recordings {
            write_recording(&mut text, recording, &shorten);
        }
        let _ = writeln!(text, "rules of profile {}", self.profile);
        for rule in &self.rules {
            let _ = writeln!(
                text,
                "  {:>2}  {:<9}  {:<8}  {:>6}  {}",
                rule.rule,
                rule.state,
                rule.region,
                format_count(rule.screens),
                shorten(&rule.pattern),
            );
        }
        let _ = writeln!(text, "fields");
        for field in &self.fields {
            let _ = writeln!(text, "  {:<21}  {:>6}", field.field, format_count(field.screens));
        }
        text
    }

    /// Returns the warnings: rules that never matched, and rules that overlap.
    pub fn warnings(&self) -> Vec<String> {
        let unused: Vec<String> =
            self.rules.iter().filter(|rule| rule.screens == 0).map(|rule| rule.rule.to_string()).collect();
        let unused = (!unused.is_empty()).then(|| format!("rules that never matched: {}", unused.join(", ")));
        let overlaps = self.overlaps.iter().map(|overlap| {
            let ([first, second], [state, other]) = (overlap.rules, overlap.states);
            format!(
                "rules {first} ({state}) and {second} ({other}) match the same {}; rule {first} decides. First at {} in {}",
                format_screens(overlap.screens),
                format_seconds(overlap.elapsed_ms),
                overlap.path
            )
        });
        unused.into_iter().chain(overlaps).collect()
    }

    /// Returns a line for each difference from the recorded turns.
    pub fn mismatches(&self) -> Vec<String> {
        let of_recording = |recording: &RecordingReport| {
            let line = |Mismatch { turn, kind, elapsed_ms }: &Mismatch| {
                format!(
                    "turn {turn} of {}: {} (at {})",
                    recording.path,
                    kind.text(),
                    format_seconds(*elapsed_ms)
                )
            };
            recording.mismatches.iter().map(line).collect::<Vec<_>>()
        };
        self.recordings.iter().flat_map(of_recording).collect()
    }
}

fn write_recording(text: &mut String, recording: &RecordingReport, shorten: &impl Fn(&str) -> String) {
    let turns = match recording.turns {
        0 => String::new(),
        1 => ", 1 turn".to_string(),
        turns => format!(", {turns} turns"),
    };
    let _ = writeln!(text, "{}: {}{turns}", recording.path, format_screens(recording.screens));
    for state in &recording.states {
        let _ = writeln!(
            text,
            "  {:>9}  {:<9}  {}",
            format_seconds(state.elapsed_ms),
            state.state,
            shorten(&format_evidence(state))
        );
    }
}

/// Describes the evidence: the rule and its row, or the signal.
fn format_evidence(state: &StateReport) -> String {
    let kind = state.kind.map_or(String::new(), |kind| format!("{kind}, "));
    match &state.rule {
        Some(rule) => format!("{kind}rule {}, {} row {}: {}", rule.rule, rule.region, rule.row, rule.text),
        None => format!("{kind}{}: {}", state.source, state.evidence),
    }
}

/// Formats milliseconds as `2.500 s`.
fn format_seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// Formats the number of screens on which a rule or field matches.
fn format_count(screens: u64) -> String {
    if screens == 0 { "never".to_string() } else { screens.to_string() }
}

fn format_screens(count: u64) -> String {
    if count == 1 { "1 screen".to_string() } else { format!("{count} screens") }
}
