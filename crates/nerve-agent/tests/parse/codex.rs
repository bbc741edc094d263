//! Codex: saved screens, inline and on the alternate screen.

use nerve_agent::parse::ParsedTurn;
use nerve_agent::parse::ParserKind::Codex;

use crate::screens::{expect, lines, parse};

fn inline(state: &str, prompt: &str) -> ParsedTurn {
    parse(Codex, prompt, &lines("codex-inline", state))
}

fn drawn(prompt: &str, rows: &str) -> ParsedTurn {
    let rows = format!(
        "{rows}\n\n\n› Ask Codex to do anything\n\n  fake-model default · /srv/work\n  ? for shortcuts"
    );
    let lines: Vec<String> = rows.lines().map(String::from).collect();
    parse(Codex, prompt, &lines)
}

#[test]
fn s04_short() {
    expect(&inline("04-short-response", "hello there"), "text\n  You said: hello there\ncomplete");
    expect(&inline("03-typed-not-submitted", "hello there"), "incomplete");
}

#[test]
fn s05_streaming_is_not_complete_without_busy_row() {
    expect(
        &inline("05-busy-streaming", "Please answer SLOW number one"),
        "
        text
          You said: Please answer SLOW number one

          Slow words keep coming one after the other until the en
        incomplete",
    );
    expect(&inline("07-busy-waiting-first-byte", "STALL 6 please"), "incomplete");
}

#[test]
fn s08_long_answer_whole() {
    let parsed = inline("08-long-response.hist", "LONG answer please");
    let history = lines("codex-inline", "08-long-response.hist");
    let first =
        history.iter().position(|row| row == "• # Report on the request").expect("the answer's first row");
    let last = history.iter().rposition(|row| row.ends_with("END-OF-LONG")).expect("its last");
    let rest: Vec<&str> = history[first + 1..=last].iter().map(|row| row.get(2..).unwrap_or("")).collect();
    assert_eq!(parsed.sections.len(), 1);
    assert_eq!(parsed.text(), format!("# Report on the request\n{}", rest.join("\n")));
    assert!(parsed.is_complete);
    // The beginning of the answer has scrolled off.
    let visible = inline("08-long-response", "LONG answer please");
    assert!(visible.text().ends_with("END-OF-LONG") && visible.is_complete);
}

#[test]
fn s09_tools() {
    expect(&inline("09-during-tool", "SLOWTOOL please"), "text\n  I will run a command.\nincomplete");
    let tool_answer = |rest: &str| {
        format!(
            "text\n  The tool said: Chunk ID: {rest}\n  Process exited with code 0\n  Original token count: {}\ncomplete",
            if rest.starts_with('8') {
                "2\n  Output:\n  slept\n\n  END-OF-TOOL"
            } else {
                "6\n  Output:\n  alpha note\n  beta note\n\n  END-OF-TOOL"
            }
        )
    };
    expect(
        &inline("11-after-tool", "SLOWTOOL please"),
        &format!(
            "text\n  I will run a command.\ntool_call args=sleep 6; echo slept tool=shell\n  slept\n{}",
            tool_answer("8817ad\n  Wall time: 5.9228 seconds")
        ),
    );
    let read = |id: &str| {
        format!(
            "text\n  I will read the file.\ntool_call tool=explore\n  Read notes.txt\n{}",
            tool_answer(&format!("{id}\n  Wall time: 0.0000 seconds"))
        )
    };
    expect(&inline("16-after-read", "READTOOL FILE=/srv/proj0/work-codex/notes.txt"), &read("65e4d8"));
    // On the alternate screen a hint follows the tool, and a tip follows the text.
    let screen = lines("codex-fullscreen", "16-after-read");
    assert!(
        screen.iter().any(|row| row == "    + Show details")
            && screen.iter().any(|row| row.starts_with("  └ Tip: "))
    );
    expect(&parse(Codex, "READTOOL FILE=/srv/proj0/work-codex/notes.txt", &screen), &read("be4e04"));
}

#[test]
fn s12_permission_dialog_is_not_the_answer() {
    let expected = "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=running tool=shell
        incomplete";
    expect(&inline("12-permission-shell", "ESCTOOL please"), expected);
    expect(&parse(Codex, "ESCTOOL please", &lines("codex-fullscreen", "12-permission-shell")), expected);
}

#[test]
fn s15_permission_denied() {
    expect(
        &inline("15-permission-denied-esc", "ESCTOOL again"),
        "
        text
          I will run a command.
        error
          You canceled the request to run touch made-by-tool.txt && ls -la made-by-tool.txt
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt tool=shell
          (no output)
        interrupted
          Conversation interrupted - use /feedback if something went wrong
        complete",
    );
}

#[test]
fn s17_interrupted() {
    expect(
        &inline("17-after-esc-interrupt", "SLOW again to be interrupted"),
        "
        text
          You said: SLOW again to be interrupted

          Slow words keep coming one after the other until the end. Slow words keep coming
        interrupted
          Conversation interrupted - use /feedback if something went wrong
        complete",
    );
    // The program has exited and written below.
    let parsed = inline("30-after-exit", "SLOW second to be interrupted");
    assert_eq!(parsed.sections.len(), 2);
    assert!(parsed.is_complete);
}

