//! opencode: saved screens. Rows scrolled off the alternate screen are not in them.

use nerve_agent::parse::ParsedTurn;
use nerve_agent::parse::ParserKind::Opencode;

use crate::screens::{all, expect, lines, parse};

fn saved(state: &str, prompt: &str) -> ParsedTurn {
    parse(Opencode, prompt, &lines("opencode", state))
}

fn rows(text: &str) -> Vec<String> {
    text.lines().map(str::to_string).collect()
}

#[test]
fn short_answer_is_complete() {
    expect(&saved("04-short-response", "hello there"), "text\n  You said: hello there\ncomplete");
    expect(&saved("04-short-response", ""), "text\n  You said: hello there\ncomplete");
    expect(&saved("02-startup-ready", "hello there"), "incomplete");
}

#[test]
fn streaming_text_is_not_complete() {
    expect(
        &saved("05-busy-streaming", "Please answer SLOW number one"),
        "
        text
          You said: Please answer SLOW number one

          Slow words keep coming one after the other until the en
        incomplete",
    );
}

#[test]
fn long_answer_keeps_its_end() {
    let parsed = saved("08b-huge-response", "HUGE answer please");
    assert!(parsed.is_complete);
    let text = parsed.text();
    assert!(text.starts_with("- line 273: lorem") && text.ends_with("END-OF-HUGE"), "{text}");
}

#[test]
fn tools_with_and_without_output() {
    expect(
        &saved("11-after-tool", "SLOWTOOL please"),
        "
        text
          I will run a command.
        tool_call args=sleep 6; echo slept tool=bash
          slept
        text
          The tool said: slept

          END-OF-TOOL
        complete",
    );
    expect(
        &saved("09-during-tool", "SLOWTOOL please"),
        "
        text
          I will run a command.
        tool_call args=sleep 6; echo slept status=running tool=bash
        incomplete",
    );
    let read = saved("16-after-read", "READTOOL FILE=/srv/proj0/work-opencode/notes.txt");
    let kinds: Vec<&str> = read.sections.iter().map(|section| section.kind.as_str()).collect();
    assert_eq!(kinds, ["text", "tool_call", "text"], "{read:?}");
    assert_eq!(
        (&read.sections[1].metadata["tool"], &read.sections[1].metadata["args"]),
        (&"Read".into(), &"notes.txt".into())
    );
    assert!(read.is_complete && read.text().ends_with("END-OF-TOOL"), "{read:?}");
}

#[test]
fn permission_dialog_is_not_the_answer() {
    expect(
        &saved("12-permission-shell", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=asking tool=bash
        incomplete",
    );
    let write = saved("14-permission-write", "WRITETOOL FILE=/srv/proj0/work-opencode/out.txt");
    assert_eq!(write.sections[1].metadata["status"], "asking", "{write:?}");
    assert!(!write.is_complete);
    assert!(
        !saved("15-permission-denied-esc", "WRITETOOL FILE=/srv/proj0/work-opencode/out.txt").is_complete
    );
}

#[test]
fn interrupt_ends_turn() {
    let parsed = saved("17-after-esc-interrupt", "SLOW again to be interrupted");
    let kinds: Vec<&str> = parsed.sections.iter().map(|section| section.kind.as_str()).collect();
    assert_eq!((kinds, parsed.is_complete), (vec!["text", "interrupted"], true));
}

#[test]
fn end_of_scrolled_off_prompt_is_not_the_answer() {
    let parsed = saved("22-after-paste30", "");
    assert!(parsed.is_complete && parsed.text().ends_with("paste row 30"), "{parsed:?}");
}

const ERROR: &str = "
  ┃
  ┃  ERR 400 now                                          ┃                  ┃
  ┃                                                       ┃  scripted error  ┃
                                                          ┃                  ┃

  ┃
  ┃  scripted error
  ┃

     ▣  Build · fake-model

  ┃
  ┃
  ┃
  ┃  Build · fake-model fake
  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀";

#[test]
fn api_error_is_not_text() {
    expect(&parse(Opencode, "ERR 400 now", &rows(ERROR)), "error\n  scripted error\ncomplete");
    // The agent retries by itself.
    expect(&saved("28b-api-error-cancelled", "ERR 500 now"), "incomplete");
}

#[test]
fn quoted_command_is_text() {
    let answer = "  ┃\n  ┃  how?\n  ┃\n\n     Run this:\n\n     $ ls -l\n\n     ▣  Build · m · 1m 2s";
    expect(&parse(Opencode, "how?", &rows(answer)), "text\n  Run this:\n\n  $ ls -l\ncomplete");
    let points = "  ┃\n  ┃  how?\n  ┃\n\n     → then this\n     → and that\n\n     ▣  Build · m · 9ms";
    expect(&parse(Opencode, "how?", &rows(points)), "text\n  → then this\n  → and that\ncomplete");
}

#[test]
fn ready_needs_cursor_in_composer_and_no_interrupt() {
    for (state, screen) in all("opencode") {
        let ready = !["05", "09", "12", "14", "28b"].iter().any(|busy| state.starts_with(busy));
        assert_eq!(nerve_agent::parse::parser(Opencode).is_ready(&screen), ready, "{state}");
    }
}

#[test]
fn scrolled_off_beginning_is_truncated() {
    assert!(saved("08b-huge-response", "HUGE answer please").is_truncated);
    assert!(!saved("04-short-response", "hello there").is_truncated);
    let below = "  ┃\n\n     All of it.\n\n     ▣  Build · m · 1.8s";
    assert!(!parse(Opencode, "how?", &rows(below)).is_truncated, "the end of the echo is visible");
    assert!(parse(Opencode, "how?", &rows(&below["  ┃\n".len()..])).is_truncated);
}

#[test]
fn error_ends_turn_of_scrolled_off_prompt() {
    let dropped = "     more text\n\n  ┃\n  ┃  stream closed\n  ┃\n\n     ▣  Build · m";
    let parsed = parse(Opencode, "a prompt that is gone", &rows(dropped));
    expect(&parsed, "text\n  more text\nerror\n  stream closed\ncomplete");
    assert_eq!((parsed.final_error(), parsed.is_truncated), (Some("stream closed"), true));
}
