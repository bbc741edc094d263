//! GitHub Copilot CLI 1.0.102: saved screens, and the session file of the same conversation.

use nerve_agent::activity::ActivityReader;
use nerve_agent::driver::{Observation, Signal, observe_screen};
use nerve_agent::parse::ParserKind::Copilot;
use nerve_agent::parse::transcript::TranscriptTurn;
use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::UsageList;
use nerve_agent::parse::{ParsedTurn, SectionKind, parse_session_file};
use nerve_agent::profile::{BlockKind, Profiles, TranscriptKind};
use nerve_types::Size;
use nerve_types::activity::{Activity, TsMs};
use nerve_vt::screen::{Cursor, Screen};

use crate::screens::{captured_rows, dump_sections, expect, expect_text, parse};

const EVENTS: &str = include_str!("../fixtures/transcripts/copilot-events.jsonl");

fn lines(state: &str) -> Vec<String> {
    captured_rows("copilot", state)
}

fn saved(state: &str, prompt: &str) -> ParsedTurn {
    parse(Copilot, prompt, &lines(state))
}

/// Returns a screen with these rows; the cursor is in the composer, if there is one.
fn screen_of(rows: &[String]) -> Screen {
    let row = rows.iter().rposition(|row| row.starts_with(['❯', '!'])).unwrap_or(39);
    let cursor = Cursor { col: 2, row: u16::try_from(row).expect("a row"), visible: true };
    Screen::from_text(&rows.join("\n"), Size::new(120, 40), cursor)
}

fn observe(rows: &[String]) -> Observation {
    let profile = Profiles::builtin().get("copilot").expect("a profile");
    observe_screen(&profile, &screen_of(rows))
}

/// Returns a screen with a conversation that ends with these rows, an empty composer and this footer.
fn screen_rows(rows: &[&str], footer: &str) -> Vec<String> {
    let rule = "─".repeat(40);
    let live = [" /home/me", &rule, "❯", &rule, footer];
    [" ❯ go                            11:47 ┃", "                                      ┃"]
        .iter()
        .chain(rows)
        .chain(&["                                      ┃"])
        .chain(&live)
        .map(|row| (*row).to_string())
        .collect()
}

#[test]
fn answer_is_complete_without_activity() {
    let streaming = saved("streaming", "Please answer SLOW");
    assert!(!streaming.is_complete && !streaming.is_truncated);
    let expected =
        "You said: Please answer SLOW\n\nSlow words keep coming one after the other until the end. Slo";
    assert_eq!(streaming.text(), expected);
    expect(&saved("working", "STALL 5 please"), "incomplete");
    let whole = saved("after-tool", "Please answer SLOW");
    assert!(whole.is_complete && whole.text().ends_with("until the\nend.\nEND-OF-SLOW"), "{whole:?}");
}

#[test]
fn prompt_in_the_composer_has_no_answer() {
    let rows: Vec<String> =
        lines("paste").iter().map(|row| row.replace("[Paste #1 - 14 lines]", "say hello")).collect();
    assert_eq!(parse(Copilot, "say hello", &rows), ParsedTurn::default());
}

#[test]
fn prompts_may_end_with_a_time() {
    let rows = screen_rows(&[" ● At noon."], " ← open sidebar");
    let rows: Vec<String> = rows.iter().map(|row| row.replace("go   ", "meet at 12:00")).collect();
    assert_eq!(parse(Copilot, "meet at 12:00", &rows).text(), "At noon.");
}

