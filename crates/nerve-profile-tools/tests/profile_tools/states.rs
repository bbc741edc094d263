//! The states of recorded sessions, with the built-in profiles and with broken ones.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::profile::{Profile, Profiles};
use nerve_profile_tools::{MismatchKind, ProfileReport, ProfileTest, RecordedTurn};
use nerve_types::{BlockKind, TimeSpan};

use crate::fixture::{SIZE, START, agent_recording};

fn test_profile(profile: Profile, agent: &str, name: &str, turns: &[RecordedTurn]) -> ProfileReport {
    let folder = tempfile::tempdir().unwrap();
    let recording = agent_recording(folder.path(), agent, name);
    let mut test = ProfileTest::new(Arc::new(profile));
    test.add_recording(&recording, SIZE, turns).unwrap();
    test.finish()
}

fn builtin(name: &str) -> Profile {
    Profile::clone(&Profiles::builtin().get(name).unwrap())
}

/// Returns the built-in profile after a change of its text.
fn changed(name: &str, change: impl FnOnce(String) -> String) -> Profile {
    let text = change(Profiles::builtin().source(name).unwrap().text.to_string());
    Profile::parse("changed.toml", &text).unwrap()
}

/// Returns the times at which the program became busy and then ready, in milliseconds.
fn turns_of(report: &ProfileReport) -> Vec<RecordedTurn> {
    let at = |ms: u64| START + Duration::from_millis(ms);
    let states = &report.recordings[0].states;
    let starts = states.windows(2).filter(|pair| pair[0].state == "ready" && pair[1].state == "busy");
    let turn = |start: u64| {
        let end = states.iter().find(|state| state.elapsed_ms > start && state.state == "ready")?;
        let span = TimeSpan { start: at(start), end: at(end.elapsed_ms) };
        Some(RecordedTurn { span, is_complete: true })
    };
    starts.filter_map(|pair| turn(pair[1].elapsed_ms)).collect()
}

#[test]
fn claude_is_busy_and_blocked_by_its_rules() {
    let report = test_profile(builtin("claude"), "claude", "classic-modern", &[]);
    let states = &report.recordings[0].states;
    assert_eq!(states[0].state, "starting");
    // One of the nine answers is complete in its first frame.
    assert_eq!(turns_of(&report).len(), 8, "{states:#?}");
    let blocked = states.iter().find(|state| state.state == "blocked").unwrap();
    assert_eq!(blocked.kind, Some(BlockKind::Permission));
    let rule = blocked.rule.as_ref().unwrap();
    assert_eq!((rule.rule, rule.region), (5, "dialog"));
    assert!(rule.text.starts_with("Do you want to "), "{rule:?}");
    // The counts agree with the states.
    assert!(report.rules[4].screens > 0 && report.rules[0].screens == 0, "{:#?}", report.rules);
    let field = |name: &str| report.fields.iter().find(|field| field.field == name).unwrap().screens;
    assert!(field("composer") > 0 && field("title.busy") > 0 && field("turn_end") > 0);
}

#[test]
fn codex_is_busy_by_its_status_row() {
    let report = test_profile(builtin("codex"), "codex", "default-none", &[]);
    let states = &report.recordings[0].states;
    let busy: Vec<_> = states.iter().filter(|state| state.state == "busy").collect();
    assert!(busy.len() >= 9, "{states:#?}");
    assert!(
        busy.iter().any(|state| state.rule.as_ref().is_some_and(|rule| rule.region == "status")),
        "{busy:#?}"
    );
}

#[test]
fn removed_busy_signs_are_mismatches() {
    let turns = turns_of(&test_profile(builtin("codex"), "codex", "default-none", &[]));
    assert_eq!(test_profile(builtin("codex"), "codex", "default-none", &turns).mismatches().len(), 0);
    let blind = changed("codex", |text| {
        text.replace("'^• Working", "'^never Working")
            .replace("busy = '^[", "busy = '^never[")
            .replace("turn_end = '", "turn_end = '^never")
    });
    let report = test_profile(blind, "codex", "default-none", &turns);
    let mismatches = &report.recordings[0].mismatches;
    assert!(report.has_mismatches());
    assert!(mismatches.iter().any(|mismatch| mismatch.kind == MismatchKind::NotBusy), "{mismatches:#?}");
}

#[test]
fn contradicting_rules_are_reported_as_overlap() {
    let doubtful = changed("claude", |text| {
        text + "\n[[rules]]\nstate = \"ready\"\nregion = \"dialog\"\npattern = 'Do you want to '\n"
    });
    let last = doubtful.rules.len();
    let report = test_profile(doubtful, "claude", "classic-modern", &[]);
    let overlap = report.overlaps.iter().find(|overlap| overlap.rules == [5, last]).unwrap();
    assert_eq!(overlap.states, ["blocked", "ready"]);
    assert!(overlap.screens > 0 && overlap.rows[0] == overlap.rows[1], "{overlap:?}");
    assert!(report.warnings().iter().any(|warning| warning.contains(&last.to_string())));
}
