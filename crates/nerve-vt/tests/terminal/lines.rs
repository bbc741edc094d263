//! Absolute line numbers, stored lines and snapshots.

use nerve_types::{Size, TsNs};
use nerve_vt::terminal::{Alert, LineIndex, Snapshot, TerminalState};

use proptest::prelude::*;

use crate::{all_lines, feed, screen_text, terminal_with};

fn numbered(rows: std::ops::Range<u32>) -> String {
    rows.map(|row| format!("line {row}\r\n")).collect()
}

#[test]
fn rows_keep_their_number_when_they_scroll_off() {
    let terminal = terminal_with(20, 5, numbered(0..100));
    assert_eq!(terminal.screen().first_line, 96);
    assert_eq!(terminal.cursor_line(), LineIndex(100));
    assert_eq!(terminal.line_count(), 101);
    for line in 0..100 {
        assert_eq!(terminal.line_text(LineIndex(line)), Some(format!("line {line}")));
    }
    assert_eq!(terminal.line_text(LineIndex(100)).as_deref(), Some(""));
    assert_eq!(terminal.line_text(LineIndex(101)), None);
    assert_eq!(terminal.line_text(LineIndex(u64::MAX)), None);
}

#[test]
fn row_text_up_to_column() {
    let mut terminal =
        terminal_with(20, 5, "日本語$ \r\ne\u{301}a\u{1f44d}\u{1f3fd}b\u{2764}\u{fe0f}c  d\r\n");
    for stored in [false, true] {
        let to = |line, col| terminal.line_text_to(LineIndex(line), col);
        assert_eq!(to(0, 6).as_deref(), Some("日本語"), "{stored}");
        assert_eq!(to(0, 0).as_deref(), Some(""));
        assert_eq!(to(0, u16::MAX).as_deref(), Some("日本語$"));
        let marks = ["", "e\u{301}", "e\u{301}a", "e\u{301}a\u{1f44d}\u{1f3fd}"];
        assert_eq!([0, 1, 2, 4].map(|col| to(1, col).expect("kept")), marks);
        assert_eq!(to(1, 5).as_deref(), Some("e\u{301}a\u{1f44d}\u{1f3fd}b"));
        assert_eq!(to(1, 9).as_deref(), Some("e\u{301}a\u{1f44d}\u{1f3fd}b\u{2764}\u{fe0f}c "));
        assert_eq!(to(99, 3), None);
        feed(&mut terminal, numbered(0..20));
    }
}

#[test]
fn scroll_up_stores_rows() {
    let mut terminal = terminal_with(20, 5, numbered(0..3));
    feed(&mut terminal, "\x1b[2S");
    assert_eq!((terminal.screen().first_line, screen_text(&terminal).as_str()), (2, "line 2"));
    assert_eq!(all_lines(&terminal)[..3], ["line 0", "line 1", "line 2"]);
    // A large count in few bytes is clamped to the screen.
    feed(&mut terminal, "\x1b[99S".repeat(100));
    assert_eq!(terminal.screen().first_line, 502);
    assert_eq!(terminal.line_text(LineIndex(2)).as_deref(), Some("line 2"));
}

#[test]
fn cleared_screen_is_stored() {
    let mut terminal = terminal_with(20, 5, "one\r\ntwo\x1b[2J");
    assert_eq!(terminal.screen().first_line, 2);
    assert_eq!(terminal.cursor_line(), LineIndex(3));
    feed(&mut terminal, "\x1b[Hthree");
    assert_eq!(all_lines(&terminal), ["one", "two", "three"]);
    feed(&mut terminal, "\x1b[2J\x1b[2J\x1b[2J");
    assert_eq!(terminal.screen().first_line, 3);
}

#[test]
fn erased_scrollback_keeps_numbering() {
    let mut terminal = terminal_with(20, 5, numbered(0..50));
    assert_eq!(feed(&mut terminal, "\x1b[3J").alerts, [Alert::ScrollbackErased]);
    assert_eq!(terminal.first_kept_line(), LineIndex(46));
    assert_eq!(terminal.line_text(LineIndex(45)), None);
    feed(&mut terminal, numbered(50..60));
    assert_eq!(terminal.line_text(LineIndex(55)).as_deref(), Some("line 55"));
    terminal.clear_scrollback();
    assert_eq!(terminal.first_kept_line().0, terminal.screen().first_line);
    feed(&mut terminal, "\x1bc");
    assert_eq!(terminal.first_kept_line(), LineIndex(60));
    assert_eq!(screen_text(&terminal), "");
}

