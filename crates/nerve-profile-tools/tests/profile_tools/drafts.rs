//! Profiles drafted from sessions of real agents, tested with the same recordings.

use std::sync::Arc;
use std::time::Duration;

use nerve_agent::profile::{Layout, Profile};
use nerve_profile_tools::{DraftError, DraftedNames, ProfileReport, ProfileTest, draft_profile};
use nerve_record::ahr::Body;

use crate::fixture::{SIZE, agent_recording, write};

const NAMES: DraftedNames<'_> = DraftedNames { name: "drafted", program: Some("agent") };

/// Drafts a profile from a recording, and tests it with the same one.
fn draft(agent: &str, name: &str) -> (String, Profile, ProfileReport) {
    let folder = tempfile::tempdir().unwrap();
    let recording = agent_recording(folder.path(), agent, name);
    let text = draft_profile(&recording, SIZE, NAMES).unwrap();
    let profile = Profile::parse("drafted.toml", &text).unwrap();
    let mut test = ProfileTest::new(Arc::new(profile.clone()));
    test.add_recording(&recording, SIZE, &[]).unwrap();
    (text, profile, test.finish())
}

/// Returns how often the program became busy, and then ready.
fn busy_count(report: &ProfileReport) -> usize {
    let states = &report.recordings[0].states;
    states.windows(2).filter(|pair| (pair[0].state, pair[1].state) == ("busy", "ready")).count()
}

#[test]
fn claude_has_a_box_dialogs_and_titles() {
    let (text, profile, report) = draft("claude", "classic-modern");
    let composer = profile.composer.as_ref().unwrap();
    assert_eq!(composer.layout, Layout::Box, "{text}");
    assert!(composer.prompt.is_match("❯ hello"), "{text}");
    assert!(profile.title.busy.as_ref().unwrap().is_match("◐ Claude Code"), "{text}");
    assert!(!profile.title.busy.as_ref().unwrap().is_match("✳ Claude Code"), "{text}");
    assert!(busy_count(&report) >= 7, "{text}\n{report:#?}");
    assert!(
        report.recordings[0].states.iter().any(|state| state.state == "blocked" && state.rule.is_some()),
        "{text}"
    );
}

#[test]
fn codex_is_busy_by_title_and_offer() {
    let (text, profile, report) = draft("codex", "default-none");
    assert_eq!(profile.composer.as_ref().unwrap().layout, Layout::Row, "{text}");
    assert_eq!(profile.interrupt, r"\e", "{text}");
    assert!(busy_count(&report) >= 7, "{text}\n{report:#?}");
}

#[test]
fn gemini_is_busy_by_its_offer() {
    let (text, profile, report) = draft("gemini", "default-modern");
    assert_eq!(profile.interrupt, r"\e", "{text}");
    assert!(report.rules.iter().any(|rule| rule.state == "busy" && rule.screens > 0), "{text}");
    assert!(busy_count(&report) >= 7, "{text}\n{report:#?}");
}

#[test]
fn numbers_in_prompts_of_a_repl_are_generalised() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("repl.ahr");
    let at = Duration::from_millis;
    let output = ["In [1]: ", "a\r\n7\r\nIn [2]: ", "b\r\n8\r\nIn [13]: "];
    let data = |off: usize, part: usize| Body::Data { off: off as u64, bytes: output[part].as_bytes() };
    write(
        &recording,
        &[
            (at(0), data(0, 0)),
            (at(1000), Body::Input { bytes: b"a\r" }),
            (at(1100), data(8, 1)),
            (at(2000), Body::Input { bytes: b"b\r" }),
            (at(2100), data(8 + output[1].len(), 2)),
            (at(3000), Body::Input { bytes: b"c" }),
        ],
    );
    let text = draft_profile(&recording, SIZE, NAMES).unwrap();
    let profile = Profile::parse("drafted.toml", &text).unwrap();
    let prompt = profile.prompt.as_ref().unwrap();
    assert!(
        profile.composer.is_none() && prompt.is_match("In [205]: ") && !prompt.is_match("In [x]: "),
        "{text}"
    );
}

#[test]
fn recording_without_prompts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("silent.ahr");
    write(&recording, &[(Duration::ZERO, Body::Data { off: 0, bytes: b"hello" })]);
    assert!(matches!(draft_profile(&recording, SIZE, NAMES), Err(DraftError::NoPrompt)));
}
