//! Recorded sessions of real agents.

use std::path::{Path, PathBuf};

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{Alert, LineIndex, TerminalState};

use crate::{all_lines, terminal_with};

const RECORDINGS: [&str; 5] = [
    "claude/classic-modern",
    "claude/fs-noanswer",
    "codex/inline-none",
    "codex/default-none",
    "gemini/default-modern",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings").join(name)
}

fn raw(name: &str) -> Vec<u8> {
    std::fs::read(fixture(&format!("{name}.raw"))).unwrap()
}

/// Returns a deterministic sequence of pseudo-random lengths.
fn lengths(seed: u64, most: u64) -> impl Iterator<Item = usize> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % most + 1) as usize
    })
}

#[test]
fn chunking_makes_no_difference() {
    for name in RECORDINGS {
        let bytes = raw(name);
        let whole = terminal_with(120, 40, &bytes);
        for (seed, most) in [(1, 1), (2, 17), (3, 4096), (4, 60_000)] {
            let mut split = TerminalState::new(Size::default());
            let mut rest = bytes.as_slice();
            for length in lengths(seed, most) {
                let (chunk, more) = rest.split_at(length.min(rest.len()));
                split.process_data(TsNs(0), chunk);
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            assert_eq!(split.screen(), whole.screen(), "{name} in chunks up to {most}");
            assert_eq!(split.line_count(), whole.line_count());
            for line in whole.first_kept_line().0..whole.line_count() {
                let line = LineIndex(line);
                assert_eq!(split.line_content(line), whole.line_content(line), "{name} {line:?}");
            }
        }
    }
}

#[test]
fn dump_at_any_moment_restores_screen() {
    for name in RECORDINGS {
        let bytes = raw(name);
        let mut original = TerminalState::new(Size::default());
        for (chunk, rest) in (0..).map(|i| i * 9973).take_while(|at| *at < bytes.len()).map(|at| {
            let end = (at + 9973).min(bytes.len());
            (&bytes[at..end], &bytes[end..(end + 5000).min(bytes.len())])
        }) {
            original.process_data(TsNs(0), chunk);
            // A dump holds no partial sequence: complete one before comparing.
            let mut ahead = original.dump();
            ahead.extend_from_slice(b"\x1b[?2026l");
            let mut copy = terminal_with(120, 40, &ahead);
            original.expire_frame(TsNs(u64::MAX));
            assert_eq!(copy.screen().rows, original.screen().rows, "{name} at {}", original.offset());
            assert_eq!(copy.screen().cursor, original.screen().cursor);
            assert_eq!(copy.modes(), original.modes());
            copy.process_data(TsNs(0), rest);
        }
    }
}

#[test]
fn conversation_is_complete() {
    let terminal = terminal_with(120, 40, raw("claude/classic-modern"));
    let lines = all_lines(&terminal);
    for number in 1..=300 {
        let expected = format!(
            "- line {number:03}: lorem ipsum dolor sit amet, consectetur adipiscing elit number {number}"
        );
        assert!(lines.iter().any(|line| line.trim() == expected), "{expected}");
    }
    let unicode = lines.iter().find(|line| line.contains("● Unicode:")).unwrap();
    assert!(
        unicode.contains("日本語テキスト 한국어 العربية עברית 😀👩\u{200d}👩\u{200d}👧\u{200d}👦🇫🇷"),
        "{unicode}"
    );
    assert!(
        lines.iter().any(|line| line == "  Tabs:   a       b       c"),
        "columns hold without spaces in the bytes"
    );
}

/// Returns the rows from the one with `first` to the one with `last`.
fn block(lines: &[String], first: &str, last: &str) -> Vec<String> {
    let start = lines.iter().position(|line| line.contains(first)).unwrap();
    let len = lines[start..].iter().position(|line| line.contains(last)).unwrap() + 1;
    lines[start..start + len].iter().map(|line| line.trim_end().to_string()).collect()
}

#[test]
fn answers_match_another_terminal() {
    let screens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/screens");
    for (recording, screen, first, last) in [
        (
            "claude/classic-modern",
            "claude-classic/08-long-response.hist.txt",
            "Report on the request",
            "END-OF-LONG",
        ),
        (
            "codex/inline-none",
            "codex-inline/08-long-response.hist.txt",
            "Report on the request",
            "END-OF-LONG",
        ),
        ("gemini/default-modern", "gemini/08-long-response.hist.txt", "Report on the request", "END-OF-LONG"),
        ("claude/classic-modern", "claude-classic/08b-huge-response.txt", "line 280:", "END-OF-HUGE"),
        // Starts below the row with the emoji family, of which the other terminal lost a part.
        ("claude/classic-modern", "claude-classic/08c-wide-response.txt", "word word", "END-OF-WIDE"),
        ("gemini/default-modern", "gemini/08c-wide-response.txt", "word word", "END-OF-WIDE"),
    ] {
        let text = std::fs::read_to_string(screens.join(screen)).unwrap();
        let expected: Vec<String> = text.lines().map(str::to_string).collect();
        let actual = all_lines(&terminal_with(120, 40, raw(recording)));
        assert_eq!(block(&actual, first, last), block(&expected, first, last), "{screen}");
    }
}

#[test]
fn titles_match_recorded_ones() {
    for name in RECORDINGS {
        let meta = std::fs::read_to_string(fixture(&format!("{name}.meta.json"))).unwrap();
        let mut terminal = TerminalState::new(Size::default());
        let changes = terminal.process_data(TsNs(0), &raw(name));
        let titles: Vec<String> = changes
            .alerts
            .into_iter()
            .filter_map(|alert| if let Alert::Title(title) = alert { Some(title) } else { None })
            .collect();
        assert!(!titles.is_empty(), "{name}");
        for title in titles {
            assert!(meta.contains(&format!("{title:?}")) || title.is_empty(), "{name}: {title:?}");
        }
    }
}

/// Checks the final screen after a session that ended with `/exit` or ^C.
#[test]
fn recordings_end_with_expected_screen() {
    let claude = terminal_with(120, 40, raw("claude/classic-modern"));
    assert!(!claude.modes().alternate && claude.screen().cursor.visible);
    assert!(claude.tail(60).iter().any(|line| line.contains("/exit")));
    assert!(claude.first_kept_line() < LineIndex(claude.screen().first_line));
    let full = terminal_with(120, 40, raw("claude/fs-noanswer"));
    assert!(!full.modes().alternate && full.modes().mouse.is_none() && full.modes().kitty_keyboard == 0);
}