#[test]
fn only_region_at_top_stores_rows() {
    let terminal = terminal_with(20, 5, format!("{}\x1b[1;3r\x1b[3;1H\r\n\r\n", numbered(0..4)));
    assert_eq!(terminal.screen().first_line, 2);
    assert_eq!(all_lines(&terminal)[..2], ["line 0", "line 1"]);
    let terminal = terminal_with(20, 5, format!("{}\x1b[2;3r\x1b[3;1H\r\n\r\n", numbered(0..4)));
    assert_eq!(terminal.screen().first_line, 0);
    let terminal = terminal_with(20, 5, format!("{}\x1b[H\x1b[2M", numbered(0..4)));
    assert_eq!((terminal.screen().first_line, screen_text(&terminal).as_str()), (0, "line 2\nline 3"));
}

#[test]
fn wrapped_rows_are_joined() {
    let long = "word ".repeat(10);
    let terminal = terminal_with(20, 3, format!("{long}\r\nshort\r\n\r\nend"));
    assert_eq!(terminal.text(LineIndex(0)..LineIndex(99)), [long.trim_end(), "short", "", "end"]);
    assert_eq!(terminal.text(LineIndex(1)..LineIndex(2)), ["word word word word"]);
    assert!(terminal.is_line_wrapped(LineIndex(0)) && !terminal.is_line_wrapped(LineIndex(3)));
    assert_eq!(terminal.tail(2), ["", "end"]);
    assert_eq!(terminal.tail(4), ["word word", "short", "", "end"]);
    assert_eq!(terminal.tail(0), [""; 0]);
}

#[test]
fn one_row_terminal_joins_wrapped_text() {
    let terminal = terminal_with(5, 1, "0123456789ab日cdef\r\nx");
    assert_eq!(terminal.text(LineIndex(0)..LineIndex(99)), ["0123456789ab日cdef", "x"]);
    let terminal = terminal_with(5, 1, "0123日45\r\nx");
    assert_eq!(terminal.text(LineIndex(0)..LineIndex(99)), ["0123日45", "x"]);
}

#[test]
fn tail_of_alternate_screen_is_visible_rows() {
    let terminal = terminal_with(20, 5, format!("{}\x1b[?1049h\x1b[Ha\r\nb", numbered(0..50)));
    assert_eq!(terminal.tail(10), ["a", "b"]);
    assert_eq!(terminal.tail(1), ["b"]);
    assert_eq!(terminal.line_text(LineIndex(49)).as_deref(), Some("line 49"));
    assert_eq!(terminal.line_count(), 51);
}

#[test]
fn limits_are_kept() {
    let mut terminal = TerminalState::new(Size::new(20, 5)).with_limits(100, 1 << 30);
    feed(&mut terminal, numbered(0..10_000));
    assert_eq!(terminal.first_kept_line().0, terminal.screen().first_line - 100);
    let first = terminal.first_kept_line();
    assert_eq!(terminal.line_text(first), Some(format!("line {}", first.0)));
    assert_eq!(terminal.text(LineIndex(0)..LineIndex(u64::MAX)).len(), 105);
    let mut terminal = TerminalState::new(Size::new(100, 5)).with_limits(u64::MAX, 1 << 20);
    feed(&mut terminal, "x".repeat(10 << 20));
    assert!(terminal.memory() < (1 << 20) + (128 << 10), "{}", terminal.memory());
}

#[test]
fn narrower_screen_stores_excess_rows() {
    let mut terminal = terminal_with(20, 4, "0123456789abcdefghij\r\nsecond\r\nthird\r\n$ ");
    terminal.resize(Size::new(10, 4));
    assert_eq!(all_lines(&terminal), ["0123456789", "abcdefghij", "second", "third", "$"]);
    assert_eq!(terminal.screen().first_line, 1);
    assert_eq!(terminal.cursor_line(), LineIndex(4));
    terminal.resize(Size::new(10, 2));
    assert_eq!(terminal.screen().first_line, 3);
    terminal.resize(Size::new(10, 6));
    assert_eq!((terminal.screen().first_line, screen_text(&terminal).as_str()), (3, "third\n$"));
    feed(&mut terminal, "go");
    assert_eq!(all_lines(&terminal), ["0123456789", "abcdefghij", "second", "third", "$ go"]);
}

