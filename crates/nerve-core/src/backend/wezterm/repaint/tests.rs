//! A terminal that gets a program's bytes, seen as the command line shows it, and one that gets our repaints: both show the same.

use nerve_term::event::TsNs;
use nerve_term::screen::{Screen, Style, StyleRun};
use nerve_term::terminal::{LineIndex, TerminalState};
use proptest::prelude::*;

use super::super::rows::rows_of;
use super::*;

/// A pane, and what is made of looks at it.
struct Both {
    pane: TerminalState,
    model: TerminalState,
    picture: Picture,
    asked: u64,
}

impl Both {
    fn new(size: Size, asked: u64) -> Both {
        let (pane, model) = (TerminalState::new(size), TerminalState::new(size));
        Both { pane, model, picture: Picture::of_agent(false), asked }
    }

    /// Of a program that does not draw its own screen.
    fn of_shell(size: Size, asked: u64) -> Both {
        Both { picture: Picture::default(), ..Both::new(size, asked) }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.pane.process_data(TsNs(1), bytes);
    }

    fn capture(&self, asked: u64) -> Capture {
        let screen = self.pane.screen();
        // There is nothing above the other screen.
        let asked = if screen.modes.alternate { 0 } else { asked };
        let first = screen.first_line.saturating_sub(asked).max(self.pane.first_kept_line().0);
        let text: Vec<String> = (first..screen.first_line)
            .filter_map(|line| self.pane.line_content(LineIndex(line)))
            .chain(screen.rows.iter().map(|row| row.to_ansi(screen.size.cols)))
            .collect();
        let mut rows = rows_of(&(text.join("\r\n") + "\r\n"));
        let above = rows.drain(..rows.len() - screen.rows.len()).collect::<Vec<_>>();
        Capture {
            size: screen.size,
            cut: above.len() as u64 >= asked && asked > 0,
            above,
            rows,
            cursor: (screen.cursor.col, screen.cursor.row),
            shows_cursor: screen.cursor.visible,
            title: screen.title.clone(),
        }
    }

