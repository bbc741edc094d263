//! Texts split into turns: saved screens and scrollbacks of real agents, and hand-made ones for other cases.

use std::fmt::Write as _;

use nerve_agent::parse::ParserKind::{self, Claude, Codex, Gemini};
use nerve_agent::parse::conversation::{guess, turns};

use crate::screens::{all, expect_text, lines};

/// Formats one row per turn: prompt, kinds of sections, the beginning of the text.
fn shown(kind: ParserKind, lines: &[String]) -> String {
    let mut shown = String::new();
    for turn in turns(kind, lines) {
        let kinds: Vec<&str> = turn.parsed.sections.iter().map(|section| section.kind.as_str()).collect();
        let end = if turn.parsed.is_complete { "" } else { " …" };
        let text: String = turn.parsed.text().replace('\n', "/").chars().take(24).collect();
        let line = format!("{:?} {}{end}: {text}", turn.prompt, kinds.join("+"));
        let _ = writeln!(shown, "{}", line.trim_end());
    }
    shown
}

fn rows(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

const SCREENS: [(&str, ParserKind); 6] = [
    ("claude-classic", Claude),
    ("claude-fullscreen", Claude),
    ("codex-inline", Codex),
    ("codex-fullscreen", Codex),
    ("gemini", Gemini),
    ("gemini-colour", Gemini),
];

#[test]
fn claude_screen_with_partial_answer_and_four_turns() {
    expect_text(
        &shown(Claude, &lines("claude-classic", "28c-api-error-400")),
        r#"
        "" text+text: second via C-j//You said
        "esc-cr first\nsecond via ESC CR" text: You said: esc-cr first/s
        "bs first\nsecond via backslash" text: You said: bs first/secon
        "THINK about it" thinking+text: You said: THINK about it
        "ERR 400 now" error:
        "#,
    );
}

#[test]
fn codex_scrollback_with_stale_composers() {
    expect_text(
        &shown(Codex, &lines("codex-inline", "08-long-response.hist")),
        r#"
        "hello there" text: You said: hello there
        "Please answer SLOW number one" text: You said: Please answer
        "STALL 6 please" text: You said: STALL 6 please
        "LONG answer please" text: # Report on the request/
        "#,
    );
}

#[test]
fn gemini_scrollback_below_banner() {
    expect_text(
        &shown(Gemini, &lines("gemini", "08-long-response.hist")),
        r#"
        "hello there" text: You said:/hello there
        "Please answer SLOW number one" text: You said: Please answer
        "STALL 6 please" text: You said: STALL 6 please
        "LONG answer please" text: Report on the request//T
        "#,
    );
}

#[test]
fn tools_and_dialogs_belong_to_their_turn() {
    expect_text(
        &shown(Claude, &lines("claude-fullscreen", "12-permission-bash")),
        r#"
        "" text: └───────┴───────┴───────
        "SLOW answer please" text: You said: SLOW answer pl
        "TOUCHTOOL please" text+tool_call …: I will run a command.
        "#,
    );
}

#[test]
fn unanswered_prompt_is_a_turn_only_at_the_end() {
    let waiting = shown(Claude, &lines("claude-classic", "27b-thinking"));
    assert_eq!(waiting.lines().last(), Some(r#""THINK about it"  …:"#));
    let text = "❯ given up\n\n❯ hello\n\n● hi\n\n✻ Baked for 1s\n";
    expect_text(&shown(Claude, &rows(text)), r#""hello" text: hi"#);
}

#[test]
fn start_screen_has_no_turns() {
    for (agent, kind) in SCREENS {
        assert_eq!(shown(kind, &lines(agent, "02-startup-ready")), "", "{agent}");
    }
    for kind in [Claude, Codex, Gemini, ParserKind::None] {
        assert!(turns(kind, &[]).is_empty());
        assert!(turns(kind, &rows("\n\n")).is_empty());
    }
}

#[test]
fn answer_alone_is_a_turn_without_prompt() {
    expect_text(&shown(Claude, &rows("● It is 42.\n  Really.")), r#""" text …: It is 42./Really."#);
    expect_text(&shown(Gemini, &rows("✦ It is 42.")), r#""" text …: It is 42."#);
    // No marker occurs in the middle of an answer.
    let middle = shown(Gemini, &lines("gemini", "08-long-response"));
    assert!(middle.starts_with("\"\" text"), "{middle}");
}

#[test]
fn long_prompt_ends_at_its_answer() {
    let text =
        "❯ Look at this:\n\n  - one\n    two\n\n  and say\n\n  Read 1 file (ctrl+o to expand)\n\n● Done.\n";
    let found = turns(Claude, &rows(text));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].prompt, "Look at this:\n\n- one\n  two\n\nand say");
    assert_eq!(found[0].parsed.text(), "Done.");
    assert_eq!(found[0].parsed.sections.len(), 2);
}

#[test]
fn same_prompt_in_composer_hides_no_answer() {
    let rule = "─".repeat(60);
    let text =
        format!("❯ again\n\n● Once.\n\n✻ Baked for 1s\n\n{rule}\n❯ again\n{rule}\n  ? for shortcuts\n");
    expect_text(&shown(Claude, &rows(&text)), r#""again" text: Once."#);
}

#[test]
fn unstructured_text_is_one_turn() {
    expect_text(&shown(ParserKind::None, &rows("$ ls\na\nb\n")), r#""" text: $ ls/a/b"#);
}

#[test]
fn turns_of_any_screen_are_contiguous() {
    for (agent, _) in SCREENS {
        for (state, screen) in all(agent) {
            let lines: Vec<String> = screen.rows.iter().map(|row| row.text.clone()).collect();
            for kind in [Claude, Codex, Gemini, ParserKind::None] {
                let mut end = 0;
                for turn in turns(kind, &lines) {
                    assert!(end <= turn.rows.start && turn.rows.start < turn.rows.end, "{agent} {state}");
                    end = turn.rows.end;
                }
                assert!(end <= lines.len(), "{agent} {state}");
            }
        }
    }
}

#[test]
fn agent_is_guessed_from_text() {
    // A piece of a dialog, the middle of a paste, or a program that has exited: the agent is unknown.
    let unknown = [
        ("claude-fullscreen", "30-after-exit"),
        ("gemini", "08d-loop-detected-dialog"),
        ("gemini", "23-paste3000chars-before-enter"),
        ("gemini", "26-esc-cr-newline"),
        ("gemini", "30-after-exit"),
    ];
    for (agent, kind) in SCREENS {
        for (state, _) in all(agent) {
            let guessed = guess(&lines(agent, &state));
            let expected = (!unknown.contains(&(agent, state.as_str()))).then_some(kind);
            assert_eq!(guessed, expected, "{agent} {state}");
        }
    }
    for (text, expected) in [
        ("", None),
        ("$ ls\n* one\n• two\n> quoted\n", None),
        ("● It is 42.", Some(Claude)),
        ("› hello\n\n\n• hi\n", Some(Codex)),
        ("✦ It is 42.", Some(Gemini)),
    ] {
        assert_eq!(guess(&rows(text)), expected, "{text}");
    }
}

#[test]
fn prompt_wrapped_by_the_terminal_is_one_prompt() {
    let text = "> please read all the files and\nthen tell me what\n  they are about\n\n⏺ Done.\n\n> next\n\n⏺ Yes.\n";
    expect_text(
        &shown(Claude, &rows(text)),
        r#"
        "please read all the files and\nthen tell me what\nthey are about" text: Done.
        "next" text …: Yes.
        "#,
    );
}
