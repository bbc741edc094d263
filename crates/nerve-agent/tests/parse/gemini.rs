//! Gemini CLI: saved screens, with and without true colour.

use nerve_agent::parse::ParsedTurn;
use nerve_agent::parse::ParserKind::Gemini;

use crate::screens::{expect, lines, parse};

fn plain(state: &str, prompt: &str) -> ParsedTurn {
    parse(Gemini, prompt, &lines("gemini", state))
}

fn colour(state: &str, prompt: &str) -> ParsedTurn {
    parse(Gemini, prompt, &lines("gemini-colour", state))
}

#[test]
fn s04_short() {
    let expected = "text\n  You said:\n  hello there\ncomplete";
    expect(&plain("04-short-response", "hello there"), expected);
    expect(&colour("04-short-response", "hello there"), expected);
    expect(&plain("03-typed-not-submitted", "hello there"), "incomplete");
    expect(&colour("03-typed-not-submitted", "hello there"), "incomplete");
}

#[test]
fn s05_streaming() {
    expect(
        &plain("05-busy-streaming", "Please answer SLOW number one"),
        "
        text
          You said: Please answer SLOW number one

          Slow words keep coming one after the other
        incomplete",
    );
    assert!(!colour("05-busy-streaming", "SLOW to be interrupted").is_complete);
    expect(&plain("07-busy-waiting-first-byte", "STALL 6 please"), "incomplete");
}

#[test]
fn s08_long_answer_whole() {
    let parsed = plain("08-long-response.hist", "LONG answer please");
    let history = lines("gemini", "08-long-response.hist");
    let first =
        history.iter().position(|row| row == "✦ Report on the request").expect("the answer's first row");
    let last = history.iter().rposition(|row| row.ends_with("END-OF-LONG")).expect("its last");
    let rest: Vec<&str> = history[first + 1..=last].iter().map(|row| row.get(2..).unwrap_or("")).collect();
    assert_eq!(parsed.sections.len(), 1);
    assert_eq!(parsed.text(), format!("Report on the request\n{}", rest.join("\n")));
    assert!(parsed.text().contains("\n  1 import os\n"), "the numbers of code lines stay");
    assert!(parsed.is_complete);
}

#[test]
fn s08c_quoted_markers_are_text() {
    let parsed = plain("08c-wide-response", "WIDE answer please");
    assert_eq!(parsed.sections.len(), 1);
    assert!(
        parsed.text().ends_with(" 6 ❯ 1. Yes\n 7   2. No\n 8 esc to interrupt\n\nEND-OF-WIDE"),
        "{}",
        parsed.text()
    );
    assert!(parsed.is_complete);
}

#[test]
fn s08d_loop_detector() {
    expect(&plain("08d-loop-detected-dialog", "WIDE answer please"), "incomplete");
    expect(
        &plain("09-during-tool", "WIDE answer please"),
        "
        error
          A potential loop was detected. This can happen due to repetitive tool calls or other model behavior. The request has
          been halted.
        complete",
    );
}

#[test]
fn s09_tools() {
    expect(
        &plain("09-during-tool", "SLOWTOOL please"),
        "
        text
          I will run a command.
        tool_call args=sleep 6; echo slept status=running tool=Shell
        incomplete",
    );
    expect(
        &plain("11-after-tool", "SLOWTOOL please"),
        r#"
        text
          I will run a command.
        tool_call args=sleep 6; echo slept status=ok tool=Shell
          slept
        text
          The tool said: {"output": "<untrusted_context>\nOutput: slept\nProcess Group PGID: 17370\n</untrusted_context>"}
          END-OF-TOOL
        complete"#,
    );
    expect(
        &plain("16-after-read", "READTOOL FILE=/srv/proj0/work-gemini/notes.txt"),
        r#"
        text
          I will read the file.
        tool_call args=notes.txt status=ok tool=ReadFile
        text
          The tool said: {"output": "alpha note\nbeta note\n"}
          END-OF-TOOL
        complete"#,
    );
}

#[test]
fn s12_permission_dialog_is_not_the_answer() {
    let expected = "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=asking tool=Shell
        incomplete";
    expect(&plain("12-permission-shell", "TOUCHTOOL please"), expected);
    expect(&colour("12-permission-shell", "TOUCHTOOL please"), expected);
    expect(
        &plain("14-permission-write", "WRITETOOL FILE=/srv/proj0/work-gemini/out.txt"),
        "
        text
          I will write the file.
        tool_call args=Writing to out.txt status=asking tool=WriteFile
        incomplete",
    );
}

