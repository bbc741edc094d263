//! Claude Code: saved screens, and hand-made ones for other cases.

use nerve_agent::parse::ParserKind::Claude;
use nerve_agent::parse::{ParsedTurn, SectionKind};

use crate::screens::{expect, lines, parse};

fn classic(state: &str, prompt: &str) -> ParsedTurn {
    parse(Claude, prompt, &lines("claude-classic", state))
}

fn fullscreen(state: &str, prompt: &str) -> ParsedTurn {
    parse(Claude, prompt, &lines("claude-fullscreen", state))
}

/// Parses these rows with the composer and an idle footer below.
fn drawn(prompt: &str, rows: &str) -> ParsedTurn {
    let rule = "─".repeat(60);
    let rows = format!("{rows}\n\n{rule}\n❯\n{rule}\n  ⏸ manual mode on · ? for shortcuts");
    bare(prompt, &rows)
}

fn bare(prompt: &str, rows: &str) -> ParsedTurn {
    let lines: Vec<String> = rows.lines().map(String::from).collect();
    parse(Claude, prompt, &lines)
}

#[test]
fn s04_short() {
    expect(
        &classic("04-short-response", "hello there"),
        "
        text
          You said: hello there
        complete",
    );
}

#[test]
fn s03_draft_is_not_a_turn() {
    expect(&classic("03-typed-not-submitted", "hello there"), "incomplete");
    expect(&classic("03b-just-submitted", "hello there"), "incomplete");
    expect(&fullscreen("03-typed-not-submitted", "hello there"), "incomplete");
}

#[test]
fn s05_streaming_is_not_complete() {
    expect(
        &classic("05-busy-streaming", "Please answer SLOW number one"),
        "
        text
          You said: Please answer SLOW number one
        incomplete",
    );
    // The previous turn is above the echo.
    expect(
        &classic("07-busy-waiting-first-byte", "STALL 6 please"),
        "
        incomplete",
    );
}

#[test]
fn s08_long_answer_whole() {
    let parsed = classic("08-long-response.hist", "LONG answer please");
    let history = lines("claude-classic", "08-long-response.hist");
    let first =
        history.iter().position(|row| row == "● Report on the request").expect("the answer's first row");
    let last = history.iter().rposition(|row| row.ends_with("END-OF-LONG")).expect("its last");
    let rest: Vec<&str> = history[first + 1..=last].iter().map(|row| row.get(2..).unwrap_or("")).collect();
    assert_eq!(parsed.sections.len(), 1);
    assert_eq!(parsed.sections[0].kind, SectionKind::Text);
    let text = parsed.text();
    assert_eq!(text, format!("Report on the request\n{}", rest.join("\n")));
    assert_eq!(text.lines().count(), 64);
    assert!(text.contains("\n  - nested item one\n"), "indentation inside the answer stays");
    assert!(text.contains("\n    a, b = 0, 1\n"));
    assert!(text.ends_with("\n\nLast paragraph of the answer. END-OF-LONG"));
    assert!(parsed.is_complete);
}

#[test]
fn s08_scrolled_off_echo_starts_at_top() {
    let parsed = classic("08-long-response", "LONG answer please");
    assert_eq!(parsed.sections.len(), 1);
    assert!(parsed.text().starts_with("    return a\n"));
    assert!(parsed.text().ends_with("END-OF-LONG"));
    assert!(parsed.is_complete);
    // The full-screen renderer, with its status row directly above the composer.
    let parsed = fullscreen("08-long-response", "LONG answer please");
    assert!(parsed.text().ends_with("END-OF-LONG"));
    assert!(parsed.is_complete);
}