#[test]
fn wider_screen_unwraps_rows() {
    let mut terminal = terminal_with(10, 4, "0123456789abcdefghij\r\n$ ");
    terminal.resize(Size::new(40, 4));
    assert_eq!(screen_text(&terminal), "0123456789abcdefghij\n$");
    assert_eq!(terminal.screen().size, Size::new(40, 4));
}

#[test]
fn sizes_are_clamped() {
    let mut terminal = TerminalState::new(Size { cols: 0, rows: 0 });
    assert_eq!(terminal.size(), Size::new(2, 1));
    feed(&mut terminal, "日本語abc\r\n");
    terminal.resize(Size { cols: 1, rows: 0 });
    terminal.resize(Size { cols: u16::MAX, rows: 1 });
    assert_eq!(terminal.size(), Size::new(Size::MAX.cols, 1));
}

#[test]
fn snapshots_are_found_by_line() {
    let snapshot = |id| Snapshot { id, at: TsNs(id), ..Snapshot::default() };
    let mut terminal = terminal_with(20, 5, numbered(0..10));
    terminal.record_snapshot(snapshot(1));
    feed(&mut terminal, numbered(10..20));
    terminal.record_snapshot(snapshot(2));
    terminal.record_snapshot(snapshot(3));
    // Taken on a higher line: the snapshots stay sorted.
    feed(&mut terminal, "\x1b[3A");
    terminal.record_snapshot(snapshot(4));
    let id = |found: Option<(LineIndex, &Snapshot)>| found.map(|(line, snapshot)| (line.0, snapshot.id));
    assert!(terminal.has_snapshot_at_line(LineIndex(10)) && !terminal.has_snapshot_at_line(LineIndex(11)));
    assert_eq!(terminal.get_snapshot_for_line(LineIndex(20)).map(|snapshot| snapshot.id), Some(3));
    assert_eq!(terminal.get_snapshot_for_line(LineIndex(17)).map(|snapshot| snapshot.id), Some(4));
    assert_eq!(id(terminal.last_snapshot_before_line(LineIndex(20))), Some((17, 4)));
    assert_eq!(id(terminal.last_snapshot_before_line(LineIndex(10))), None);
    assert_eq!(id(terminal.next_snapshot_after_line(LineIndex(10))), Some((17, 4)));
    assert_eq!(id(terminal.next_snapshot_after_line(LineIndex(17))), Some((20, 2)));
    assert_eq!(id(terminal.next_snapshot_after_line(LineIndex(20))), None);
}

/// Creates lines of one repeated letter each, with a snapshot at each line's end whose id is the letter.
fn lettered(size: Size, lengths: &[usize]) -> TerminalState {
    let mut terminal = TerminalState::new(size);
    for (letter, length) in ('a'..='z').zip(lengths) {
        feed(&mut terminal, letter.to_string().repeat(*length));
        terminal.record_snapshot(Snapshot { id: letter.into(), ..Snapshot::default() });
        feed(&mut terminal, "\r\n");
    }
    terminal
}

fn check_letters(terminal: &TerminalState) {
    for (line, snapshot) in terminal.snapshots_by_line() {
        let letter = char::from_u32(snapshot.id as u32).expect("an id is a letter");
        let text = terminal.line_text(line).expect("kept");
        let is_its = !text.is_empty() && text.chars().all(|other| other == letter);
        assert!(is_its, "'{letter}' at {line:?}, which is {text:?}");
        let end = !terminal.is_line_wrapped(line) || usize::from(snapshot.col) + 1 == text.len();
        assert!(end, "'{letter}' is not at its end: {:?}", snapshot.col);
    }
}

