//! Hostile output: the terminal stays consistent, replies, and finishes in time.

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{Alert, TerminalState};

use crate::{all_lines, feed, replies, screen_text, terminal_with};

/// Cells touched by a slice of output, at most.
const SLICE_WORK: u64 = 64 << 20;

/// Each flood takes well under a second if the work is bounded, and minutes if it is not.
#[test]
fn floods_are_bounded() {
    let floods = [
        "\x1b[65535S".repeat(2000),
        "\x1b[65535T\x1b[65535L\x1b[65535M".repeat(2000),
        "\x1b[2J".repeat(5000),
        "x\x1b[65535b".repeat(200),
        "\x1bc".repeat(5000),
        "\x1b[?2026h\x1b[?2026;1l".repeat(3000),
        "\x1b[?1049h\x1b[?1049l".repeat(1000),
        "\x1b[65535I\x1b[65535Z".repeat(1000),
        "\x1b[65535@\x1b[65535P\x1b[65535X".repeat(5000),
        "\x1b[6n\x1b[c\x1b]11;?\x07".repeat(20_000),
        "\x1b7\x1b8".repeat(20_000),
        "\x1b[".repeat(100_000),
        "\x1b[1;".to_string() + &"1;".repeat(200_000) + "m",
        "\x1b[".to_string() + &"9".repeat(500_000) + "C",
        "\x1b]8;id=x;http://y\x07a\x1b]8;;\x07".repeat(5000),
        "e".to_string() + &"\u{301}".repeat(200_000),
        "\u{1f468}\u{200d}".repeat(50_000),
        "\u{fe0f}\u{200d}\u{1f3fd}".repeat(50_000),
        "\x1b[38;2;1;2;3m\x1b[48;5;9mx".repeat(20_000),
        "\x1b]4;1;#ffffff\x07".repeat(20_000),
        "\x1bP+q".to_string() + &"41".repeat(500_000) + "\x1b\\",
    ];
    for flood in &floods {
        let mut terminal = TerminalState::new(Size::default()).with_limits(10_000, 8 << 20);
        let changes = feed(&mut terminal, flood);
        let name: String = flood.chars().take(30).collect();
        assert!(!changes.alerts.iter().any(|alert| matches!(alert, Alert::Rebuilt { .. })), "{name:?}");
        feed(&mut terminal, "\x1b\\\x1b[?1049l\x1bcalive");
        assert_eq!(terminal.screen().text(), "alive", "{name:?}");
    }
}

/// Work is counted in cells, so this holds on any machine.
#[test]
fn work_of_output_is_bounded() {
    let floods = [
        "a\x1b[65535b",
        "\x1b[4ha\x1b[65535b",
        "\x1b[?7la\x1b[65535b",
        "日\x1b[65535b",
        "\x1b[4h日\x1b[65535b",
        "日\ra\x1b[65535b\x1b[H",
        "\x1b#8\x1b[2J",
        "\x1b[41m\x1b[2J\x1b[42m\x1b[2J",
        "x\x1b[65535S\x1b[65535T",
        "x\x1b[65535L\x1b[65535M",
        "\x1b[65535@\x1b[65535P\x1b[65535X",
        "\x1b[?47h\x1b[?47l",
        "\x1b[?1049hx\x1b[?1049l",
        "\x1b[?1049h\x1b#8\x1bc",
        "\x1b[?2026h\x1b[?2026;1l",
        "\n",
    ];
    for size in [Size::default(), Size::new(300, 1), Size::new(2, 300), Size::MAX] {
        for flood in floods {
            let mut terminal = TerminalState::new(size).with_limits(1000, 1 << 20);
            let len = terminal.slice_len();
            let slice: Vec<u8> = flood.bytes().cycle().take(len).collect();
            feed(&mut terminal, &slice);
            assert!(terminal.work() <= SLICE_WORK, "{size:?} {flood:?}: {} in {len} bytes", terminal.work());
        }
    }
}

#[test]
fn toggling_alternate_screen_costs_rows_not_cells() {
    let mut terminal = TerminalState::new(Size::default());
    feed(&mut terminal, "\x1b[?1049h\x1b[?1049l".repeat(1000));
    let most = Size::default().cells() + 1000 * usize::from(Size::default().rows);
    assert!(terminal.work() <= most as u64, "{}", terminal.work());
    // A screen that is entered again is blank.
    feed(&mut terminal, "main\x1b[?1049h\x1b[31;44mold\x1b#8\x1b7\x1b[?1049l\x1b[?1049h");
    assert_eq!(screen_text(&terminal), "");
    assert_eq!(terminal.screen().rows, TerminalState::new(Size::default()).screen().rows);
    feed(&mut terminal, "\x1b8x\x1b[?1049l");
    assert_eq!(screen_text(&terminal), "main");
}