#[test]
fn s15_permission_denied() {
    expect(
        &plain("15-permission-denied-esc", "WRITETOOL FILE=/srv/proj0/work-gemini/out.txt"),
        "
        text
          I will write the file.
        tool_call args=out.txt → Rejected (+3, -0) status=rejected tool=WriteFile
            1 line one
            2 line two
            3 line three
        interrupted
          Request cancelled.
        complete",
    );
}

#[test]
fn s17_interrupted() {
    expect(
        &plain("17-after-esc-interrupt", "SLOW again to be interrupted"),
        "
        text
          You said: SLOW again to be interrupted

          Slow words keep coming one after the other until the end. Slow words keep coming
        interrupted
          Request cancelled.
        complete",
    );
    // Before the first byte, and with a hint drawn above the composer.
    expect(
        &plain("18a-after-esc-before-first-byte", "STALL 8 to be interrupted"),
        "interrupted\n  Request cancelled.\ncomplete",
    );
    assert_eq!(plain("18-after-ctrlc-interrupt", "SLOW second to be interrupted").sections.len(), 2);
}

#[test]
fn s20_long_prompts() {
    expect(
        &plain("20-after-paste3", "line one\nline two\nline three"),
        "text\n  You said: line one\n  line two\n  line three\ncomplete",
    );
    let parsed = plain("24-after-paste3000", &"x".repeat(3000));
    assert_eq!(parsed.sections.len(), 1);
    assert!(parsed.text().starts_with("You said:\nxxx"));
}

#[test]
fn s28_errors() {
    expect(&plain("28-api-error", "ERR 500 now"), "incomplete");
    expect(
        &plain("28c-api-error-400", "ERR 400 now"),
        r#"
        error
          [API Error: {"error":{"code":400,"message":"scripted error","status":"UNAVAILABLE"}}]
        complete"#,
    );
}

#[test]
fn several_tools_in_one_box() {
    let rows = "
 > go

╭──────────────────────────╮
│ ✓  ReadFile a.txt        │
│                          │
│ x  fs_read (fs MCP Server) {\"path\":\"b\"} │
│                          │
│ no such file             │
╰──────────────────────────╯

✦ Done.
";
    let lines: Vec<String> = rows.lines().map(String::from).collect();
    expect(
        &parse(Gemini, "go", &lines),
        "
        tool_call args=a.txt status=ok tool=ReadFile
        tool_call args={\"path\":\"b\"} status=error tool=fs_read (fs MCP Server)
          no such file
        text
          Done.
        incomplete",
    );
}

const NARROW: &str = "
 > go

✦ The first line
  and the second.

  Prompt waits.
 Press Ctrl+O to show more lines of the last response
                    ? for shortcuts
──────────────────────────────
 Shift+Tab to accept edits

 >   Type your message or
     @path/to/file";

#[test]
fn hints_of_narrow_window_are_not_the_answer() {
    let lines: Vec<String> = NARROW.lines().map(String::from).collect();
    let expected = "text\n  The first line\n  and the second.\n\n  Prompt waits.\ncomplete";
    expect(&parse(Gemini, "go", &lines), expected);
    let streamed = NARROW.replace(
        "\n\n  Prompt",
        "\n  ... generating more ...\n\n                    ? for shortcuts\n  Prompt",
    );
    let lines: Vec<String> = streamed.lines().map(String::from).collect();
    expect(&parse(Gemini, "go", &lines), expected);
}

#[test]
fn dropped_stream_ends_with_error() {
    let rows = " > go\n\n✦ Some text\n✕ [API Error: terminated while\n  streaming]\n\nℹ This request failed. Press F12 for\n  diagnostics.\n";
    let lines: Vec<String> = rows.lines().map(String::from).collect();
    let parsed = parse(Gemini, "go", &lines);
    assert_eq!(parsed.final_error(), Some("[API Error: terminated while\nstreaming]"));
    assert!(parsed.is_complete && !parsed.is_truncated);
}

#[test]
fn erased_scrollback_is_truncated() {
    assert!(plain("08b-huge-response", "HUGE answer please").is_truncated);
    assert!(!plain("08-long-response.hist", "LONG answer please").is_truncated);
    assert!(!plain("04-short-response", "hello there").is_truncated);
}