#[test]
fn snapshots_stay_with_rewrapped_text() {
    let lengths = [300, 5, 159, 161, 1, 640, 80, 7];
    let mut terminal = lettered(Size::new(160, 40), &lengths);
    for (cols, rows) in [(80, 40), (160, 40)] {
        terminal.resize(Size::new(cols, rows));
        check_letters(&terminal);
    }
    let line = terminal.line_of_snapshot('f'.into()).expect("taken");
    assert!(terminal.has_snapshot_at_line(line) && terminal.line_text(line).expect("kept").starts_with('f'));
    // Also under an alternate screen.
    feed(&mut terminal, "\x1b[?1049h");
    terminal.resize(Size::new(80, 40));
    check_letters(&terminal);
}

proptest! {
    #[test]
    fn snapshots_stay_with_text_across_any_sizes(
        lengths in prop::collection::vec(1..90usize, 1..20),
        sizes in prop::collection::vec((2..60u16, 1..20u16), 1..6),
    ) {
        let mut terminal = lettered(Size::new(40, 12), &lengths);
        for (cols, rows) in sizes {
            terminal.resize(Size::new(cols, rows));
            check_letters(&terminal);
        }
    }
}

#[test]
fn snapshots_of_a_line_keep_their_columns() {
    let snapshot = |id| Snapshot { id, at: TsNs(100 - id), ..Snapshot::default() };
    let mut terminal = terminal_with(20, 5, "one\r\ntwo");
    terminal.record_snapshot(snapshot(1));
    feed(&mut terminal, "\rt");
    terminal.record_snapshot(snapshot(2));
    feed(&mut terminal, "\x1b[A");
    terminal.record_snapshot(snapshot(3));
    let summary =
        |(line, snapshot): (LineIndex, &Snapshot)| (line.0, snapshot.id, snapshot.col, snapshot.alternate);
    let by_line: Vec<_> = terminal.snapshots_by_line().map(summary).collect();
    assert_eq!(by_line, [(0, 3, 1, false), (1, 1, 3, false), (1, 2, 1, false)]);
    let by_time: Vec<_> = terminal.snapshots_by_time().into_iter().map(summary).collect();
    assert_eq!(by_time, [(1, 1, 3, false), (1, 2, 1, false), (0, 3, 1, false)]);
    let on_line: Vec<u64> = terminal.snapshots_at_line(LineIndex(1)).map(|snapshot| snapshot.id).collect();
    assert_eq!(on_line, [1, 2]);
}

#[test]
fn alternate_screen_snapshot_belongs_to_main_line() {
    let snapshot = |id| Snapshot { id, ..Snapshot::default() };
    let mut terminal = terminal_with(20, 5, "one\r\ntwo");
    feed(&mut terminal, "\x1b[?1049h\x1b[5;9Halternate");
    terminal.record_snapshot(snapshot(1));
    feed(&mut terminal, "\x1b[?1049l");
    terminal.record_snapshot(snapshot(2));
    let summary: Vec<_> = terminal
        .snapshots_by_time()
        .into_iter()
        .map(|(line, snapshot)| (line.0, snapshot.id, snapshot.col, snapshot.alternate))
        .collect();
    assert_eq!(summary, [(1, 1, 3, true), (1, 2, 3, false)]);
}

#[test]
fn skip_drops_interrupted_sequences() {
    let mut terminal = terminal_with(20, 5, "one \x1b]0;never ended");
    terminal.skip_to(1000);
    feed(&mut terminal, "two");
    assert_eq!((terminal.offset(), screen_text(&terminal).as_str()), (1003, "one two"));
    terminal.skip_to(10);
    assert_eq!(terminal.offset(), 1003);
}

#[test]
fn row_output_is_cut_at_column() {
    let row = |bytes: &str| terminal_with(20, 1, bytes).screen().rows[0].clone();
    let coloured = row("a\x1b[31mbc\x1b[0m日本d");
    assert_eq!(coloured.to_ansi(20), "a\x1b[0;31mbc\x1b[0m日本d");
    assert_eq!(coloured.to_ansi(2), "a\x1b[0;31mb\x1b[0m");
    assert_eq!((coloured.to_text(5), coloured.to_text(3)), ("abc日", "abc"));
    assert_eq!(row("plain").to_ansi(3), "pla");
    assert_eq!(row("\x1b[4mu").to_ansi(9), "\x1b[0;4mu\x1b[0m");
}
