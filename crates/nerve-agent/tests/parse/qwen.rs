//! Qwen Code 0.24.4: saved screens, and the session file of the same conversation.

use nerve_agent::activity::ActivityReader;
use nerve_agent::driver::{ComposerView, Signal, is_echo_of, observe_screen};
use nerve_agent::parse::ParserKind::Qwen;
use nerve_agent::parse::turn_list::TurnList;
use nerve_agent::parse::usage::UsageList;
use nerve_agent::parse::{ParsedTurn, SectionKind, parse_session_file};
use nerve_agent::profile::{BlockKind, Profiles, TranscriptKind};
use nerve_types::Size;
use nerve_types::activity::{Activity, TsMs};
use nerve_vt::screen::{Cursor, Screen};

use crate::screens::{captured_rows, dump_sections, expect, expect_text, parse};

const CHAT: &str = include_str!("../fixtures/transcripts/qwen-chat.jsonl");

fn lines(state: &str) -> Vec<String> {
    captured_rows("qwen", state)
}

fn saved(state: &str, prompt: &str) -> ParsedTurn {
    parse(Qwen, prompt, &lines(state))
}

fn screen(state: &str) -> Screen {
    screen_of(&lines(state))
}

/// Returns a screen with these rows; the cursor is in the composer, if there is one.
fn screen_of(rows: &[String]) -> Screen {
    let row = rows.iter().rposition(|row| row.starts_with('>')).unwrap_or(39);
    let cursor = Cursor { col: 2, row: u16::try_from(row).expect("a row"), visible: true };
    Screen::from_text(&rows.join("\n"), Size::new(120, 40), cursor)
}

#[test]
fn answer_is_complete_without_a_spinner() {
    let streaming = saved("streaming", "Please answer SLOW");
    assert!(!streaming.is_complete && !streaming.is_truncated);
    let expected = "You said: Please answer SLOW\n\nSlow words keep coming one after the other until the";
    assert_eq!(streaming.text(), expected);
    expect(&saved("working", "hello there"), "incomplete");
    assert_eq!(saved("paste", "[Pasted Content 1091 chars]"), ParsedTurn::default(), "it is a draft");
}

#[test]
fn dialog_is_a_tool_that_asks() {
    for (screen, status, end) in [("dialog", "asking", "incomplete"), ("refused", "rejected", "complete")] {
        let expected = format!(
            "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt (Run the scripted command) status={status} tool=Shell
        {end}"
        );
        expect(&saved(screen, "TOUCHTOOL please"), &expected);
    }
}

