//! Kimi Code 2.1.0: saved screens, and the session file of the same conversation.

use nerve_agent::activity::ActivityReader;
use nerve_agent::driver::{Observation, Signal, observe_screen};
use nerve_agent::parse::ParserKind::Kimi;
use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::UsageList;
use nerve_agent::parse::{ParsedTurn, SectionKind, parse_session_file};
use nerve_agent::profile::{BlockKind, Profiles, TranscriptKind};
use nerve_types::Size;
use nerve_types::activity::{Activity, TsMs};
use nerve_vt::screen::{Cursor, Screen};

use crate::screens::{captured_rows, expect, parse};

const WIRE: &str = include_str!("../fixtures/transcripts/kimi-wire.jsonl");

fn lines(state: &str) -> Vec<String> {
    captured_rows("kimi", state)
}

fn saved(state: &str, prompt: &str) -> ParsedTurn {
    parse(Kimi, prompt, &lines(state))
}

/// Returns a screen with these rows; the cursor is in the composer, if there is one.
fn screen_of(rows: &[String]) -> Screen {
    let row = rows.iter().rposition(|row| row.starts_with(" │ >") || row.starts_with(" │ !")).unwrap_or(39);
    let cursor = Cursor { col: 5, row: u16::try_from(row).expect("a row"), visible: false };
    Screen::from_text(&rows.join("\n"), Size::new(120, 40), cursor)
}

fn observe(rows: &[String]) -> Observation {
    let profile = Profiles::builtin().get("kimi").expect("a profile");
    observe_screen(&profile, &screen_of(rows))
}

/// Returns the rows of a saved screen with another text in its composer.
fn with_draft(state: &str, draft: &str) -> Vec<String> {
    let row = |row: String| match row.starts_with(" │ >") {
        true => format!(" │ > {draft:<114}│"),
        false => row,
    };
    lines(state).into_iter().map(row).collect()
}

#[test]
fn answer_is_complete_without_a_spinner() {
    let streaming = saved("streaming", "Please answer SLOW");
    assert!(!streaming.is_complete && !streaming.is_truncated, "{streaming:?}");
    assert!(streaming.text().starts_with("You said: Please answer SLOW\n\nSlow words"), "{streaming:?}");
    expect(&saved("working", "STALL 9 please"), "incomplete");
    let whole = saved("after-tool", "Please answer SLOW");
    assert!(whole.is_complete && whole.text().ends_with("until the end.\nEND-OF-SLOW"), "{whole:?}");
}

#[test]
fn prompt_in_the_composer_has_no_answer() {
    assert_eq!(parse(Kimi, "hello there", &with_draft("after-tool", "hello there")), ParsedTurn::default());
    let observed = observe(&with_draft("after-tool", "hello there")).composer.expect("a composer");
    assert_eq!((observed.draft.as_str(), observed.chip), ("hello there", false), "without the frame");
    let empty = observe(&lines("after-tool")).composer.expect("a composer");
    assert_eq!(empty.draft, "");
}

