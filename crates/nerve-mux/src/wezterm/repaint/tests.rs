//! Compares a terminal that receives a program's bytes with one that receives our repaints.

use nerve_types::TsNs;
use nerve_vt::screen::{Screen, Style, StyleRun};
use nerve_vt::terminal::{LineIndex, TerminalState};
use proptest::prelude::*;

use super::super::rows::rows_of;
use super::*;

/// Rows of a full scrollback in tests.
const FULL_SCROLLBACK: usize = 200;

/// A pane and the model built from its captures.
struct Fixture {
    pane: TerminalState,
    model: TerminalState,
    repainter: Repainter,
    rows_above: u64,
}

impl Fixture {
    fn new(size: Size, rows_above: u64) -> Fixture {
        let (pane, model) = (TerminalState::new(size), TerminalState::new(size));
        Fixture { pane, model, repainter: Repainter::new(true), rows_above }
    }

    /// Creates the fixture for a program without a full-screen interface.
    fn of_shell(size: Size, rows_above: u64) -> Fixture {
        Fixture { repainter: Repainter::default(), ..Fixture::new(size, rows_above) }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.pane.process_data(TsNs(1), bytes);
    }

    fn capture(&self, rows_above: u64) -> Capture {
        let screen = self.pane.screen();
        // The alternate screen has no scrollback.
        let rows_above = if screen.modes.alternate { 0 } else { rows_above };
        let first = screen.first_line.saturating_sub(rows_above).max(self.pane.first_kept_line().0);
        let text: Vec<String> = (first..screen.first_line)
            .filter_map(|line| self.pane.line_content(LineIndex(line)))
            .chain(screen.rows.iter().map(|row| row.to_ansi(screen.size.cols)))
            .collect();
        let mut rows = rows_of(&(text.join("\r\n") + "\r\n"));
        let scrollback = rows.drain(..rows.len() - screen.rows.len()).collect::<Vec<_>>();
        Capture {
            size: screen.size,
            truncated: scrollback.len() as u64 >= rows_above && rows_above > 0,
            scrollback,
            rows,
            cursor: (screen.cursor.col, screen.cursor.row),
            shows_cursor: screen.cursor.visible,
            title: screen.title.clone(),
        }
    }

    /// Captures and repaints, with more rows if needed. Returns the number of bytes.
    fn look(&mut self) -> usize {
        let fresh = self.repainter.size != Some(self.pane.size());
        let bytes = match self.repainter.update(self.capture(self.rows_above), false) {
            Ok(bytes) => bytes,
            Err(NeedsMore) => self.repainter.update(self.capture(10_000), true).unwrap(),
        };
        if fresh {
            self.model.resize(self.pane.size());
        }
        self.model.process_data(TsNs(1), &bytes);
        self.check();
        bytes.len()
    }

    /// Captures a scrollback of [`FULL_SCROLLBACK`] rows and repaints. Returns true if no output can be missing.
    fn look_at_full_scrollback(&mut self) -> bool {
        let mut capture = self.capture(10_000);
        let dropped = capture.scrollback.len().saturating_sub(FULL_SCROLLBACK);
        capture.scrollback.drain(..dropped);
        let bytes = self.repainter.update(capture, false).unwrap();
        self.model.process_data(TsNs(1), &bytes);
        self.check();
        self.repainter.is_certain()
    }

    fn check(&self) {
        let (is, ours) = (self.pane.screen(), self.model.screen());
        let shown = |screen: &Screen| screen.rows.iter().map(looks).collect::<Vec<_>>();
        assert_eq!(shown(&ours), shown(&is));
        assert_eq!(ours.cursor, is.cursor);
        assert_eq!(ours.title, is.title);
        assert!(ours.modes.bracketed_paste);
    }

    fn stored(terminal: &TerminalState) -> Vec<String> {
        let stored = terminal.first_kept_line().0..terminal.screen().first_line;
        stored.filter_map(|line| terminal.line_text(LineIndex(line))).collect()
    }
}

/// Returns the text and styles of a row. Styles of trailing blanks are not captured.
fn looks(row: &nerve_vt::screen::Row) -> (String, Vec<StyleRun>) {
    let cols = (0..=u16::MAX).find(|cols| row.to_text(*cols).len() == row.text.len()).unwrap();
    let runs = row.runs.iter().filter(|run| run.start < cols && run.style != Style::default());
    let runs = runs.map(|run| StyleRun { len: run.len.min(cols - run.start), ..*run });
    (row.text.clone(), runs.collect())
}

