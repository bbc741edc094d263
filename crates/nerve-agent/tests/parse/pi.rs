//! pi 1.5.2: saved screens, and the session file of the same conversation.

use nerve_agent::activity::ActivityReader;
use nerve_agent::driver::{Signal, observe_screen};
use nerve_agent::parse::ParserKind::Pi;
use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::UsageList;
use nerve_agent::parse::{ParsedTurn, SectionKind, parse_session_file};
use nerve_agent::profile::{Profiles, TranscriptKind};
use nerve_types::Size;
use nerve_types::activity::{Activity, TsMs};
use nerve_vt::screen::{Cursor, Screen};

use crate::screens::{captured_rows, dump_sections, expect, expect_text, parse};

const SESSION: &str = include_str!("../fixtures/transcripts/pi-session.jsonl");

fn lines(state: &str) -> Vec<String> {
    captured_rows("pi", state)
}

fn saved(state: &str, prompt: &str) -> ParsedTurn {
    parse(Pi, prompt, &lines(state))
}

/// Returns a saved screen; the cursor is in the composer.
fn screen(state: &str) -> Screen {
    let rows = lines(state);
    let row = rows.iter().rposition(|row| row.starts_with("────")).expect("a line") - 1;
    let cursor = Cursor { col: 0, row: u16::try_from(row).expect("a row"), visible: true };
    Screen::from_text(&rows.join("\n"), Size::new(120, 40), cursor)
}

#[test]
fn answer_is_below_the_echo_of_the_prompt() {
    expect(&saved("short", "hello there"), "text\n  You said: hello there\ncomplete");
    let streaming = saved("streaming", "Please answer SLOW");
    assert!(!streaming.is_complete && !streaming.is_truncated);
    assert!(streaming.text().starts_with("You said: Please answer SLOW\n\nSlow words"), "{streaming:?}");
}

#[test]
fn answer_that_repeats_its_prompt_is_kept() {
    let mut rows = lines("short");
    rows.iter_mut().for_each(|row| *row = row.replace("You said: ", ""));
    expect(&parse(Pi, "hello there", &rows), "text\n  hello there\ncomplete");
}

#[test]
fn prompt_in_the_composer_has_no_answer() {
    let rows = lines("paste");
    assert_eq!(parse(Pi, "[paste #1 +30 lines]", &rows), ParsedTurn::default());
}

#[test]
fn errors_and_interruptions_are_the_last_paragraph() {
    let kinds = |turn: &ParsedTurn| turn.sections.iter().map(|section| section.kind).collect::<Vec<_>>();
    let error = saved("error", "ERR 400 now");
    assert!(error.is_complete && kinds(&error) == [SectionKind::Error], "{error:?}");
    assert!(error.final_error().unwrap().contains("scripted error"));
    let interrupted = saved("interrupted", "Please answer SLOW");
    assert_eq!(kinds(&interrupted), [SectionKind::Text, SectionKind::Interrupted]);
    assert!(interrupted.is_complete && !interrupted.text().contains("aborted"));
    let retried = saved("retried", "ERR 429 now");
    assert!(
        retried.final_error().unwrap().starts_with("Error: Retry failed after 1 attempts"),
        "{retried:?}"
    );
}

#[test]
fn spinner_in_the_line_means_busy() {
    let parser = nerve_agent::parse::parser(Pi);
    for (state, is_ready) in [("short", true), ("error", true), ("streaming", false), ("working", false)] {
        assert_eq!(parser.is_ready(&screen(state)), is_ready, "{state}");
    }
}

/// Returns the composer's draft as the profile reads it, and true if the agent works.
fn observe(state: &str) -> (String, bool) {
    let observation = observe_screen(&Profiles::builtin().get("pi").expect("a profile"), &screen(state));
    let composer = observation.composer.expect("a composer");
    (composer.draft, matches!(observation.signal, Some(Signal::Busy(..))))
}

#[test]
fn profile_recognizes_the_composer() {
    for (state, is_busy) in [("short", false), ("retried", false), ("streaming", true), ("working", true)] {
        assert_eq!(observe(state), (String::new(), is_busy), "{state}");
    }
    assert_eq!(observe("paste").0, "[paste #1 +30 lines]");
    // Nothing is typed into a menu, because it counts as a draft.
    assert!(observe("menu").0.contains("Enter to select"));
}

