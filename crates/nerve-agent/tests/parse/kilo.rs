//! Kilo 7.7.7: saved screens, read by opencode's parser and observed with Kilo's profile.

use nerve_agent::driver::{Signal, observe_screen};
use nerve_agent::parse::ParserKind::Opencode;
use nerve_agent::parse::{ParsedTurn, SectionKind};
use nerve_agent::profile::session::ConversationRef;
use nerve_agent::profile::{BlockKind, Profile, Profiles};
use nerve_types::Size;
use nerve_vt::screen::{Cursor, Screen};

use crate::screens::{captured_rows, expect, parse};

fn lines(state: &str) -> Vec<String> {
    captured_rows("kilo", state)
}

fn saved(state: &str, prompt: &str) -> ParsedTurn {
    parse(Opencode, prompt, &lines(state))
}

/// Returns a saved screen; the cursor is in the composer, if there is one.
fn screen(state: &str) -> Screen {
    let rows = lines(state);
    let below = rows.iter().rposition(|row| row.trim_start().starts_with('╹'));
    let row = below.map_or(0, |below| below - 3);
    let cursor = Cursor { col: 5, row: u16::try_from(row).expect("a row"), visible: below.is_some() };
    Screen::from_text(&rows.join("\n"), Size::new(120, 40), cursor)
}

fn profile() -> std::sync::Arc<Profile> {
    Profiles::builtin().get("kilo").expect("a profile")
}

#[test]
fn approval_is_not_an_argument() {
    let read = saved("read", "READTOOL FILE=/home/me/project/notes.txt");
    let call = read.sections.iter().find(|section| section.kind == SectionKind::ToolCall).expect("a tool");
    assert_eq!((call.metadata["tool"].as_str(), call.metadata["args"].as_str()), ("Read", "notes.txt"));
    assert!(read.is_complete && read.text().ends_with("END-OF-TOOL"), "{read:?}");
    let written = saved("written", "WRITETOOL FILE=/home/me/project/out.txt");
    let call = written.sections.iter().find(|one| one.kind == SectionKind::ToolCall).expect("a tool");
    assert_eq!((call.metadata["tool"].as_str(), call.metadata["args"].as_str()), ("Write", "out.txt"));
    assert!(written.is_complete && written.final_error().is_none(), "{written:?}");
}

#[test]
fn dialog_and_refusal_leave_the_turn_incomplete() {
    expect(
        &saved("dialog", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=asking tool=bash
        incomplete",
    );
    assert!(!saved("refused", "TOUCHTOOL again").is_complete);
    assert!(!saved("retrying", "ERR 429 now").is_complete);
    assert!(!saved("streaming", "SLOW answer please").is_complete);
}

#[test]
fn errors_and_interruptions_end_the_turn() {
    expect(&saved("error", "ERR 400 now"), "error\n  scripted error\ncomplete");
    let interrupted = saved("interrupted", "STALL 30 now");
    assert_eq!(interrupted.sections.last().map(|last| last.kind), Some(SectionKind::Interrupted));
}

#[test]
fn profile_recognizes_states() {
    let profile = profile();
    let observe = |state| observe_screen(&profile, &screen(state));
    for state in ["streaming", "retrying"] {
        assert!(matches!(observe(state).signal, Some(Signal::Busy(..))), "{state}");
    }
    for state in ["after-tool", "error", "interrupted", "read", "refused", "start", "written"] {
        let observed = observe(state);
        assert!(matches!(observed.signal, Some(Signal::Ready(_))), "{state}: {observed:?}");
        assert_eq!(observed.composer.expect("a composer").draft, "", "{state}");
    }
    for state in ["dialog", "narrow-dialog"] {
        let dialog = observe(state);
        assert!(matches!(dialog.signal, Some(Signal::Blocked(BlockKind::Permission, ..))), "{dialog:?}");
        let choices: Vec<&str> = dialog.choices.iter().map(|choice| choice.label.as_str()).collect();
        assert_eq!(choices, ["Allow once", "Allow always", "Reject"], "{state}");
    }
}

#[test]
fn mode_and_model_are_no_draft() {
    let profile = profile();
    let draft_of = |draft: &str, mode: &str| {
        let text = format!("  ┃\n  ┃  {draft}\n  ┃\n  ┃  {mode}\n  ╹▀▀▀▀▀▀▀▀▀▀");
        let cursor = Cursor { col: 5, row: 1, visible: true };
        let screen = Screen::from_text(&text, Size::new(120, 40), cursor);
        observe_screen(&profile, &screen).composer.expect("a composer").draft
    };
    assert_eq!(draft_of("", "Orchestrator  · fake-model fake"), "");
    assert_eq!(draft_of("Code · the word", "Code  · fake-model fake"), "Code · the word");
}

#[test]
fn conversation_of_a_server_is_forked() {
    let session = profile().session.clone().expect("arguments");
    let argv = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
    let local = session.conversation(&argv("kilocode -s ses_1"));
    assert_eq!(local, ConversationRef::Id("ses_1".into()));
    let cloud = session.conversation(&argv("kilo --cloud-fork --session ses_1"));
    assert_eq!(cloud, ConversationRef::Fork);
}
