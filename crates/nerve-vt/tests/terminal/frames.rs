//! Synchronized output: readers never see half a frame.

use std::time::Duration;

use nerve_types::TsNs;
use nerve_vt::terminal::Alert;

use crate::{feed, screen_text, terminal_with};

#[test]
fn open_frame_is_not_visible() {
    let mut terminal = terminal_with(20, 4, "old");
    feed(&mut terminal, "\x1b[?2026h\x1b[2J\x1b[Hne");
    assert_eq!(screen_text(&terminal), "old");
    assert_eq!(terminal.tail(9), ["old"]);
    assert_eq!(terminal.screen().offset, 11);
    assert_eq!(terminal.cursor_col(), 2);
    let changes = feed(&mut terminal, "w\x1b[?2026l");
    assert_eq!(changes.alerts, [Alert::FrameDone]);
    assert_eq!(screen_text(&terminal), "new");
    assert_eq!(terminal.screen().offset, terminal.offset());
}

#[test]
fn last_complete_frame_is_visible() {
    let mut terminal = terminal_with(20, 4, "1");
    feed(&mut terminal, "\x1b[?2026h\r2\x1b[?2026l\x1b[?2026h\r3\x1b[?2026l!\x1b[?2026h\r4");
    assert_eq!(screen_text(&terminal), "3!");
}

#[test]
fn deadline_shows_open_frame() {
    let mut terminal = terminal_with(20, 4, "old");
    let start = TsNs(1_000_000_000);
    terminal.process_data(start, b"\x1b[?2026h\rnew");
    let deadline = start + Duration::from_millis(150);
    assert_eq!(terminal.frame_deadline(), Some(deadline));
    // Opening the update again does not extend its deadline.
    terminal.process_data(start + Duration::from_millis(100), b"\x1b[?2026h");
    assert_eq!(terminal.frame_deadline(), Some(deadline));
    assert!(!terminal.expire_frame(deadline - Duration::from_millis(1)));
    assert_eq!(screen_text(&terminal), "old");
    assert!(terminal.expire_frame(deadline));
    assert!(!terminal.expire_frame(deadline));
    assert_eq!((screen_text(&terminal).as_str(), terminal.frame_deadline()), ("new", None));
    assert_eq!(feed(&mut terminal, "\x1b[?2026l").alerts, []);
}

#[test]
fn frame_ends_inside_a_string() {
    let mut terminal = terminal_with(20, 4, "old");
    feed(&mut terminal, "\x1b[?2026h\rnew\x1b]2;unfinished\x1b[?2026l");
    assert_eq!(screen_text(&terminal), "new");
}

#[test]
fn resize_shows_open_frame() {
    let mut terminal = terminal_with(20, 4, "old\x1b[?2026h\rnew");
    terminal.resize(nerve_types::Size::new(30, 5));
    assert_eq!(screen_text(&terminal), "new");
}

#[test]
fn tail_contains_lines_of_open_frame_once() {
    let mut terminal = terminal_with(20, 3, "a\r\nb\r\nc");
    feed(&mut terminal, "\x1b[?2026h\r\nd\r\ne");
    assert_eq!(terminal.tail(9), ["a", "b", "c"]);
    feed(&mut terminal, "\x1b[?2026l");
    assert_eq!(terminal.tail(9), ["a", "b", "c", "d", "e"]);
}