#[test]
fn session_file_has_the_turns() {
    let list = TurnList::read(TranscriptKind::Pi, SESSION);
    let prompts: Vec<&str> = list.turns.iter().map(|turn| turn.prompt.as_str()).collect();
    let expected = [
        "hello there",
        "Please answer SLOW",
        "TOUCHTOOL please",
        "ERR 400 now",
        "ERR 429 now",
        "Please answer SLOW",
        "STALL 5 please",
    ];
    assert_eq!(prompts, expected);
    assert_eq!((list.unknown, list.session_id.as_deref()), (0, Some("0b0b7ccf-0d2b-4c9e-8a65-1f0f5a3c9d77")));
    for turn in list.turns.iter().filter(|turn| turn.prompt != "Please answer SLOW") {
        let found = parse_session_file(TranscriptKind::Pi, SESSION.lines(), &turn.prompt, None);
        assert!(found.is_found && found.is_complete, "{}", turn.prompt);
        assert_eq!(found.sections, turn.answer.sections, "{}", turn.prompt);
    }
    expect_text(
        &dump_sections(
            &parse_session_file(TranscriptKind::Pi, SESSION.lines(), "TOUCHTOOL please", None).sections,
        ),
        r#"
        text
          I will run a command.
        tool_call args={"command":"touch made-by-tool.txt && ls -la made-by-tool.txt","description":"Run the scripted command"} id=call_mock_000036_0 status=ok tool=bash
          -rw-r--r-- 1 root root 0 Nov 28 21:08 made-by-tool.txt
        text
          The tool said: -rw-r--r-- 1 root root 0 Nov 28 21:08 made-by-tool.txt

          END-OF-TOOL"#,
    );
}

#[test]
fn failures_in_the_session_file_end_their_turn() {
    let last = |prompt: &str| {
        parse_session_file(TranscriptKind::Pi, SESSION.lines(), prompt, None).sections.pop().unwrap()
    };
    assert_eq!(last("ERR 400 now").kind, SectionKind::Error);
    assert_eq!(last("Please answer SLOW").kind, SectionKind::Interrupted);
    let retried = parse_session_file(TranscriptKind::Pi, SESSION.lines(), "ERR 429 now", None).sections;
    assert_eq!(retried.len(), 1, "an attempt that is repeated is no result: {retried:?}");
}

#[test]
fn turn_continues_after_a_retry() {
    let answer = r#"{"type":"message","id":"x","parentId":"1ddd3142","timestamp":"2026-11-28T21:08:15Z","message":{"role":"assistant","content":[{"type":"text","text":"At last."}],"stopReason":"stop"}}"#;
    let mut lines: Vec<&str> = SESSION.lines().collect();
    let removal = lines.iter().position(|line| line.contains("context_edit")).unwrap();
    lines.truncate(removal + 1);
    lines.push(answer);
    let turn = parse_session_file(TranscriptKind::Pi, lines.into_iter(), "ERR 429 now", None);
    assert!(turn.is_complete && turn.sections.len() == 1, "{turn:?}");
    assert_eq!(turn.sections[0].content, "At last.");
}

#[test]
fn rewound_turns_are_left_out() {
    // The parent is the answer to the first prompt.
    let prompt = r#"{"type":"message","id":"y","parentId":"92f89f68","timestamp":"2026-11-28T21:09:00Z","message":{"role":"user","content":"another way"}}"#;
    let list = TurnList::read(TranscriptKind::Pi, &format!("{SESSION}{prompt}\n"));
    let prompts: Vec<&str> = list.turns.iter().map(|turn| turn.prompt.as_str()).collect();
    assert_eq!(prompts, ["hello there", "another way"]);
}

#[test]
fn unknown_lines_are_counted() {
    let text = format!("{SESSION}{{\"type\":\"novelty\"}}\nno json\n{{}}\n{{\"type\":");
    assert_eq!(TurnList::read(TranscriptKind::Pi, &text).unknown, 3);
}

#[test]
fn tools_and_usage_are_reported_once() {
    let mut reader = ActivityReader::new(TranscriptKind::Pi);
    let activities: Vec<Activity> =
        SESSION.lines().flat_map(|line| reader.read_line(line, TsMs(7))).collect();
    let count = |is: fn(&Activity) -> bool| activities.iter().filter(|activity| is(activity)).count();
    assert_eq!(count(|activity| matches!(activity, Activity::ToolStart { name, .. } if name == "bash")), 1);
    assert_eq!(count(|activity| matches!(activity, Activity::ToolOutput { .. })), 1);
    assert_eq!(count(|activity| matches!(activity, Activity::Usage { .. })), 5);
    assert_eq!(reader.unknown(), 0);
    let usage = UsageList::read(TranscriptKind::Pi, SESSION);
    assert_eq!((usage.records.len(), usage.damaged), (5, 0));
    assert!(usage.records.iter().all(|record| record.usage.model.as_deref() == Some("fake-model")));
}
