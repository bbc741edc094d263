//! Parses a saved terminal output as each agent's: answers, turns, readiness.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_agent::parse::{ParserKind, TurnText, conversation, parser};
use nerve_agent::terminal_text::{binary_reason, rows_of};
use nerve_types::Size;
use nerve_vt::screen::{Cursor, Screen};

const KINDS: [ParserKind; 5] =
    [ParserKind::Claude, ParserKind::Codex, ParserKind::Gemini, ParserKind::Opencode, ParserKind::None];

fuzz_target!(|data: &[u8]| {
    let _ = binary_reason(data);
    let rows = rows_of(data, None, 40);
    let prompt = rows
        .iter()
        .find(|row| row.len() > 2)
        .map_or("", |row| row[..].trim_start_matches(['>', '❯', '›']).trim());
    let cursor = Cursor { col: 2, row: 3, visible: true };
    let screen = Screen::from_text(&rows.join("\n"), Size::new(120, 40), cursor);
    let _ = conversation::guess(&rows);
    for kind in KINDS {
        let _ = parser(kind).is_ready(&screen);
        for prompt in ["", prompt] {
            let _ = parser(kind).parse(&TurnText { prompt, lines: &rows }).text();
        }
        for turn in conversation::turns(kind, &rows) {
            assert!(turn.rows.end <= rows.len() && turn.rows.start <= turn.rows.end);
        }
    }
});
