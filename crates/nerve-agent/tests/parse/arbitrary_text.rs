//! Properties of arbitrary model output: quoted markers stay text, and the parsers never panic.

use nerve_agent::parse::transcript::parse_turn;
use nerve_agent::parse::{ParserKind, SectionKind};
use nerve_types::Size;
use nerve_vt::screen::{Cursor, Screen};
use proptest::prelude::*;

use crate::screens::parse;

const KINDS: [ParserKind; 5] =
    [ParserKind::Claude, ParserKind::Codex, ParserKind::Gemini, ParserKind::Opencode, ParserKind::None];

/// Markers and words that the agents' own rows consist of.
const SIGNS: [&str; 47] = [
    "",
    "plain words",
    "● not a bullet",
    "⏺ Bash(ls)",
    "Bash(ls)",
    "⎿  slept",
    "⎿  Interrupted · What should Claude do instead?",
    "✻ Worked for 3s · done 8:44 PM",
    "✶ Bloviating… (2s · ↓ 83 tokens)",
    "* item",
    "∴ Thinking…",
    "❯ 1. Yes",
    "> quoted",
    "❯",
    "────────────────────────────────────────",
    "esc to interrupt",
    "  ⏸ manual mode on · esc to interrupt",
    "12345 tokens",
    "API Error: 400",
    "[Request interrupted by user]",
    "› go",
    "› 1. Yes, proceed (y)",
    "Press enter to confirm or esc to cancel",
    "• first item",
    "• Working (2s • esc to interrupt)",
    "└ result",
    "■ Conversation interrupted",
    "✗ You canceled it",
    "Worked for <1s • 21:48 and more",
    "Token usage: total=1",
    "✦ star",
    "ℹ Request cancelled.",
    "✕ [API Error: x]",
    "╭────────╮",
    "│ box    │",
    "╰────────╯",
    " ⠋ Thinking... (esc to cancel, 1s)",
    " >   Type your message",
    "    code",
    "日本語テキスト 👩‍👩‍👧",
    "▄▄▄▄▄▄▄▄▄▄▄▄",
    "[Pasted text #1 +29 lines]",
    "┃  $ ls",
    "┃  △ Permission required",
    "╹▀▀▀▀▀▀▀▀▀▀",
    "▣  Build · model · 2s",
    "→ Read notes.txt",
];

fn rows() -> impl Strategy<Value = Vec<String>> {
    let indents = prop_oneof![Just(""), Just(" "), Just("  "), Just("   "), Just("     ")];
    let sign =
        prop_oneof![4 => prop::sample::select(&SIGNS[..]).prop_map(String::from), 1 => any::<String>()];
    prop::collection::vec((indents, sign).prop_map(|(indent, sign)| format!("{indent}{sign}")), 0..40)
}

/// Generates an answer: the first and last rows are plain, the others arbitrary.
fn answer() -> impl Strategy<Value = Vec<&'static str>> {
    let middle = prop::collection::vec(prop::sample::select(&SIGNS[..]), 0..12);
    middle.prop_map(|middle| [&["The answer is this:"], &middle[..], &["that was it."]].concat())
}

/// Draws the answer like the agents: a marker, further rows indented by two.
fn draw(marker: &str, answer: &[&str], above: &str, below: &str) -> Vec<String> {
    let mut rows: Vec<String> = above.lines().map(String::from).collect();
    for (i, row) in answer.iter().enumerate() {
        let start = if i == 0 { marker } else { "  " };
        rows.push(format!("{start}{row}").trim_end().to_string());
    }
    rows.extend(below.lines().map(String::from));
    rows
}

/// Returns the expected text with normalized blanks.
fn expected(answer: &[&str]) -> String {
    answer.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n")
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(rows in rows(), prompt in prop_oneof![Just(String::new()), prop::sample::select(&SIGNS[..]).prop_map(String::from), any::<String>()],
                      row in 0u16..50, col in 0u16..130, visible: bool) {
        for kind in KINDS {
            let parsed = parse(kind, &prompt, &rows);
            prop_assert!(parsed.sections.iter().all(|section| section.kind != SectionKind::Text || !section.content.is_empty()));
            let screen = Screen::from_text(&rows.join("\n"), Size::default(), Cursor { row, col, visible });
            nerve_agent::parse::parser(kind).is_ready(&screen);
        }
        parse_turn(rows.iter().map(String::as_str), &prompt, None);
    }

    #[test]
    fn claude_answers_stay_text(answer in answer()) {
        let rule = "─".repeat(80);
        let below = format!("\n✻ Worked for 3s\n\n{rule}\n❯\n{rule}\n  ⏸ manual mode on · ? for shortcuts");
        let parsed = parse(ParserKind::Claude, "go", &draw("● ", &answer, "❯ go\n\n", &below));
        prop_assert_eq!(parsed.sections.len(), 1, "{:?}", parsed);
        prop_assert_eq!(parsed.text(), expected(&answer));
        prop_assert!(parsed.is_complete && parsed.tokens.is_none());
    }

    #[test]
    fn codex_answers_stay_text(answer in answer()) {
        let below = "\n  Worked for 3s • 21:48\n\n\n› Ask Codex to do anything\n\n  fake-model default · /srv/work";
        let parsed = parse(ParserKind::Codex, "go", &draw("• ", &answer, "› go\n\n", below));
        prop_assert_eq!(parsed.sections.len(), 1, "{:?}", parsed);
        prop_assert_eq!(parsed.text(), expected(&answer));
        prop_assert!(parsed.is_complete);
    }

    #[test]
    fn gemini_answers_stay_text(answer in answer()) {
        let rule = "─".repeat(80);
        let hint = format!("{}? for shortcuts", " ".repeat(60));
        let below = format!("\n{hint}\n{rule}\n Shift+Tab to accept edits\n\n >   Type your message\n\n workspace");
        let parsed = parse(ParserKind::Gemini, "go", &draw("✦ ", &answer, " > go\n\n", &below));
        prop_assert_eq!(parsed.sections.len(), 1, "{:?}", parsed);
        prop_assert_eq!(parsed.text(), expected(&answer));
        prop_assert!(parsed.is_complete);
    }
}