#[test]
fn unchanged_screen_needs_no_bytes() {
    let mut fixture = Fixture::new(Size::new(20, 5), 30);
    fixture.write(b"\x1b[1mhello\x1b[0m\r\n$ ");
    assert!(fixture.look() > 0);
    assert_eq!(fixture.look(), 0);
    fixture.write(b"x");
    assert!(fixture.look() < 60, "one row, and the cursor");
}

#[test]
fn scrolled_rows_reach_the_scrollback() {
    let mut fixture = Fixture::new(Size::new(20, 5), 30);
    fixture.look();
    for at in 0..200 {
        fixture.write(format!("line {at}\r\n").as_bytes());
        // Sometimes after more rows than the screen has, and more than are requested.
        if [3, 4, 17, 18, 60, 130].contains(&at) {
            fixture.look();
        }
    }
    fixture.look();
    assert_eq!(Fixture::stored(&fixture.model), Fixture::stored(&fixture.pane));
    assert_eq!(fixture.model.cursor_line(), fixture.pane.cursor_line());
}

#[test]
fn equal_rows_are_counted_while_all_are_visible() {
    let mut fixture = Fixture::new(Size::new(20, 5), 60);
    fixture.look();
    for _ in 0..10 {
        fixture.write(b"yes\r\nyes\r\nyes\r\n");
        fixture.look();
    }
    assert_eq!(Fixture::stored(&fixture.model).len(), Fixture::stored(&fixture.pane).len());
}

#[test]
fn initial_scrollback_is_taken_over() {
    let mut fixture = Fixture::new(Size::new(20, 3), 50);
    for at in 0..20 {
        fixture.write(format!("old {at}\r\n").as_bytes());
    }
    fixture.look();
    assert_eq!(Fixture::stored(&fixture.model), Fixture::stored(&fixture.pane));
}

#[test]
fn wrapped_rows_become_one_line() {
    let mut fixture = Fixture::of_shell(Size::new(10, 4), 30);
    fixture.look();
    let long = "abcdefghijklmnopqrstuvwxyz";
    for at in 0..12 {
        fixture.write(format!("{at} {long}\r\nshort\r\n\r\n").as_bytes());
        if at % 3 != 1 {
            fixture.look();
        }
    }
    fixture.look();
    let lines = |of: &TerminalState| of.text(LineIndex(0)..LineIndex(of.line_count()));
    assert_eq!(lines(&fixture.model), lines(&fixture.pane));
    assert_eq!(lines(&fixture.model)[0], format!("0 {long}"));
}

#[test]
fn equal_rows_scroll_with_the_screen() {
    let mut fixture = Fixture::new(Size::new(10, 8), 5);
    fixture.look();
    fixture.write("same\r\n".repeat(40).as_bytes());
    fixture.write(b"one\r\ntwo\r\nthree");
    fixture.look();
    fixture.write(b"\r\nfour\r\nfive");
    let before = fixture.model.screen().first_line;
    fixture.look();
    assert_eq!(fixture.model.screen().first_line, before + 2);
}

/// Writes a command and its output as a shell shows them.
fn run_seq(fixture: &mut Fixture, last: u32) {
    let output: String = (1..=last).map(|number| format!("{number}\r\n")).collect();
    fixture.write(format!("seq\r\n{output}$ ").as_bytes());
}

#[test]
fn output_of_line_based_program_is_counted() {
    let mut fixture = Fixture::of_shell(Size::new(20, 8), 5);
    fixture.write(b"$ ");
    fixture.look();
    for last in [30, 30, 40, 3, 3] {
        run_seq(&mut fixture, last);
        fixture.look();
        assert!(fixture.repainter.is_certain(), "{last}");
        assert_eq!(Fixture::stored(&fixture.model), Fixture::stored(&fixture.pane));
    }
}

#[test]
fn output_beyond_full_scrollback_is_counted_or_uncertain() {
    let mut fixture = Fixture::of_shell(Size::new(20, 8), 5);
    let look = Fixture::look_at_full_scrollback;
    run_seq(&mut fixture, 150);
    look(&mut fixture);
    for last in [100, 101, 102] {
        run_seq(&mut fixture, last);
        assert!(look(&mut fixture), "{last}");
    }
    assert!(Fixture::stored(&fixture.pane).ends_with(&Fixture::stored(&fixture.model)));
    run_seq(&mut fixture, 1000);
    assert!(!look(&mut fixture), "more than the scrollback");
    fixture.write("same\r\n".repeat(400).as_bytes());
    look(&mut fixture);
    fixture.write("same\r\n".repeat(3).as_bytes());
    assert!(!look(&mut fixture), "equal rows fit in several places");
    for change in ["$ ", "end\r\n$ ", "other\r\n".repeat(120).as_str()] {
        fixture.write("same\r\n".repeat(400).as_bytes());
        look(&mut fixture);
        fixture.write("same\r\n".repeat(400).as_bytes());
        look(&mut fixture);
        fixture.write(change.as_bytes());
        assert!(!look(&mut fixture), "{change:?} shows that rows may be lost");
    }
}