#[test]
fn tools_have_their_results() {
    expect(
        &saved("dialog", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=Run the scripted command tool=Shell
          touch made-by-tool.txt && ls -la made-by-tool.txt
        incomplete",
    );
    expect(
        &saved("after-tool", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=Run the scripted command 1 line… tool=Shell
          touch made-by-tool.txt && ls -la made-by-tool.txt
        text
          The tool said: -rw-r--r-- 1 root root 0 Nov 29 11:59 made-by-tool.txt
          <shellId: 0 completed with exit code 0>
          END-OF-TOOL
        complete",
    );
}

#[test]
fn errors_and_interruptions_end_the_turn() {
    let refused = saved("refused", "TOUCHTOOL again");
    let kinds: Vec<SectionKind> = refused.sections.iter().map(|section| section.kind).collect();
    assert_eq!(kinds, [SectionKind::Text, SectionKind::ToolCall, SectionKind::Interrupted]);
    let retry = " ● Request failed due to a transient API error. Retrying...                ┃";
    let failure = [" ● Half of it", "", retry, "", " ✗ 500 scripted error"];
    let error = parse(Copilot, "go", &screen_rows(&failure, " ← open sidebar"));
    assert_eq!((error.text().as_str(), error.final_error()), ("Half of it", Some("500 scripted error")));
    assert!(error.is_complete);
    let busy = parse(Copilot, "go", &screen_rows(&failure, " ◎ Working esc esc interrupt"));
    assert!(!busy.is_complete && busy.final_error().is_none(), "a tool that failed: {busy:?}");
    let failed_tool = [" ✗ Read file_path: \"x\" No such file.", "", " ● It is missing."];
    let answer = parse(Copilot, "go", &screen_rows(&failed_tool, " ← open sidebar"));
    assert_eq!((answer.text().as_str(), answer.sections.len()), ("It is missing.", 2));
}

#[test]
fn position_in_the_scroll_bar_is_no_text() {
    let rows = screen_rows(&[" ✗ 400 scripted error                 ┃"], "");
    let rows: Vec<String> = rows.iter().map(|row| row.replace('┃', "█")).collect();
    let parsed = parse(Copilot, "go", &rows);
    assert_eq!((parsed.sections.len(), parsed.final_error()), (1, Some("400 scripted error")));
}

#[test]
fn profile_recognizes_states() {
    for state in ["working", "streaming"] {
        let signal = observe(&lines(state)).signal;
        assert!(matches!(signal, Some(Signal::Busy(..))), "{state}: {signal:?}");
    }
    for state in ["after-tool", "refused", "after-interrupt"] {
        let signal = observe(&lines(state)).signal;
        assert!(matches!(signal, Some(Signal::Ready(_))), "{state}: {signal:?}");
    }
    let paste = observe(&lines("paste")).composer.expect("a composer");
    assert!(paste.chip && !paste.draft.is_empty(), "{paste:?}");
    let loading = observe(&screen_rows(&[], " ● Loading: 2 skills")).signal;
    assert!(matches!(loading, Some(Signal::Starting(_))), "{loading:?}");
    // A narrow window shows the beginning of the row, one with a draft other hints.
    for footer in [" ◎ Working", " ○ Reading files", " x esc again to interrupt · ctrl+q enqueue"] {
        let signal = observe(&screen_rows(&[], footer)).signal;
        assert!(matches!(signal, Some(Signal::Busy(..))), "{footer}: {signal:?}");
    }
}

#[test]
fn dialogs_have_their_choices() {
    let dialog = observe(&lines("dialog"));
    assert!(matches!(dialog.signal, Some(Signal::Blocked(BlockKind::Permission, ..))), "{dialog:?}");
    let choices: Vec<&str> = dialog.choices.iter().map(|choice| choice.label.as_str()).collect();
    let expected = [
        "Yes",
        "Yes, and don't ask again for `touch` in this directory (/home/me/projects)",
        "No, and tell Copilot what to do differently (Esc to stop)",
    ];
    assert_eq!(choices, expected);
    assert!(dialog.choices[0].selected);
    let create = observe(&lines("dialog-create"));
    assert!(matches!(create.signal, Some(Signal::Blocked(BlockKind::Permission, ..))), "{create:?}");
    assert_eq!(create.choices.len(), 3);
    let replace = |from: &str, to: &str| -> Vec<String> {
        lines("dialog").iter().map(|row| row.replace(from, to)).collect()
    };
    let trust = observe(&replace("Run the scripted command", "Confirm folder trust    "));
    assert!(matches!(trust.signal, Some(Signal::Blocked(BlockKind::Trust, ..))), "{trust:?}");
}

#[test]
fn duration_of_the_tool_does_not_change_the_dialog() {
    let rows = lines("dialog");
    let call = rows.iter().rposition(|row| row.contains("$ Shell")).expect("a row");
    let with_time = |time: &str| {
        let mut rows = rows.clone();
        rows[call] = rows[call].replace("     ┃", &format!("{time:>5}┃"));
        let observation = observe(&rows);
        (observation.dialog, observation.context)
    };
    assert_eq!(with_time("5s "), with_time(""));
    assert_eq!(with_time("1m 9s"), with_time(""));
    assert_ne!(with_time("later"), with_time(""));
}

#[test]
fn missing_account_blocks() {
    let mut rows = screen_rows(&[" ● Please use /login to sign in to use Copilot"], " ← open sidebar");
    assert!(matches!(observe(&rows).signal, Some(Signal::Ready(_))), "conversation text");
    let folder = rows.iter().position(|row| row == " /home/me").expect("a row");
    rows.insert(folder, "Please use /login to sign in to use Copilot".to_string());
    let signal = observe(&rows).signal;
    assert!(matches!(signal, Some(Signal::Blocked(BlockKind::Login, ..))), "{signal:?}");
}

#[test]
fn ready_needs_an_idle_composer() {
    let parser = nerve_agent::parse::parser(Copilot);
    let is_ready = |state| parser.is_ready(&screen_of(&lines(state)));
    assert!(is_ready("refused") && !is_ready("working") && !is_ready("dialog"));
}

#[test]
fn session_file_has_the_turns() {
    let list = TurnList::read(TranscriptKind::Copilot, EVENTS);
    let prompts: Vec<&str> =
        list.turns.iter().map(|turn| turn.prompt.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(
        (prompts.as_slice(), list.unknown),
        (&["hello", "Please", "TOUCHTOOL", "TOUCHTOOL", "ERR", "CALL"][..], 0)
    );
    assert_eq!(list.session_id.as_deref(), Some("5b0f3b6e-2f1c-4d52-9a41-7c8f6d0b9e12"));
    let answer = parse_session_file(TranscriptKind::Copilot, EVENTS.lines(), "hello there", None);
    assert!(answer.is_complete && answer.tokens.is_some(), "{answer:?}");
    expect_text(
        &dump_sections(&list.turns[3].answer.sections),
        r#"
        text
          I will run a command.
        tool_call args={"command":"touch made-by-tool.txt && ls -la made-by-tool.txt","description":"Run the scripted command"} id=call_mock_000036_0 status=rejected tool=bash
        interrupted
          Operation cancelled by user"#,
    );
    let failed = parse_session_file(TranscriptKind::Copilot, EVENTS.lines(), "ERR 400 now", None);
    assert!(failed.is_complete && failed.sections.len() == 1, "{failed:?}");
    assert_eq!(failed.sections[0].kind, SectionKind::Error);
}

/// Returns the last turn of the fixture with these events instead of its answer.
fn turn_with(events: &[&str]) -> TranscriptTurn {
    let prompt = r#"{"type":"user.message","data":{"content":"last"}}"#;
    parse_session_file(
        TranscriptKind::Copilot,
        EVENTS.lines().chain([prompt]).chain(events.iter().copied()),
        "last",
        None,
    )
}

#[test]
fn round_with_tools_does_not_end_the_turn() {
    let round = [
        r#"{"type":"assistant.message","data":{"content":"Look.","toolRequests":[{"toolCallId":"a","name":"view","arguments":{}}]}}"#,
        r#"{"type":"tool.execution_complete","data":{"toolCallId":"a","success":true,"result":{"content":"x"}}}"#,
        r#"{"type":"assistant.turn_end","data":{"turnId":"0"}}"#,
    ];
    let turn = turn_with(&round);
    assert!(!turn.is_complete && !turn.said_end && turn.unknown == 0, "{turn:?}");
    let unanswered = turn_with(&[r#"{"type":"assistant.turn_end","data":{"turnId":"0"}}"#]);
    assert!(!unanswered.is_complete, "an error follows: {unanswered:?}");
    assert_eq!(turn_with(&[r#"{"type":"new.kind","data":{}}"#]).unknown, 1);
}

#[test]
fn subagents_and_messages_of_the_program_are_left_out() {
    let events = [
        r#"{"type":"assistant.message","agentId":"b","data":{"content":"From a subagent","toolRequests":[]}}"#,
        r#"{"type":"assistant.turn_end","agentId":"b","data":{"turnId":"0"}}"#,
        r#"{"type":"user.message","data":{"content":"hidden","source":"skill-pdf"}}"#,
        r#"{"type":"assistant.message","data":{"content":"Done.","toolRequests":[]}}"#,
        r#"{"type":"assistant.turn_end","data":{"turnId":"1"}}"#,
    ];
    let turn = turn_with(&events);
    let texts: Vec<&str> = turn.sections.iter().map(|section| section.content.as_str()).collect();
    assert_eq!((texts.as_slice(), turn.is_complete), (&["Done."][..], true));
}

#[test]
fn tools_edits_and_usage_are_reported_once() {
    let mut reader = ActivityReader::new(TranscriptKind::Copilot);
    let activities: Vec<Activity> = EVENTS.lines().flat_map(|line| reader.read_line(line, TsMs(7))).collect();
    let count = |is: fn(&Activity) -> bool| activities.iter().filter(|activity| is(activity)).count();
    assert_eq!(count(|activity| matches!(activity, Activity::ToolStart { .. })), 3);
    assert_eq!(count(|activity| matches!(activity, Activity::ToolOutput { .. })), 3);
    assert_eq!(count(|activity| matches!(activity, Activity::FileEdit { .. })), 1);
    assert_eq!(count(|activity| matches!(activity, Activity::Error { .. })), 1);
    assert_eq!((count(|activity| matches!(activity, Activity::Usage { .. })), reader.unknown()), (6, 0));
    assert_eq!(UsageList::read(TranscriptKind::Copilot, EVENTS).records.len(), 6);
}