#[test]
fn multi_row_edits_plans_and_commands() {
    expect(
        &drawn(
            "go",
            "› go\n\n• Edited notes.txt (+1 -1)\n    1 -alpha\n    1 +beta\n\n• Updated Plan\n  └ □ one\n    □ two\n\n• Ran cat <<E\n  │ two\n  │ E\n  └ two\n    … +3 lines\n\n• Called fs.read({\"path\":\"a\"})\n  └ text\n\n• Ran out of ideas.\n\n─ Worked for 1m 02s ─────────────",
        ),
        "
        tool_call args=notes.txt (+1 -1) tool=edit
          1 -alpha
          1 +beta
        tool_call args=Plan tool=plan
          □ one
          □ two
        tool_call args=cat <<E\\ntwo\\nE tool=shell
          two
          … +3 lines
        tool_call args=fs.read({\"path\":\"a\"}) tool=fs.read
          text
        text
          Ran out of ideas.
        complete",
    );
}

#[test]
fn errors_are_parsed_and_quotes_stay_text() {
    expect(
        &drawn("go", "› go\n\n■ unexpected status 400: scripted error"),
        "error\n  unexpected status 400: scripted error\ncomplete",
    );
    // The end line counts only at the end.
    expect(
        &drawn("go", "› go\n\n• It says\n\n  Worked for 3s • 21:48\n\n  and continues"),
        "
        text
          It says

          Worked for 3s • 21:48

          and continues
        incomplete",
    );
}

#[test]
fn sentence_above_a_tip_is_not_a_tool() {
    let end = "\n\n  Worked for 3s • 21:48";
    for text in ["Fixed the bug.", "Nothing", "Ran out of ideas."] {
        for tip in ["  └ Tip: Try /new.", "  └ Tip: Network proxy can be enabled from\n    /experimental."]
        {
            let rows = format!("› go\n\n\n• {text}\n{tip}{end}");
            expect(&drawn("go", &rows), &format!("text\n  {text}\ncomplete"));
        }
    }
    let command = format!("› go\n\n\n• Ran cat tips\n  └ Tip: x\n\n• Done.{end}");
    expect(
        &drawn("go", &command),
        "
        tool_call args=cat tips tool=shell
          Tip: x
        text
          Done.
        complete",
    );
}

#[test]
fn wrapped_error_is_one_section() {
    let rows = "› go\n\n\n• Some text\n\n■ unexpected status 400 Bad Request: {\"error\": {\nmessage: \"no such\n  model\"}}, url: http://127.0.0.1/v1\n  └ Tip: Try /new.\n\n  Worked for 3s • 21:48";
    let parsed = drawn("go", rows);
    expect(
        &parsed,
        "
        text
          Some text
        error
          unexpected status 400 Bad Request: {\"error\": {
          message: \"no such
          model\"}}, url: http://127.0.0.1/v1
        complete",
    );
    assert!(parsed.final_error().is_some_and(|error| error.ends_with("/v1")));
    // A warning wraps, too.
    let rows =
        "› go\n\n\n⚠ Long conversations make the model\nless accurate.\n\n• Done.\n\n  Worked for 3s • 21:48";
    let parsed = drawn("go", rows);
    expect(&parsed, "text\n  Done.\ncomplete");
    assert_eq!(parsed.final_error(), None);
}

#[test]
fn dropped_stream_ends_with_error() {
    let rows = "› DROP it\n\n\n• Some text.\n\n■ stream disconnected before completion: stream closed before response.completed";
    let parsed = drawn("DROP it", rows);
    assert!(parsed.final_error().is_some_and(|error| error.starts_with("stream disconnected")));
    assert_eq!((parsed.text().as_str(), parsed.is_complete), ("Some text.", true));
}

#[test]
fn shell_mode_output_is_the_answer() {
    let rows =
        "› before\n\n\n• Earlier.\n\n  Worked for 3s • 21:48\n\n\n• You ran ls -l\n  └ a.txt\n    b.txt";
    expect(
        &drawn("!ls -l", rows),
        "
        tool_call args=ls -l tool=shell
          a.txt
          b.txt
        text
          a.txt
          b.txt
        complete",
    );
}

#[test]
fn scrolled_off_beginning_is_truncated() {
    let fullscreen = lines("codex-fullscreen", "16-after-read");
    assert!(!parse(Codex, "READTOOL FILE=/srv/proj0/work-codex/notes.txt", &fullscreen).is_truncated);
    // The echo stays in the first row while the answer scrolls below it.
    let end = fullscreen.iter().position(|row| row.ends_with("21:53")).expect("the end of the first turn");
    for start in [0, 1] {
        let shown = fullscreen[start..=end].join("\n");
        let parsed = drawn("HUGE answer please", &shown);
        assert!(parsed.is_truncated && parsed.text().ends_with("END-OF-HUGE"), "{parsed:?}");
    }
    let history = lines("codex-inline", "08-long-response.hist");
    assert!(!parse(Codex, "LONG answer please", &history).is_truncated);
    let short = lines("codex-fullscreen", "04-short-response");
    assert!(!parse(Codex, "hello there", &short).is_truncated);
}