#[test]
fn lost_rows_before_exactly_as_many_known_ones_are_uncertain() {
    for others in 100..=FULL_SCROLLBACK {
        let mut fixture = Fixture::of_shell(Size::new(20, 8), 5);
        fixture.write("same\r\n".repeat(2 * FULL_SCROLLBACK).as_bytes());
        fixture.look_at_full_scrollback();
        let others: String = (0..others).map(|other| format!("other {other}\r\n")).collect();
        fixture.write(format!("{}{others}", "same\r\n".repeat(50)).as_bytes());
        assert!(!fixture.look_at_full_scrollback(), "{others:?}");
    }
}

#[test]
fn whole_scrollback_written_twice_is_uncertain() {
    let mut fixture = Fixture::of_shell(Size::new(20, 8), 5);
    run_seq(&mut fixture, 300);
    fixture.look_at_full_scrollback();
    fixture.repainter.mark_prompt();
    fixture.write(b"seq\r\n");
    assert!(fixture.look_at_full_scrollback());
    let rows = |numbers: std::ops::Range<usize>| numbers.map(|at| format!("{at}\r\n")).collect::<String>();
    let shown = FULL_SCROLLBACK + 7;
    fixture.write(rows(0..shown / 2).as_bytes());
    assert!(fixture.look_at_full_scrollback(), "the prompt is in the scrollback");
    fixture.write(rows(shown / 2..shown).as_bytes());
    fixture.look_at_full_scrollback();
    // The scrollback and the screen stay as they are.
    fixture.write(rows(0..shown).as_bytes());
    fixture.look_at_full_scrollback();
    fixture.write(b"$ ");
    assert!(!fixture.look_at_full_scrollback(), "the prompt has left the scrollback");
    fixture.repainter.mark_prompt();
    fixture.write(b"seq\r\nend\r\n$ ");
    assert!(fixture.look_at_full_scrollback(), "the next prompt");
}

#[test]
fn repeated_output_below_its_prompt_is_certain() {
    let mut fixture = Fixture::of_shell(Size::new(20, 8), 5);
    fixture.write(b"$ ");
    assert!(fixture.look_at_full_scrollback());
    let output: String = (1..=80).map(|number| format!("{number}\r\n")).collect();
    for round in 0..2 {
        fixture.repainter.mark_prompt();
        fixture.write(format!("seq\r\n{output}").as_bytes());
        assert!(fixture.look_at_full_scrollback(), "{round}: the scrollback grows");
        // The rows of the first round would fit above those of the second one.
        fixture.write(b"$ ");
        assert!(fixture.look_at_full_scrollback(), "{round}: only the next prompt is drawn");
    }
    // Equal rows below a prompt that has left the scrollback.
    fixture.write("seq\r\n".repeat(400).as_bytes());
    fixture.look_at_full_scrollback();
    fixture.write("seq\r\n".repeat(400).as_bytes());
    fixture.look_at_full_scrollback();
    fixture.write(b"end\r\n");
    assert!(!fixture.look_at_full_scrollback());
}

#[test]
fn cleared_or_redrawn_rows_are_uncertain() {
    for erase in ["\x1b[3J\x1b[H\x1b[2J", "\x1b[2A\x1b[2K"] {
        let mut fixture = Fixture::of_shell(Size::new(20, 8), 5);
        run_seq(&mut fixture, 30);
        fixture.look();
        fixture.write(format!("{erase}x\r\n$ ").as_bytes());
        if erase.contains("3J") {
            fixture.pane.clear_scrollback();
        }
        fixture.look();
        assert!(!fixture.repainter.is_certain(), "{erase:?}");
    }
}

#[test]
fn alternate_screen_is_entered_and_left() {
    let mut fixture = Fixture::new(Size::new(20, 4), 30);
    fixture.look();
    for at in 0..9 {
        fixture.write(format!("line {at}\r\n").as_bytes());
    }
    fixture.look();
    fixture.write(b"\x1b[?1049h\x1b[2J\x1b[Hfull screen");
    fixture.look();
    assert!(fixture.model.modes().alternate);
    fixture.write(b"\x1b[Hother text  ");
    fixture.look();
    fixture.write(b"\x1b[?1049lback\r\n\r\n\r\n\r\nmore\r\n");
    fixture.look();
    assert!(!fixture.model.modes().alternate);
    assert_eq!(Fixture::stored(&fixture.model), Fixture::stored(&fixture.pane));
}