#[test]
fn repeated_characters_equal_printed_ones() {
    let setups = [
        "",
        "日本語日本語\r",
        "日本語\r ",
        "\x1b[4hend\r",
        "\x1b[?7l",
        "\x1b(0",
        "\x1b[31;44m",
        "\x1b[2;3r\x1b[2H",
    ];
    for setup in setups {
        for (c, count) in [('q', 1), ('q', 7), ('q', 23), ('é', 4), ('日', 3)] {
            // In insert mode, at most one row is repeated.
            if setup.contains("[4h") && count > 10 {
                continue;
            }
            let repeated = format!("{setup}{c}\x1b[{count}b!");
            let printed = format!("{setup}{}!", c.to_string().repeat(count + 1));
            let (repeated, printed) = (terminal_with(10, 4, repeated), terminal_with(10, 4, printed));
            assert_eq!(repeated.screen().rows, printed.screen().rows, "{setup:?} {c} {count}");
            assert_eq!(repeated.cursor(), printed.cursor(), "{setup:?} {c} {count}");
            assert_eq!(all_lines(&repeated), all_lines(&printed), "{setup:?} {c} {count}");
        }
    }
}

#[test]
fn smallest_terminals_accept_all_output() {
    let everything: Vec<u8> = (0..=255)
        .flat_map(|last| [b"\x1b[3;1", &[last][..], "日\u{301}❤\u{fe0f}x".as_bytes()].concat())
        .collect();
    for (cols, rows) in [(2, 1), (3, 1), (2, 2), (Size::MAX.cols, 1), (2, Size::MAX.rows)] {
        let mut terminal = TerminalState::new(Size::new(cols, rows));
        let changes = feed(&mut terminal, &everything);
        assert!(
            !changes.alerts.iter().any(|alert| matches!(alert, Alert::Rebuilt { .. })),
            "{cols} × {rows}"
        );
        for size in [Size::new(2, 1), Size::new(80, 24), Size::new(cols, rows)] {
            terminal.resize(size);
            assert_eq!(terminal.screen().rows.len(), usize::from(size.rows));
        }
        assert_eq!(feed(&mut terminal, "").alerts, []);
    }
}

#[test]
fn cancel_after_ignored_sequence_keeps_next_one() {
    assert_eq!(screen_text(&terminal_with(10, 2, "\x1b[ 0 A0\x18\x1b[Cx")), "0 x");
}

/// The engine's parser does not report the end of a sequence that it ignores, here `CSI 1 ? m`.
#[test]
fn text_after_ignored_sequence_is_complete() {
    let (x249, x250) = ("x".repeat(249), "x".repeat(250));
    for (text, shown) in [
        (format!("{x250}п р").as_bytes(), format!("{x250}п р")),
        (format!("\x18{x249}п").as_bytes(), format!("{x249}п")),
        (format!("\x1a{x250}п р").as_bytes(), format!("{x250}п р")),
        (b"\x18a\xd0\x1b[31mb", "a\u{fffd}b".to_string()),
        (b"a\xd0\x1b[31mb", "a\u{fffd}b".to_string()),
    ] {
        assert_eq!(screen_text(&terminal_with(300, 2, [b"\x1b[1?m", text].concat())), shown);
        assert_eq!(screen_text(&terminal_with(300, 2, [b"\x1b[1?\x18", text].concat())), shown);
    }
}

/// 0x9c, a control in 8-bit encodings, is the last byte of this quotation mark.
#[test]
fn characters_do_not_end_strings() {
    for kind in ['P', 'X', '^', '_', ']'] {
        let output = format!("a\x1b{kind}q\u{201c}b\x1b[31m\x1b{kind}q\u{201c}c\x1b\\d");
        assert_eq!(screen_text(&terminal_with(20, 2, output)), "ad", "{kind}");
    }
}

#[test]
fn invalid_utf8_is_shown_and_loses_nothing() {
    for bytes in [
        &b"a\xffb"[..],
        b"a\xc3b",
        b"a\xe2\x82b",
        b"a\xf0\x9f\x98b",
        b"a\xc0\x80b",
        b"a\xed\xa0\x80b",
        b"a\xe2\x1b[mb",
        b"a\xc3\nb",
    ] {
        let mut whole = TerminalState::new(Size::new(20, 3));
        feed(&mut whole, bytes);
        let text = whole.screen().text();
        assert!(text.starts_with('a') && text.ends_with('b'), "{bytes:?} {text:?}");
        let mut split = TerminalState::new(Size::new(20, 3));
        bytes.iter().for_each(|byte| {
            split.process_data(TsNs(0), &[*byte]);
        });
        assert_eq!(split.screen(), whole.screen(), "{bytes:?}");
    }
    // Text after an incomplete character in the same read is not lost (vte 0.15 alone loses it).
    let mut terminal = TerminalState::new(Size::new(20, 3));
    feed(&mut terminal, b"\xc2");
    feed(&mut terminal, b"\xae0\xe0\xac\xbc!");
    assert!(terminal.screen().text().starts_with("®0"));
    assert_eq!(replies("\x1b[5n"), "\x1b[0n");
}
