//! Tests of internal invariants.

use super::*;

#[test]
fn panic_rebuilds_screen_and_is_reported() {
    let mut terminal = TerminalState::new(Size::new(20, 3));
    terminal.process_data(TsNs(0), b"\x1b[?2004hone\r\ntwo\r\nthree\r\nfour");
    terminal.catch_panics(terminal.size(), |_| panic!("the test's own"));
    let changes = terminal.process_data(TsNs(0), b"five");
    assert_eq!(changes.alerts, [Alert::Rebuilt { reason: "the test's own".to_string() }]);
    assert_eq!(terminal.screen().text(), "five");
    assert_eq!(terminal.line_text(LineIndex(0)).as_deref(), Some("one"));
    assert_eq!(terminal.modes(), Modes::default());
    assert_eq!(terminal.offset(), 33);
}

/// Checks that all cells beyond the extents are blank.
pub(super) fn verify(model: &Model) {
    use alacritty_terminal::index::{Column, Line as GridLine};
    for row in 0..model.rows() {
        let cells = &model.main_grid()[GridLine(row)];
        let beyond = &cells[Column(model.extents.get(row))..Column(model.cols())];
        let blank = beyond.iter().all(|cell| !cells::shows(cell));
        assert!(blank, "row {row} beyond {}", model.extents.get(row));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 300, ..Default::default() })]
    #[test]
    fn cells_beyond_extents_are_blank(
        pieces in proptest::collection::vec(
            "[ -~]{0,12}|\r\n|\t|日本|❤\u{fe0f}|e\u{301}|\x1b\\[[0-9]{0,2}(;[0-9]{1,2})?[A-HJ-MPSTXZ@bdfmr]|\x1b\\[4[hl]|\x1b\\[\\?(7|6|1049|47)[hl]|\x1b[78DEMc]|\x1b\\[4[0-9]m",
            0..60,
        ),
        cols in 2u16..20,
        rows in 1u16..8,
        resize in 2u16..20,
    ) {
        let mut terminal = TerminalState::new(Size::new(cols, rows));
        for (at, piece) in pieces.iter().enumerate() {
            terminal.process_data(TsNs(0), piece.as_bytes());
            verify(&terminal.model);
            if at == 30 {
                terminal.resize(Size::new(resize, rows));
                verify(&terminal.model);
            }
        }
    }
}

#[test]
fn terminal_is_send() {
    fn send<T: Send>(_: &T) {}
    send(&TerminalState::new(Size::default()));
}

#[test]
fn dump_with_scrollback_recreates_the_last_lines() {
    let size = Size::new(20, 4);
    let mut terminal = TerminalState::new(size);
    for n in 0..50 {
        let line = format!("\x1b[3{}mline {n}\x1b[0m {}\r\n", n % 8, "x".repeat(n));
        terminal.process_data(TsNs(0), line.as_bytes());
    }
    terminal.process_data(TsNs(0), b"\x1b[?1049hscreen");
    let restore = |dump: &[u8]| {
        let mut copy = TerminalState::new(size);
        copy.process_data(TsNs(0), dump);
        copy
    };
    let copy = restore(&terminal.dump_with_scrollback(usize::MAX, usize::MAX));
    let mut screen = terminal.screen();
    screen.offset = copy.offset();
    assert_eq!(copy.screen(), screen);
    assert_eq!(copy.tail(usize::MAX), terminal.tail(usize::MAX));
    let few = restore(&terminal.dump_with_scrollback(3, usize::MAX));
    assert_eq!(few.tail(7), terminal.tail(7));
    let few = restore(&terminal.dump_with_scrollback(usize::MAX, 200));
    assert!(few.tail(usize::MAX).len() < 20, "{:?}", few.tail(usize::MAX));
    let fresh = TerminalState::new(size);
    assert_eq!(fresh.dump_with_scrollback(9, 9), fresh.dump());
}