#[test]
fn tools_have_their_results() {
    expect(
        &saved("after-tool", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt (Run the scripted command) status=ok tool=Shell
          -rw-r--r-- 1 root root 0 Nov 28 21:18 made-by-tool.txt
        text
          The tool said: Command: touch made-by-tool.txt && ls -la made-by-tool.txt
          Directory: (root)
          Output: -rw-r--r-- 1 root root 0 Nov 28 21:18 made-by-tool.txt
          Error: (none)
          Exit Code: 0
          Signal: (none)
          Process Group PGID: 22660
          END-OF-TOOL
        complete",
    );
}

#[test]
fn errors_and_interruptions_end_the_turn() {
    let turn = |row: &str| {
        let rule = "─".repeat(40);
        let rows = ["  > go", "", "  ◆\u{fe0e} Half of it", row, "", &rule, ">   Type your message", &rule];
        parse(Qwen, "go", &rows.map(str::to_string))
    };
    let error = turn("  ✕ [API Error: 400 scripted error] (Press Ctrl+Y to retry)");
    assert!(error.is_complete && error.final_error().is_some_and(|error| error.contains("400")), "{error:?}");
    let interrupted = turn("  ●\u{fe0e} Request cancelled.");
    assert_eq!(interrupted.sections.last().map(|last| last.kind), Some(SectionKind::Interrupted));
    assert_eq!(interrupted.text(), "Half of it");
    assert_eq!(turn("  ●\u{fe0e} Read context files: x").sections.len(), 1, "a notice of the program");
}

#[test]
fn interrupted_prompt_in_the_composer_keeps_its_answer() {
    let turn = |echo: &str| {
        let rule = "─".repeat(40);
        let (text, end) = ("  ◆\u{fe0e} The first half", "  ●\u{fe0e} Request cancelled.");
        let rows = [echo, "", text, "", end, "", &rule, "> CUT-AFTER some words\u{200b}", &rule];
        parse(Qwen, "CUT-AFTER some words", &rows.map(str::to_string))
    };
    let returned = turn("  > CUT-AFTER some words");
    assert_eq!(returned.text(), "The first half");
    assert_eq!(returned.sections.last().map(|last| last.kind), Some(SectionKind::Interrupted));
    assert_eq!(turn("  > CUT-BEFORE"), ParsedTurn::default(), "the prompt was not submitted");
}

#[test]
fn profile_recognizes_states() {
    let profile = Profiles::builtin().get("qwen").expect("a profile");
    let observe = |state| observe_screen(&profile, &screen(state));
    for state in ["working", "streaming"] {
        assert!(matches!(observe(state).signal, Some(Signal::Busy(..))), "{state}");
    }
    for state in ["refused", "after-tool", "after-interrupt"] {
        assert!(matches!(observe(state).signal, Some(Signal::Ready(_))), "{state}: {:?}", observe(state));
    }
    let paste = observe("paste").composer.expect("a composer");
    assert!(paste.chip && !paste.draft.is_empty(), "{paste:?}");
    let draft = ComposerView { chip: false, ..paste };
    assert!(is_echo_of(&draft, "[Pasted Content 1091 chars]"), "the space of no width does not count");
    let dialog = observe("dialog");
    assert!(matches!(dialog.signal, Some(Signal::Blocked(BlockKind::Permission, ..))), "{dialog:?}");
    let choices: Vec<&str> = dialog.choices.iter().map(|choice| choice.label.as_str()).collect();
    let expected = [
        "Yes, allow once",
        "Always allow run 'touch *' commands in this project",
        "Always allow run 'touch *' commands for this user",
        "No, suggest changes (esc)",
    ];
    assert_eq!(choices, expected);
    assert!(dialog.choices[0].selected);
}

#[test]
fn spinner_does_not_change_the_dialog() {
    let profile = Profiles::builtin().get("qwen").expect("a profile");
    let mut rows = lines("dialog");
    let first = observe_screen(&profile, &screen_of(&rows));
    assert!(first.dialog.contains("Allow execution of"), "{first:?}");
    // Its words may wrap, which scrolls the screen.
    *rows.last_mut().expect("a row") = "  ⠏ Waiting for user".to_string();
    rows.push("    confirmation...".to_string());
    rows.remove(0);
    let later = observe_screen(&profile, &screen_of(&rows));
    assert_eq!((first.dialog, first.context, first.choices), (later.dialog, later.context, later.choices));
}

#[test]
fn ready_needs_an_idle_title() {
    let parser = nerve_agent::parse::parser(Qwen);
    assert!(parser.is_ready(&screen("refused")));
    assert!(!parser.is_ready(&screen("working")) && !parser.is_ready(&screen("dialog")));
    let busy = Screen { title: "◐\u{fe0e} Qwen - work".to_string(), ..screen("refused") };
    assert!(!parser.is_ready(&busy));
}

#[test]
fn session_file_has_the_turns() {
    let list = TurnList::read(TranscriptKind::Qwen, CHAT);
    let prompts: Vec<&str> = list.turns.iter().map(|turn| turn.prompt.as_str()).collect();
    let expected =
        ["hello there", "Please answer SLOW", "TOUCHTOOL please", "hello again", "TOUCHTOOL please"];
    assert_eq!((prompts.as_slice(), list.unknown), (&expected[..], 0));
    let answer = parse_session_file(TranscriptKind::Qwen, CHAT.lines(), "hello again", None);
    assert!(answer.said_end && answer.is_complete, "{answer:?}");
    let sections = &list.turns[2].answer.sections;
    expect_text(
        &dump_sections(sections),
        r#"
        text
          I will run a command.
        tool_call args={"command":"touch made-by-tool.txt && ls -la made-by-tool.txt","description":"Run the scripted command"} id=call_mock_000045_0 status=rejected tool=run_shell_command
          [Operation Cancelled] Reason: User did not allow tool call"#,
    );
}

#[test]
fn answer_without_a_whole_response_was_interrupted() {
    let lines = CHAT.lines().filter(|line| !line.contains("qwen-code.api_response"));
    let turn = parse_session_file(TranscriptKind::Qwen, lines, "hello again", None);
    assert_eq!(turn.sections.last().map(|last| last.kind), Some(SectionKind::Interrupted), "{turn:?}");
}

#[test]
fn broken_response_does_not_complete_the_next_answer() {
    let is_response = |line: &&str| line.contains("qwen-code.api_response");
    let response = CHAT.lines().find(is_response).expect("a response");
    let mut lines: Vec<&str> = CHAT.lines().filter(|line| !is_response(line)).collect();
    let prompt = lines.iter().position(|line| line.contains(r#""text":"hello again""#)).expect("a prompt");
    lines.insert(prompt, response);
    let turn = parse_session_file(TranscriptKind::Qwen, lines.into_iter(), "hello again", None);
    assert_eq!(turn.sections.last().map(|last| last.kind), Some(SectionKind::Interrupted), "{turn:?}");
}

#[test]
fn rewound_turns_are_left_out() {
    let first: serde_json::Value =
        CHAT.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a line");
    let prompt = serde_json::json!({
        "uuid": "new", "parentUuid": first["uuid"], "sessionId": first["sessionId"], "type": "user",
        "provenance": "real_user", "message": { "parts": [{ "text": "another way" }] },
    });
    let list = TurnList::read(TranscriptKind::Qwen, &format!("{CHAT}{prompt}\n"));
    let prompts: Vec<&str> = list.turns.iter().map(|turn| turn.prompt.as_str()).collect();
    assert_eq!(prompts, ["hello there", "another way"]);
}

#[test]
fn tools_and_usage_are_reported_once() {
    let mut reader = ActivityReader::new(TranscriptKind::Qwen);
    let activities: Vec<Activity> = CHAT.lines().flat_map(|line| reader.read_line(line, TsMs(7))).collect();
    let count = |is: fn(&Activity) -> bool| activities.iter().filter(|activity| is(activity)).count();
    assert_eq!(count(|activity| matches!(activity, Activity::ToolStart { .. })), 2);
    assert_eq!(count(|activity| matches!(activity, Activity::ToolOutput { .. })), 2);
    assert_eq!((count(|activity| matches!(activity, Activity::Usage { .. })), reader.unknown()), (6, 0));
    assert_eq!(UsageList::read(TranscriptKind::Qwen, CHAT).records.len(), 6);
}
