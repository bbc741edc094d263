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
fn errors_and_quotes() {
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