#[test]
fn cleared_scrollback_grows_again() {
    let mut fixture = Fixture::new(Size::new(20, 4), 30);
    fixture.look();
    for at in 0..9 {
        fixture.write(format!("line {at}\r\n").as_bytes());
    }
    fixture.look();
    fixture.write(b"\x1b[2J\x1b[H");
    fixture.pane.clear_scrollback();
    fixture.look();
    for at in 0..9 {
        fixture.write(format!("new {at}\r\n").as_bytes());
    }
    fixture.look();
    let stored = Fixture::stored(&fixture.model);
    assert!(stored.ends_with(&Fixture::stored(&fixture.pane)), "{stored:?}");
}

#[test]
fn resize_repaints_everything() {
    let mut fixture = Fixture::new(Size::new(20, 6), 30);
    fixture.write(b"some text\r\nthat stays\r\n$ ");
    fixture.look();
    for size in [Size::new(40, 3), Size::new(10, 8)] {
        fixture.pane.resize(size);
        fixture.look();
        fixture.write(b"more\r\n");
        fixture.look();
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z0-9 ]{0,30}".prop_map(String::into_bytes),
        3 => Just(b"\r\n".to_vec()),
        1 => "[日本語é ]{1,6}".prop_map(String::into_bytes),
        2 => (0u8..8, 0u8..2).prop_map(|(color, bold)| format!("\x1b[{bold};3{color};4{}m", 7 - color).into_bytes()),
        1 => Just(b"\x1b[0m".to_vec()),
        2 => (1u8..9, 1u8..30).prop_map(|(row, col)| format!("\x1b[{row};{col}H").into_bytes()),
        1 => Just(b"\x1b[2J".to_vec()),
        1 => Just(b"\x1b[K".to_vec()),
        1 => Just(b"\x1b[3L\x1b[2M\x1b[1P".to_vec()),
        1 => "[a-z]{1,5}".prop_map(|title| format!("\x1b]2;{title}\x07").into_bytes()),
        1 => Just(b"\x1b[?25l".to_vec()),
        1 => Just(b"\x1b[?25h".to_vec()),
        1 => Just(b"\x1b[?1049h".to_vec()),
        1 => Just(b"\x1b[?1049l".to_vec()),
    ]
}

proptest! {
    #[test]
    fn repaints_match_the_pane(
        looks in proptest::collection::vec(proptest::collection::vec(piece(), 0..20), 1..12),
        cols in 2u16..40,
        rows in 1u16..10,
        rows_above in 1u64..40,
        shell: bool,
    ) {
        let size = Size::new(cols, rows);
        let mut fixture = if shell { Fixture::of_shell(size, rows_above) } else { Fixture::new(size, rows_above) };
        for pieces in looks {
            fixture.write(&pieces.concat());
            fixture.look();
        }
    }

    #[test]
    fn arbitrary_text_stays_in_its_rows(text in "\\PC*|[\\x1b\\[\\];0-9mHJKh?(B\\x07a-c \\n\\r\u{301}日]*", rows in 1u16..6) {
        check_stays_in_rows(&text, rows);
    }
}

#[test]
fn oversized_row_does_not_scroll_screen() {
    for second in ["aaaaaaaaaaa", "日日日日日日", "a          "] {
        check_stays_in_rows(&format!("0123456789\n{second}"), 2);
    }
    check_stays_in_rows("0123456789     \nnext", 2);
}

/// Checks a pane of ten columns with arbitrary text.
fn check_stays_in_rows(text: &str, rows: u16) {
    let size = Size::new(10, rows);
    let mut rows_shown = rows_of(text);
    rows_shown.resize(usize::from(rows), Row::default());
    let capture = Capture {
        size,
        scrollback: Vec::new(),
        truncated: false,
        rows: rows_shown,
        cursor: (3, 0),
        shows_cursor: true,
        title: text.to_owned(),
    };
    let bytes = Repainter::default().update(capture, true).unwrap();
    let mut model = TerminalState::new(size);
    model.process_data(TsNs(1), &bytes);
    assert_eq!(model.screen().first_line, 0);
    assert_eq!((model.screen().cursor.col, model.screen().cursor.row), (3, 0));
    assert!(model.frame_deadline().is_none());
}