#[test]
fn s08c_quoted_markers_are_text() {
    for parsed in [
        classic("08c-wide-response", "WIDE answer please"),
        fullscreen("08c-wide-response", "WIDE answer please"),
    ] {
        assert_eq!(parsed.sections.len(), 1, "{parsed:?}");
        let text = parsed.text();
        assert!(
            text.starts_with(
                "Unicode: naive cafe\u{301} — “quotes” … 日本語テキスト 한국어 العربية עברית 😀👩‍👩‍👧‍🇫🇷 "
            ),
            "{text}"
        );
        assert!(text.lines().next().is_some_and(|row| row.ends_with("│ ─ ● ⏺ ⎿ > ❯")));
        assert!(text.ends_with(
            "Tabs:   a       b       c\n\n● not a bullet\n> not a prompt\n╭──────╮\n│ box  │\n╰──────╯\n❯ 1. Yes\n  2. No\nesc to interrupt\n\nEND-OF-WIDE"
        ));
        assert_eq!((parsed.tokens, parsed.is_complete), (None, true));
    }
}

#[test]
fn s09_tool_with_result() {
    expect(
        &classic("09-during-tool", "SLOWTOOL please"),
        "
        text
          I will run a command.
        tool_call args=sleep 6; echo slept tool=Bash
          slept
        text
          The tool said: slept
          END-OF-TOOL
        complete",
    );
}

