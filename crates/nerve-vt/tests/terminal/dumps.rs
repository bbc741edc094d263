//! Properties that hold for any output.

use nerve_types::{Size, TsNs};
use nerve_vt::screen::{Screen, Style};
use nerve_vt::terminal::{Alert, LineIndex, TerminalState};
use proptest::prelude::*;

use crate::generate::{orderly_output, output};
use crate::{all_lines, feed, terminal_with};

fn size() -> impl Strategy<Value = Size> {
    (2u16..24, 1u16..12).prop_map(|(cols, rows)| Size::new(cols, rows))
}

/// Returns the part of a screen that a dump restores: all but the stream position. A last column left free for a wide
/// character that has moved since is restored as a blank.
fn essence(terminal: &TerminalState) -> Screen {
    let mut screen = Screen { first_line: 0, offset: 0, ..terminal.screen() };
    for row in &mut screen.rows {
        while row.runs.last().is_some_and(|run| run.style == Style::default()) {
            row.runs.pop();
        }
    }
    screen
}

/// Returns every line with its renditions.
fn contents(terminal: &TerminalState) -> Vec<(String, bool)> {
    let kept = terminal.first_kept_line().0..terminal.line_count();
    kept.map(|line| {
        (terminal.line_content(LineIndex(line)).unwrap(), terminal.is_line_wrapped(LineIndex(line)))
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn dump_restores_screen(size in size(), bytes in orderly_output()) {
        let original = terminal_with(size.cols, size.rows, &bytes);
        let copy = terminal_with(size.cols, size.rows, original.dump());
        prop_assert_eq!(essence(&copy), essence(&original));
    }

    #[test]
    fn output_after_dump_is_equivalent(cols in 3u16..24, rows in 1u16..12, bytes in orderly_output(), more in orderly_output()) {
        let mut original = terminal_with(cols, rows, &bytes);
        // A dump contains neither the last printed character, which REP and combining characters use, nor a pending wrap
        // in a row that has already wrapped.
        let screen = original.screen();
        prop_assume!(screen.cursor.col + 1 < cols || !screen.rows[usize::from(screen.cursor.row)].wrapped);
        let mut copy = terminal_with(cols, rows, original.dump());
        let more = [b".\x1b7", &more[..]].concat();
        feed(&mut original, &more);
        feed(&mut copy, &more);
        prop_assert_eq!(essence(&copy), essence(&original));
    }

    #[test]
    fn output_after_keyframe_is_identical(cols in 2u16..24, rows in 1u16..12, bytes in orderly_output(), more in orderly_output()) {
        let mut original = terminal_with(cols, rows, &bytes);
        let keyframe = original.keyframe(TsNs(0)).unwrap();
        let mut copy = TerminalState::from_keyframe(&keyframe);
        feed(&mut original, &more);
        feed(&mut copy, &more);
        let essence = |terminal: &TerminalState| (terminal.screen().first_line, terminal.offset(), essence(terminal));
        prop_assert_eq!(essence(&copy), essence(&original));
    }

    #[test]
    fn chunking_makes_no_difference(size in size(), bytes in output(), cuts in prop::collection::vec(1usize..9, 1..40)) {
        let mut whole = TerminalState::new(size);
        let whole_changes = feed(&mut whole, &bytes);
        let mut split = TerminalState::new(size);
        let (mut rest, mut replies, mut alerts) = (bytes.as_slice(), Vec::new(), Vec::new());
        for cut in cuts.iter().cycle() {
            let (chunk, more) = rest.split_at((*cut).min(rest.len()));
            let changes = split.process_data(TsNs(0), chunk);
            replies.extend(changes.replies);
            alerts.extend(changes.alerts);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(split.screen(), whole.screen());
        prop_assert_eq!(contents(&split), contents(&whole));
        prop_assert_eq!(replies, whole_changes.replies);
        alerts.dedup_by(|later, first| match (later, first) {
            (Alert::Redraw { line }, Alert::Redraw { line: first }) => {
                *first = (*first).min(*line);
                true
            }
            (later, first) => *later == Alert::Bell && *first == Alert::Bell,
        });
        prop_assert_eq!(alerts, whole_changes.alerts);
        prop_assert_eq!(split.dump(), whole.dump());
    }

    #[test]
    fn never_panics_and_numbers_never_decrease(
        steps in prop::collection::vec((output(), prop::option::of(size())), 0..6),
        first in size(),
    ) {
        let mut terminal = TerminalState::new(first).with_limits(50, 1 << 20);
        let mut top = 0;
        for (bytes, size) in steps {
            let changes = feed(&mut terminal, &bytes);
            let rebuilt = changes.alerts.iter().any(|alert| matches!(alert, Alert::Rebuilt { .. }));
            prop_assert!(!rebuilt, "{changes:?}");
            if let Some(size) = size {
                terminal.resize(size);
            }
            terminal.expire_frame(TsNs(u64::MAX));
            let screen = terminal.screen();
            prop_assert!(screen.first_line >= top);
            top = screen.first_line;
            prop_assert_eq!(screen.rows.len(), usize::from(screen.size.rows));
            prop_assert!(screen.cursor.row < screen.size.rows && screen.cursor.col < screen.size.cols);
            prop_assert!(terminal.first_kept_line().0 <= top && top - terminal.first_kept_line().0 <= 50);
            prop_assert!(terminal.line_count() > top);
            for row in &screen.rows {
                let columns: u16 = row.runs.iter().map(|run| run.len).sum();
                prop_assert!(columns <= screen.size.cols);
            }
            all_lines(&terminal);
            terminal.text(LineIndex(0)..LineIndex(u64::MAX));
            terminal.tail(9);
            let copy = terminal_with(screen.size.cols, screen.size.rows, terminal.dump());
            prop_assert_eq!(copy.title(), terminal.title());
            prop_assert!(feed(&mut terminal, "").alerts.is_empty());
        }
    }

    #[test]
    fn scrolled_off_rows_are_kept_as_shown(size in size(), bytes in orderly_output()) {
        // Leaves the alternate screen, which stores nothing, and resets the margins.
        let mut terminal = terminal_with(size.cols, size.rows, [&bytes[..], b"\x1b[?1049l\x1b[r"].concat());
        let first = terminal.screen().first_line;
        let rows_before: Vec<_> = (first..first + u64::from(size.rows))
            .map(|line| (terminal.line_content(LineIndex(line)), terminal.line_text(LineIndex(line)), terminal.is_line_wrapped(LineIndex(line))))
            .collect();
        feed(&mut terminal, format!("\x1b[{}S", size.rows));
        prop_assert_eq!(terminal.screen().first_line, first + u64::from(size.rows));
        for (line, expected) in (first..).zip(rows_before) {
            let line = LineIndex(line);
            prop_assert_eq!((terminal.line_content(line), terminal.line_text(line), terminal.is_line_wrapped(line)), expected);
        }
    }

    #[test]
    fn readers_see_only_complete_frames(frames in prop::collection::vec(orderly_output(), 1..5), cut in 1usize..40) {
        // Each frame is enclosed in marks. Whatever the chunks, a reader sees one of the complete states.
        let mut complete_states = vec![essence(&terminal_with(12, 5, ""))];
        let mut reference = TerminalState::new(Size::new(12, 5));
        let mut bytes = Vec::new();
        for frame in &frames {
            let frame = [b"\x1b[?2026h", &frame[..], b"\x1b[?2026l"].concat();
            feed(&mut reference, &frame);
            complete_states.push(essence(&reference));
            bytes.extend_from_slice(&frame);
        }
        let mut terminal = TerminalState::new(Size::new(12, 5));
        for chunk in bytes.chunks(cut) {
            feed(&mut terminal, chunk);
            // RIS ends its frame; output after it is outside of any frame.
            if bytes.windows(2).any(|pair| pair == b"\x1bc") {
                continue;
            }
            prop_assert!(complete_states.contains(&essence(&terminal)));
        }
    }
}

/// An emoji selector widens a narrow character that stands first in a row, below a column left free for another wide
/// character. In a dump the narrow character would fit into that column.
#[test]
fn dump_keeps_widened_character_in_its_row() {
    let mut original = terminal_with(5, 2, "abcd日本\x1b[4h\x1b[4D❤\u{fe0f}");
    let mut copy = terminal_with(5, 2, original.dump());
    assert_eq!(essence(&copy), essence(&original));
    feed(&mut original, ".");
    feed(&mut copy, ".");
    assert_eq!(essence(&copy), essence(&original));
}

#[test]
fn digit_after_joiner_is_separate_in_any_charset() {
    let text = "\u{1F469}\u{200d}0";
    let plain = terminal_with(5, 1, text);
    let graphics = terminal_with(5, 1, format!("\x1b(0{text}"));
    assert_eq!(graphics.screen(), Screen { offset: graphics.offset(), ..plain.screen() });
}