#[test]
fn tools_have_their_results() {
    expect(
        &saved("dialog", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=running tool=Bash
        incomplete",
    );
    expect(
        &saved("after-tool", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=ok tool=Bash
          -rw-r--r-- 1 root root 0 Nov 29 15:31 made-by-tool.txt
        text
          The tool said: Wall time: 0.503 seconds
          -rw-r--r-- 1 root root 0 Nov 29 15:31 made-by-tool.txt

          END-OF-TOOL
        complete",
    );
    let written = saved("refused", "WRITETOOL FILE=/home/me/project/new.txt");
    let tool = written.sections.iter().find(|section| section.kind == SectionKind::ToolCall).expect("a tool");
    assert_eq!(
        (tool.metadata["tool"].as_str(), tool.metadata["args"].as_str()),
        ("Write", "/home/me/project/new.txt")
    );
    let refused = saved("refused", "TOUCHTOOL again");
    assert_eq!(refused.sections[1].metadata["status"], "error", "{refused:?}");
}

#[test]
fn errors_and_interruptions_end_the_turn() {
    expect(
        &saved("after-interrupt", "STALL 9 please"),
        "
        interrupted
          Interrupted by user
        complete",
    );
    let partial = saved("after-interrupt", "SLOW one");
    let kinds: Vec<SectionKind> = partial.sections.iter().map(|section| section.kind).collect();
    assert_eq!(
        (kinds.as_slice(), partial.is_complete),
        (&[SectionKind::Text, SectionKind::Interrupted][..], true)
    );
    let failed = saved("error", "ERR 500 now");
    assert_eq!(
        (failed.final_error(), failed.is_complete),
        (Some("[provider.api_error] 500 scripted error"), true)
    );
    expect(&saved("retrying", "ERR 500 now"), "incomplete");
}

#[test]
fn profile_recognizes_states() {
    for state in ["working", "streaming", "tool-running", "retrying"] {
        let signal = observe(&lines(state)).signal;
        assert!(matches!(signal, Some(Signal::Busy(..))), "{state}: {signal:?}");
    }
    for state in ["start", "after-tool", "refused", "after-interrupt", "error"] {
        let signal = observe(&lines(state)).signal;
        assert!(matches!(signal, Some(Signal::Ready(_))), "{state}: {signal:?}");
    }
    let paste = observe(&lines("paste")).composer.expect("a composer");
    assert!(paste.chip && !paste.draft.is_empty(), "{paste:?}");
    let shell: Vec<String> = lines("start").iter().map(|row| row.replace("│ >", "│ !")).collect();
    let shell = observe(&shell).composer.expect("a composer");
    assert!(shell.other_mode && !shell.draft.is_empty(), "{shell:?}");
    let without_model: Vec<String> =
        lines("start").iter().map(|row| row.replace("context: 0% (0/125k)", "context: 0%")).collect();
    let login = observe(&without_model).signal;
    assert!(matches!(login, Some(Signal::Blocked(BlockKind::Login, ..))), "{login:?}");
}

#[test]
fn dialogs_have_their_choices() {
    for state in ["dialog", "dialog-write"] {
        let dialog = observe(&lines(state));
        assert!(matches!(dialog.signal, Some(Signal::Blocked(BlockKind::Permission, ..))), "{dialog:?}");
        let choices: Vec<&str> = dialog.choices.iter().map(|choice| choice.label.as_str()).collect();
        assert_eq!(choices, ["Approve once", "Approve for this session", "Reject", "Reject with feedback"]);
        assert!(dialog.choices[0].selected && !dialog.may_lack_choices);
    }
    let trust = observe(&lines("trust"));
    assert!(matches!(trust.signal, Some(Signal::Blocked(BlockKind::Trust, ..))), "{trust:?}");
    let choices: Vec<(&str, bool)> =
        trust.choices.iter().map(|choice| (choice.label.as_str(), choice.selected)).collect();
    assert_eq!(choices, [("Trust this folder", true), ("Don't trust", false)]);
}

#[test]
fn ready_needs_an_idle_composer() {
    let parser = nerve_agent::parse::parser(Kimi);
    let is_ready = |state| parser.is_ready(&screen_of(&lines(state)));
    assert!(is_ready("refused") && !is_ready("working") && !is_ready("dialog") && !is_ready("retrying"));
}

#[test]
fn session_file_has_the_turns() {
    let list = TurnList::read(TranscriptKind::Kimi, WIRE);
    let prompts: Vec<&str> =
        list.turns.iter().map(|turn| turn.prompt.split(' ').next().unwrap_or_default()).collect();
    let expected = [
        "hello",
        "Please",
        "TOUCHTOOL",
        "READTOOL",
        "WRITETOOL",
        "TOUCHTOOL",
        "SLOWTOOL",
        "STALL",
        "SLOW",
        "ERR",
        "ERR",
    ];
    assert_eq!((prompts.as_slice(), list.unknown), (&expected[..], 0));
    let answer = parse_session_file(TranscriptKind::Kimi, WIRE.lines(), "hello there", None);
    assert!(answer.is_complete && answer.tokens.is_some(), "{answer:?}");
    let written = parse_session_file(TranscriptKind::Kimi, WIRE.lines(), "TOUCHTOOL again", None);
    let kinds: Vec<SectionKind> = written.sections.iter().map(|section| section.kind).collect();
    assert_eq!(kinds, [SectionKind::Text, SectionKind::ToolCall, SectionKind::Text]);
    assert_eq!(written.sections[1].metadata["status"], "rejected");
    let last = |prompt: &str| {
        let turn = parse_session_file(TranscriptKind::Kimi, WIRE.lines(), prompt, None);
        (turn.is_complete, turn.sections.last().map(|last| (last.kind, last.content.clone())))
    };
    let interrupted = Some((SectionKind::Interrupted, "Interrupted by user".to_string()));
    assert_eq!(last("STALL 9 please"), (true, interrupted.clone()));
    assert_eq!(last("SLOW one"), (true, interrupted));
    assert_eq!(last("ERR 500 now"), (true, Some((SectionKind::Error, "500 scripted error".to_string()))));
}

/// Returns the last turn of the fixture with these events instead of its answer.
fn turn_with(events: &[&str]) -> TranscriptTurn {
    let prompt = r#"{"type":"turn.prompt","input":[{"type":"text","text":"last"}],"origin":{"kind":"user"}}"#;
    parse_session_file(
        TranscriptKind::Kimi,
        WIRE.lines().chain([prompt]).chain(events.iter().copied()),
        "last",
        None,
    )
}

#[test]
fn step_with_tools_does_not_end_the_turn() {
    let text = r#"{"type":"context.append_loop_event","event":{"type":"content.part","part":{"type":"text","text":"Look."}}}"#;
    let call = r#"{"type":"context.append_loop_event","event":{"type":"tool.call","toolCallId":"a","name":"Read","args":{}}}"#;
    let step =
        r#"{"type":"context.append_loop_event","event":{"type":"step.end","finishReason":"tool_use"}}"#;
    let turn = turn_with(&[text, call, step]);
    assert!(!turn.is_complete && !turn.said_end && turn.unknown == 0, "{turn:?}");
    assert_eq!(turn_with(&[r#"{"type":"new.kind"}"#]).unknown, 1);
    let program =
        r#"{"type":"turn.prompt","input":[{"type":"text","text":"continue"}],"origin":{"kind":"cron"}}"#;
    assert!(turn_with(&[text, program]).sections.len() == 1);
}

#[test]
fn undone_turns_are_left_out() {
    let undo = r#"{"type":"context.undo","agentId":"main","count":10}"#;
    let list = TurnList::read(TranscriptKind::Kimi, &format!("{WIRE}{undo}\n"));
    assert_eq!(list.turns.len(), 1);
    assert!(!turn_with(&[undo]).is_found);
}

#[test]
fn activities_are_reported_once() {
    let mut reader = ActivityReader::new(TranscriptKind::Kimi);
    let edit = [
        r#"{"type":"context.append_loop_event","event":{"type":"tool.call","toolCallId":"e","name":"Edit","args":{},"display":{"operation":"edit","path":"/x","before":"a\nb\nc","after":"a\nB\nc"}}}"#,
        r#"{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"e","result":{"output":"ok"}}}"#,
    ];
    let activities: Vec<Activity> =
        WIRE.lines().chain(edit).flat_map(|line| reader.read_line(line, TsMs(1))).collect();
    let count = |is: fn(&Activity) -> bool| activities.iter().filter(|activity| is(activity)).count();
    assert_eq!(count(|activity| matches!(activity, Activity::ToolStart { .. })), 6);
    assert_eq!(count(|activity| matches!(activity, Activity::ToolOutput { .. })), 6);
    assert_eq!(count(|activity| matches!(activity, Activity::FileEdit { added: 1, removed: 1, .. })), 1);
    assert_eq!(count(|activity| matches!(activity, Activity::Error { .. })), 2);
    assert_eq!(reader.unknown(), 0);
}

#[test]
fn usage_is_the_sum_of_the_responses() {
    let list = UsageList::read(TranscriptKind::Kimi, WIRE);
    assert_eq!((list.records.len(), list.damaged), (12, 0), "{list:?}");
    assert!(list.records.iter().all(|record| record.usage.model.as_deref() == Some("fake")));
}