#[test]
fn s12_permission_dialog_is_not_the_answer() {
    expect(
        &classic("12-permission-bash", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt status=waiting tool=Bash
        incomplete",
    );
    expect(
        &fullscreen("12-permission-bash", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt label=Running the scripted command status=running tool=Bash
        incomplete",
    );
    expect(
        &classic("14-permission-write", "WRITETOOL FILE=/srv/proj0/work-claude/out.txt"),
        "
        text
          I will write the file.
        tool_call args=out.txt tool=Write
        incomplete",
    );
}

#[test]
fn s13_permission_given() {
    expect(
        &classic("13-after-permission-yes", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call args=touch made-by-tool.txt && ls -la made-by-tool.txt tool=Bash
          -rw-r--r-- 1 root root 0 Nov 21 20:45 made-by-tool.txt
        text
          The tool said: -rw-r--r-- 1 root root 0 Nov 21 20:45 made-by-tool.txt
          END-OF-TOOL
        complete",
    );
    expect(
        &fullscreen("13-after-permission-yes", "TOUCHTOOL please"),
        "
        text
          I will run a command.
        tool_call folded=true tool=Bash
          Ran 1 shell command
        text
          The tool said: -rw-r--r-- 1 root root 0 Nov 21 20:49 made-by-tool.txt
          END-OF-TOOL
        complete",
    );
}

#[test]
fn s15_permission_denied() {
    // Without an end line, the composer and an idle footer mark the end.
    expect(
        &classic("15-permission-denied-esc", "WRITETOOL FILE=/srv/proj0/work-claude/out.txt"),
        "
        text
          I will write the file.
        tool_call args=out.txt status=rejected tool=Write
          Rejected write to out.txt
           1 line one
           2 line two
           3 line three
        complete",
    );
}

#[test]
fn s16_folded_tool() {
    let expected = "
        text
          I will read the file.
        tool_call folded=true tool=Read
          Read 1 file
        text
          The tool said: 1        alpha note
          2       beta note
          3
          END-OF-TOOL
        complete";
    expect(&classic("16-after-read", "READTOOL FILE=/srv/proj0/work-claude/notes.txt"), expected);
    expect(&fullscreen("16-after-read", "READTOOL FILE=/srv/proj0/work-claude/notes.txt"), expected);
}

#[test]
fn s17_interrupted() {
    let parsed = classic("17-after-esc-interrupt", "SLOW again to be interrupted");
    expect(
        &parsed,
        "
        text
          You said: SLOW again to be interrupted

          Slow words keep coming one after the other until the end. Slow words keep coming one after the other until the end.
        interrupted
          Interrupted · What should Claude do instead?
        complete",
    );
    assert_eq!(
        fullscreen("17-after-esc-interrupt", "SLOW to be interrupted").sections[1].kind,
        SectionKind::Interrupted
    );
    // The previous turn on the same screen.
    assert_eq!(classic("18-after-ctrlc-interrupt", "SLOW again to be interrupted").sections, parsed.sections);
}

#[test]
fn s18a_returned_prompt_has_no_answer() {
    expect(
        &classic("18a-after-esc-before-first-byte", "STALL 8 to be interrupted before any output"),
        "incomplete",
    );
    expect(&classic("28b-api-error-cancelled", "ERR 500 now"), "incomplete");
}

#[test]
fn s20_multi_line_prompt() {
    expect(
        &classic("20-after-paste3", "line one\nline two\nline three"),
        "
        text
          You said: line one
          line two
          line three
        complete",
    );
}

#[test]
fn s22_long_prompt_scrolled_off() {
    let prompt: Vec<String> = (1..=30).map(|n| format!("paste row {n}")).collect();
    let parsed = classic("22-after-paste30", &prompt.join("\n"));
    assert_eq!(parsed.sections.len(), 1);
    assert!(parsed.text().starts_with("You said: <pasted_content id=\"a45d\">\npaste row 1\n"));
    assert!(parsed.text().ends_with("\npaste row 30\n</pasted_content id=\"a45d\">"));
    assert!(parsed.is_complete);
}

#[test]
fn s24_end_of_echo_is_not_the_answer() {
    let parsed = classic("24-after-paste3000", &"x".repeat(3000));
    assert_eq!(parsed.sections.len(), 1);
    assert!(parsed.text().starts_with("You said: <pasted_content"));
}

#[test]
fn s27_thinking() {
    // The token count is in the spinner's row.
    expect(
        &classic("27b-thinking", "THINK about it"),
        "
        tokens None Some(83) None
        incomplete",
    );
    expect(
        &classic("27c-after-thinking", "THINK about it"),
        "
        thinking duration=2s folded=true
          Thought for 2s
        text
          You said: THINK about it
        complete",
    );
}

#[test]
fn s28_errors() {
    expect(&classic("28-api-error-retrying", "ERR 500 now"), "incomplete");
    expect(
        &classic("28c-api-error-400", "ERR 400 now"),
        "
        error
          API Error: 400 scripted error
        complete",
    );
}

#[test]
fn older_markers_are_parsed() {
    expect(
        &drawn(
            "fix it",
            "> fix it\n\n∴ Thinking…\n\n  First this.\n\n  Then that.\n\n⏺ I fix it.\n\n⏺ Update Todos\n  ⎿  ☒ one\n     ☐ two\n\n⏺ fs - read_file (MCP)(path: \"a b\")\n  ⎿  text of it",
        ),
        "
        thinking
          First this.

          Then that.
        text
          I fix it.
        tool_call tool=Update Todos
          ☒ one
          ☐ two
        tool_call args=path: \"a b\" tool=fs - read_file (MCP)
          text of it
        complete",
    );
}

#[test]
fn multi_row_arguments() {
    expect(
        &drawn(
            "go",
            "❯ go\n\n● Bash(cat <<E\n      two\n      E)\n  ⎿  two\n     three\n\n     five\n     … +12 lines (ctrl+o to expand)",
        ),
        "
        tool_call args=cat <<E\\ntwo\\nE tool=Bash
          two
          three

          five
          … +12 lines (ctrl+o to expand)
        complete",
    );
}

#[test]
fn tool_like_text_stays_text() {
    expect(
        &drawn(
            "q",
            "❯ q\n\n● I would call Thing(x) here.\n  ⎿  is a sign\n\n● Frobnicate(x)\n\n● Done (see above)\n\n✻ Worked for 3s",
        ),
        "
        text
          I would call Thing(x) here.
          ⎿  is a sign
        text
          Frobnicate(x)
        text
          Done (see above)
        complete",
    );
}

/// The marker of a running tool blinks: half of the screens do not have it.
#[test]
fn running_tool_without_its_marker_is_a_tool() {
    let rule = "─".repeat(60);
    let busy = |rows: &str| {
        bare(
            "go",
            &format!(
                "{rows}\n\n✢ Tomfoolering… (3s)\n\n{rule}\n❯\n{rule}\n  ⏸ manual mode on · esc to interrupt"
            ),
        )
    };
    expect(
        &busy(
            "❯ go\n\n● I will run commands.\n\n  Bash(sleep 4;\n      echo slept)\n  ⎿  Running…\n\n  Read(a)\n  ⎿  Running…",
        ),
        "
        text
          I will run commands.
        tool_call args=sleep 4;\\necho slept status=running tool=Bash
        tool_call args=a status=running tool=Read
        incomplete",
    );
    // A quotation: text follows, or the turn is over.
    let quotation = "❯ go\n\n● Claude shows:\n\n  Bash(sleep 4)\n  ⎿  Running…";
    expect(
        &busy(&format!("{quotation}\n\n  Then it ends.")),
        "
        text
          Claude shows:

          Bash(sleep 4)
          ⎿  Running…

          Then it ends.
        incomplete",
    );
    expect(
        &drawn("go", quotation),
        "
        text
          Claude shows:

          Bash(sleep 4)
          ⎿  Running…
        complete",
    );
}

#[test]
fn tokens_come_only_from_status_rows() {
    let rows = "❯ q\n\n● It used 12345 tokens.\n  ⎿  99 tokens\n\n✻ Worked for 3s";
    assert_eq!(drawn("q", rows).tokens, None);
    let rule = "─".repeat(60);
    let parsed =
        bare("q", &format!("{rows}\n\n{rule}\n❯\n{rule}\n  ⏸ manual mode on            92,673 tokens"));
    assert_eq!(parsed.tokens.and_then(|tokens| tokens.total), Some(92_673));
}

#[test]
fn answer_of_a_command_is_text() {
    expect(
        &drawn("/cost", "❯ /cost\n  ⎿  Total cost: $0.01\n     Total code changes: 0"),
        "
        text
          Total cost: $0.01
          Total code changes: 0
        complete",
    );
}

#[test]
fn next_prompt_ends_turn() {
    let parsed = drawn("one", "❯ one\n\n● first\n\n❯ two\n\n● second\n\n✻ Worked for 3s");
    expect(&parsed, "text\n  first\ncomplete");
}

#[test]
fn unknown_prompt_uses_last_echo() {
    expect(
        &drawn("", "❯ one\n\n● first\n\n❯ two\n\n● second\n\n✻ Worked for 3s"),
        "text\n  second\ncomplete",
    );
    expect(&drawn("", "● first\n\n✻ Worked for 3s"), "text\n  first\ncomplete");
}

#[test]
fn paste_chip_counts_as_echo() {
    let prompt = format!("look at this:\n{}", "row\n".repeat(30));
    expect(
        &drawn(&prompt, "❯ look at this: [Pasted text #1 +29 lines]\n\n● seen\n\n✻ Worked for 3s"),
        "text\n  seen\ncomplete",
    );
}

#[test]
fn stale_composer_in_scrollback() {
    let rule = "─".repeat(60);
    let rows = format!(
        "❯ q\n\n● one\n\n{rule}\n❯\n{rule}\n  ⏸ manual mode on · esc to interrupt\n\n● two\n\n✻ Worked for 3s"
    );
    expect(&drawn("q", &rows), "text\n  one\ntext\n  two\ncomplete");
}

#[test]
fn rows_ending_at_composer() {
    let rule = "─".repeat(60);
    expect(&bare("q", &format!("❯ q\n\n● one\n\n✻ Worked for 3s\n\n{rule}\n❯")), "text\n  one\ncomplete");
    // Without an end line and a footer, nothing marks the end.
    expect(&bare("q", &format!("❯ q\n\n● one\n\n{rule}\n❯")), "text\n  one\nincomplete");
}

#[test]
fn turn_continues_after_end_line() {
    expect(
        &drawn("q", "❯ q\n\n● one\n\n✻ Worked for 3s\n\n● a hook said more\n\n✶ Bloviating… (2s)"),
        "text\n  one\ntext\n  a hook said more\nincomplete",
    );
}

#[test]
fn results_of_captures_may_lack_their_indentation() {
    let expected = "
        text
          I look.
        tool_call args=ls tool=Bash
          a.txt
          b.txt
        text
          Two files.
        complete";
    for rows in [
        "> go\n\n⏺ I look.\n\n⏺ Bash(ls)\n\u{a0}\u{a0}⎿ \u{a0}a.txt\n\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}b.txt\n\n⏺ Two files.",
        "> go\n\n⏺ I look.\n\n⏺ Bash(ls)\n⎿  a.txt\n   b.txt\n\n⏺ Two files.",
        "> go\n\n⏺ I look.\n\n⏺ Bash(ls)\n⎿  a.txt\nb.txt\n\n⏺ Two files.",
    ] {
        expect(&drawn("go", rows), expected);
    }
}

#[test]
fn rows_of_the_program_are_not_the_answer() {
    let rating = "● How is Claude doing this session? (optional)\n  1: Bad    2: Fine   3: Good   0: Dismiss";
    for rows in [
        format!("> go\n\n⏺ Done.\n\n{rating}"),
        format!("> go\n\n✻ Conversation compacted (ctrl+o for history)\n\n● Done.\n\n✻ Worked for 3s\n\n{rating}"),
        "> go\n\n══════════ Conversation compacted · ctrl+o for history ══════════\n\n  ⎿  Read a.txt (3 lines)\n  ⎿  Referenced file b.txt\n\n⏺ Done.".to_string(),
        "> go\n\n⏺ Done.\n\n✻ Conversation compacted (ctrl+o for history)\n  ⎿  Read a.txt".to_string(),
    ] {
        expect(&drawn("go", &rows), "text\n  Done.\ncomplete");
    }
    expect(
        &drawn("go", "> go\n\n● Who asks “How is Claude doing this session?”\n\n✻ Worked for 3s"),
        "text\n  Who asks “How is Claude doing this session?”\ncomplete",
    );
}

#[test]
fn wrapped_rows_of_a_prompt_are_not_the_answer() {
    let rows =
        "> please read all the files and\nthen tell me what\n  they are about\n\n⏺ Done.\n\n✻ Worked for 3s";
    let prompt = "please read all the files and then tell me what they are about";
    for prompt in [prompt, "", "another one"] {
        expect(&drawn(prompt, rows), "text\n  Done.\ncomplete");
    }
}

#[test]
fn permission_to_be_asked_for_is_not_the_answer() {
    let rows = "❯ TOUCH it\n\n● Bash(touch zz)\n  ⎿  Waiting…\n\n\n  Waiting for permission…";
    expect(&drawn("TOUCH it", rows), "tool_call args=touch zz status=waiting tool=Bash\nincomplete");
}

#[test]
fn unknown_command_is_an_error() {
    let rows = "● Unknown command: /frobnicate\n\n● Args from unknown skill: now please";
    expect(&drawn("/frobnicate now please", rows), "error\n  Unknown command: /frobnicate\ncomplete");
    expect(
        &drawn("", rows.lines().next().unwrap_or_default()),
        "text\n  Unknown command: /frobnicate\ncomplete",
    );
}

/// A capture of tmux of Claude Code 2.0.30 with a scripted model at 80×40.
const OLD: &str = include_str!("../fixtures/captures/claude-2.0.30.txt");
const OLD_PROMPT: &str = "please tell me a lot about all of the files in this folder and then about the others, and TOUCH one of them for me";

#[test]
fn capture_of_2_0_is_parsed() {
    let expected = "
        tool_call args=touch zz; ls -la zz tool=Bash
          -rw-r--r-- 1 root root 0 Nov 24 12:22 zz
        text
          You said:
        complete";
    expect(&bare(OLD_PROMPT, OLD), expected);
    expect(&bare("", OLD), expected);
    let lines: Vec<String> = OLD.lines().map(String::from).collect();
    let turns = nerve_agent::parse::conversation::turns(Claude, &lines);
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].prompt.replace('\n', " "), OLD_PROMPT);
    let busy = OLD.replace("● You said:", "✻ Imagining… (esc to interrupt)");
    assert!(!bare(OLD_PROMPT, &busy).is_complete);
}