    /// Looks, with more if it has to; gives how many bytes that took.
    fn look(&mut self) -> usize {
        let fresh = self.picture.size != Some(self.pane.size());
        let bytes = match self.picture.update(self.capture(self.asked), false) {
            Ok(bytes) => bytes,
            Err(NeedsMore) => self.picture.update(self.capture(10_000), true).unwrap(),
        };
        if fresh {
            self.model.resize(self.pane.size());
        }
        self.model.process_data(TsNs(1), &bytes);
        self.check();
        bytes.len()
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

/// A row's text and the looks of it. How blanks behind it look is not told.
fn looks(row: &nerve_term::screen::Row) -> (String, Vec<StyleRun>) {
    let cols = (0..=u16::MAX).find(|cols| row.to_text(*cols).len() == row.text.len()).unwrap();
    let runs = row.runs.iter().filter(|run| run.start < cols && run.style != Style::default());
    let runs = runs.map(|run| StyleRun { len: run.len.min(cols - run.start), ..*run });
    (row.text.clone(), runs.collect())
}

#[test]
fn a_screen_that_rests_costs_no_bytes() {
    let mut both = Both::new(Size::new(20, 5), 30);
    both.write(b"\x1b[1mhello\x1b[0m\r\n$ ");
    assert!(both.look() > 0);
    assert_eq!(both.look(), 0);
    both.write(b"x");
    assert!(both.look() < 60, "one row, and the cursor");
}

#[test]
fn rows_that_scroll_away_are_in_the_scrollback() {
    let mut both = Both::new(Size::new(20, 5), 30);
    both.look();
    for at in 0..200 {
        both.write(format!("line {at}\r\n").as_bytes());
        // Now and then, after more rows than a screen has, and than are asked for.
        if [3, 4, 17, 18, 60, 130].contains(&at) {
            both.look();
        }
    }
    both.look();
    assert_eq!(Both::stored(&both.model), Both::stored(&both.pane));
    assert_eq!(both.model.cursor_line(), both.pane.cursor_line());
}

#[test]
fn rows_that_look_the_same_are_counted_while_all_is_seen() {
    let mut both = Both::new(Size::new(20, 5), 60);
    both.look();
    for _ in 0..10 {
        both.write(b"yes\r\nyes\r\nyes\r\n");
        both.look();
    }
    assert_eq!(Both::stored(&both.model).len(), Both::stored(&both.pane).len());
}

#[test]
fn what_was_there_before_us_is_history() {
    let mut both = Both::new(Size::new(20, 3), 50);
    for at in 0..20 {
        both.write(format!("old {at}\r\n").as_bytes());
    }
    both.look();
    assert_eq!(Both::stored(&both.model), Both::stored(&both.pane));
}

#[test]
fn long_lines_are_one_line_again() {
    let mut both = Both::of_shell(Size::new(10, 4), 30);
    both.look();
    let long = "abcdefghijklmnopqrstuvwxyz";
    for at in 0..12 {
        both.write(format!("{at} {long}\r\nshort\r\n\r\n").as_bytes());
        if at % 3 != 1 {
            both.look();
        }
    }
    both.look();
    let lines = |of: &TerminalState| of.text(LineIndex(0)..LineIndex(of.line_count()));
    assert_eq!(lines(&both.model), lines(&both.pane));
    assert_eq!(lines(&both.model)[0], format!("0 {long}"));
}

#[test]
fn rows_that_all_look_the_same_have_moved_with_the_others() {
    let mut both = Both::new(Size::new(10, 8), 5);
    both.look();
    both.write("same\r\n".repeat(40).as_bytes());
    both.write(b"one\r\ntwo\r\nthree");
    both.look();
    both.write(b"\r\nfour\r\nfive");
    let before = both.model.screen().first_line;
    both.look();
    assert_eq!(both.model.screen().first_line, before + 2);
}

#[test]
fn the_other_screen_comes_and_goes() {
    let mut both = Both::new(Size::new(20, 4), 30);
    both.look();
    for at in 0..9 {
        both.write(format!("line {at}\r\n").as_bytes());
    }
    both.look();
    both.write(b"\x1b[?1049h\x1b[2J\x1b[Hfull screen");
    both.look();
    assert!(both.model.modes().alternate);
    both.write(b"\x1b[Hother text  ");
    both.look();
    both.write(b"\x1b[?1049lback\r\n\r\n\r\n\r\nmore\r\n");
    both.look();
    assert!(!both.model.modes().alternate);
    assert_eq!(Both::stored(&both.model), Both::stored(&both.pane));
}

#[test]
fn a_scrollback_that_was_cleared_grows_again() {
    let mut both = Both::new(Size::new(20, 4), 30);
    both.look();
    for at in 0..9 {
        both.write(format!("line {at}\r\n").as_bytes());
    }
    both.look();
    both.write(b"\x1b[2J\x1b[H");
    both.pane.clear_scrollback();
    both.look();
    for at in 0..9 {
        both.write(format!("new {at}\r\n").as_bytes());
    }
    both.look();
    let stored = Both::stored(&both.model);
    assert!(stored.ends_with(&Both::stored(&both.pane)), "{stored:?}");
}

#[test]
fn another_size_is_painted_anew() {
    let mut both = Both::new(Size::new(20, 6), 30);
    both.write(b"some text\r\nthat stays\r\n$ ");
    both.look();
    for size in [Size::new(40, 3), Size::new(10, 8)] {
        both.pane.resize(size);
        both.look();
        both.write(b"more\r\n");
        both.look();
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
    fn repaints_show_what_the_pane_shows(
        looks in proptest::collection::vec(proptest::collection::vec(piece(), 0..20), 1..12),
        cols in 2u16..40,
        rows in 1u16..10,
        asked in 1u64..40,
        shell: bool,
    ) {
        let size = Size::new(cols, rows);
        let mut both = if shell { Both::of_shell(size, asked) } else { Both::new(size, asked) };
        for pieces in looks {
            both.write(&pieces.concat());
            both.look();
        }
    }

    #[test]
    fn any_text_at_all_stays_in_its_rows(text in "\\PC*|[\\x1b\\[\\];0-9mHJKh?(B\\x07a-c \\n\\r\u{301}日]*", rows in 1u16..6) {
        stays_in_its_rows(&text, rows);
    }
}

#[test]
fn a_row_that_is_too_long_moves_nothing_however_full_the_one_before_is() {
    for second in ["aaaaaaaaaaa", "日日日日日日", "a          "] {
        stays_in_its_rows(&format!("0123456789\n{second}"), 2);
    }
    stays_in_its_rows("0123456789     \nnext", 2);
}

/// Of a pane of ten columns, whatever it says that it shows.
fn stays_in_its_rows(text: &str, rows: u16) {
    let size = Size::new(10, rows);
    let mut shown = rows_of(text);
    shown.resize(usize::from(rows), Row::default());
    let capture = Capture {
        size,
        above: Vec::new(),
        cut: false,
        rows: shown,
        cursor: (3, 0),
        shows_cursor: true,
        title: text.to_owned(),
    };
    let bytes = Picture::default().update(capture, true).unwrap();
    let mut model = TerminalState::new(size);
    model.process_data(TsNs(1), &bytes);
    assert_eq!(model.screen().first_line, 0);
    assert_eq!((model.screen().cursor.col, model.screen().cursor.row), (3, 0));
    assert!(model.frame_deadline().is_none());
}
