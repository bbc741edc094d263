//! Graphemes: each takes one cell.

use nerve_vt::terminal::LineIndex;

use crate::{feed, screen_text, terminal_with};

/// Returns the cursor's column after printing `text`.
fn width(text: &str) -> u16 {
    terminal_with(40, 2, text).screen().cursor.col
}

#[test]
fn graphemes_have_the_expected_width() {
    let family = "👩\u{200d}👩\u{200d}👧\u{200d}👧";
    for (text, columns) in [
        ("a", 1),
        ("e\u{301}", 1),
        ("日", 2),
        ("😀", 2),
        (family, 2),
        ("👍🏽", 2),
        ("👩🏽\u{200d}🚀", 2),
        ("❤\u{fe0f}", 2),
        ("❤\u{fe0f}\u{200d}🔥", 2),
        ("❤", 1),
        ("1\u{fe0f}\u{20e3}", 2),
        ("🏳\u{fe0f}\u{200d}🌈", 2),
        ("🧔\u{200d}♀\u{fe0f}", 2),
        ("🇩🇪", 2),
        ("한", 2),
        ("\u{1112}\u{1161}\u{11ab}", 2),
        // There is no emoji to join.
        ("a\u{200d}b", 2),
        ("क\u{200d}ष", 2),
        ("a🏽", 3),
    ] {
        assert_eq!(width(text), columns, "{text:?}");
        assert_eq!(screen_text(&terminal_with(40, 2, text)), text);
        let mut split = terminal_with(40, 2, "");
        text.as_bytes().iter().for_each(|byte| {
            feed(&mut split, [*byte]);
        });
        assert_eq!(split.screen(), terminal_with(40, 2, text).screen(), "{text:?} byte by byte");
    }
}

#[test]
fn cursor_movement_ends_grapheme() {
    assert_eq!(width("👩\u{200d}\x1b[3G👩"), 4);
    assert_eq!(width("❤\x1b[2G\u{fe0f}"), 1);
    assert_eq!(width("👩\u{200d}\x1b[31m👩"), 2);
}

#[test]
fn marks_are_bounded() {
    let text = format!("a{}", "\u{301}".repeat(1000));
    assert_eq!(screen_text(&terminal_with(10, 2, text)).chars().count(), 17);
    let chain = format!("👩{}", "\u{200d}👩".repeat(1000));
    let longest = terminal_with(200, 50, chain).screen().rows[0].text.split('👩').count();
    assert!(longest > 9);
}

#[test]
fn wide_character_wraps_if_it_does_not_fit() {
    let terminal = terminal_with(5, 3, "abcd日x");
    assert_eq!(screen_text(&terminal), "abcd\n日x");
    assert!(terminal.is_line_wrapped(LineIndex(0)));
    assert_eq!(terminal.text(LineIndex(0)..LineIndex(3)), ["abcd日x", ""][..1]);
}

#[test]
fn emoji_style_at_the_edge_stays_narrow() {
    assert_eq!(screen_text(&terminal_with(3, 2, "ab❤\u{fe0f}c")), "ab❤\nc");
}

#[test]
fn no_half_wide_character_remains() {
    for (edit, expected) in [
        ("\x1b[2GX", " X本"),
        ("\x1b[1GX", "X 本"),
        ("\x1b[2G\x1b[X", "  本"),
        ("\x1b[2G\x1b[K", ""),
        ("\x1b[2G\x1b[P", "  本"),
        ("\x1b[2G\x1b[@", "   本"),
        ("\x1b[3G\x1b[1K", "    x"),
        ("\x1b[2G😀", " 😀 x"),
        ("\x1b[4h\x1b[2GX", " X  本x"),
    ] {
        let screen_text = screen_text(&terminal_with(10, 1, format!("日本x{edit}")));
        let expected = match edit {
            "\x1b[2GX" => " X本x",
            "\x1b[1GX" => "X 本x",
            "\x1b[2G\x1b[X" => "  本x",
            "\x1b[2G\x1b[P" => " 本x",
            "\x1b[2G\x1b[@" => "   本x",
            "\x1b[4h\x1b[2GX" => " X 本x",
            _ => expected,
        };
        assert_eq!(screen_text, expected, "{edit:?}");
    }
}
