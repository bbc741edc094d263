//! Clicks and the wheel, by what is under them.

use std::time::Duration;

use nerve_tui::view::document::Document;
use nerve_tui::view::keys::{Button, Input, Mouse, MouseAction, Wheel};
use nerve_tui::view::regions::FrameContext;
use nerve_tui::view::timeline::Timeline;
use nerve_tui::view::viewer::{Effect, Mode, Target};

use crate::{COLS, Harness};

fn mouse(action: MouseAction, col: u16, row: u16) -> Input {
    Input::Mouse(Mouse { action, col, row, ctrl: false, alt: false, shift: false })
}

fn click(harness: &mut Harness, col: u16, row: u16) -> Option<Effect> {
    let asked = harness.input(mouse(MouseAction::Press(Button::Left), col, row));
    assert_eq!(harness.input(mouse(MouseAction::Release(Button::Left), col, row)), None);
    asked
}

fn wheel(harness: &mut Harness, way: Wheel) -> Option<Effect> {
    harness.input(mouse(MouseAction::Wheel(way), 1, 1))
}

fn target(harness: &Harness) -> Option<Target> {
    harness.viewer.entry()?.target()
}

fn at(line: u64) -> Option<Target> {
    Some(Target::Snapshot { id: line, line: line - 1 })
}

#[test]
fn click_opens_entry_at_the_lines_snapshot() {
    let mut harness = Harness::new(&[], 10);
    harness.numbered(100, &[20, 53, 56]);
    harness.keys("5 1 g");
    click(&mut harness, 3, 2);
    assert_eq!(target(&harness), at(53), "its own");
    assert_eq!(harness.window(), "51 52 53 - - - [54] [55] [56] [57]");
    click(&mut harness, 3, 7);
    assert_eq!(target(&harness), at(53), "the one before line 55");
    click(&mut harness, 3, 1);
    assert_eq!(target(&harness), at(20), "the one before line 52");
    harness.keys("esc j g");
    click(&mut harness, 3, 1);
    assert_eq!(harness.message(), "no snapshot at this line or above it");
}

#[test]
fn click_on_gutter_mark_opens_entry() {
    let mut harness = Harness::new(&[], 10);
    harness.numbered(100, &[20, 53, 56]);
    harness.keys("5 1 g");
    click(&mut harness, COLS, 5);
    assert_eq!((target(&harness), harness.window()), (at(56), "51 52 53 54 55 56 - - - [57]".into()));
    click(&mut harness, COLS, 7);
    assert_eq!(target(&harness), at(56), "a click next to the entry has no effect");
}

#[test]
fn click_into_text_moves_cursor() {
    let mut harness = Harness::after(&["x"], 6);
    harness.types("one two");
    click(&mut harness, 1 + 3, 2);
    harness.types("!");
    assert_eq!(harness.viewer.entry().unwrap().text(), "one! two");
}

#[test]
fn live_click_opens_entry_only_at_a_mark() {
    let mut harness = Harness::live(&[], 10);
    harness.numbered(100, &[94]);
    assert_eq!(click(&mut harness, 3, 7), None);
    assert_eq!((harness.viewer.mode(), harness.message()), (&Mode::Live, ""));
    click(&mut harness, 3, 3);
    assert_eq!(target(&harness), at(94));
    harness.keys("esc esc");
    click(&mut harness, COLS, 8);
    assert_eq!(target(&harness), at(94), "the gutter is the viewer's");
}

#[test]
fn program_gets_the_mouse_it_requested() {
    let mut harness = Harness::live(&["1", "2", "3", "4"], 3);
    harness.write("\x1b[?1002h\x1b[?1006h");
    for action in [
        MouseAction::Press(Button::Right),
        MouseAction::Wheel(Wheel::Up),
        MouseAction::Move(Some(Button::Left)),
    ] {
        assert_eq!(harness.input(mouse(action, 4, 2)), Some(Effect::Input(mouse(action, 4, 2))));
    }
    harness.input(mouse(MouseAction::Release(Button::Right), 4, 2));
    assert_eq!(harness.input(mouse(MouseAction::Press(Button::Left), COLS, 0)), None, "not in the gutter");
    assert_eq!(harness.input(mouse(MouseAction::Press(Button::Left), 2, 4)), None, "not in the status");
    // In a window that is lower than the screen, places are those of the screen.
    harness.resize(2);
    harness.write("");
    let press = MouseAction::Press(Button::Left);
    assert_eq!(harness.input(mouse(press, 2, 1)), Some(Effect::Input(mouse(press, 2, 2))));
    // Not in scroll mode.
    harness.keys("shift+pageup");
    assert_eq!(harness.input(mouse(MouseAction::Wheel(Wheel::Down), 1, 1)), None);
}

#[test]
fn wheel_scrolls_back_and_returns_to_live() {
    let mut harness = Harness::live(&[], 5);
    harness.numbered(50, &[]);
    assert_eq!(wheel(&mut harness, Wheel::Down), None);
    assert_eq!(harness.viewer.mode(), &Mode::Live);
    assert_eq!(wheel(&mut harness, Wheel::Up), None);
    assert_eq!((harness.viewer.mode(), harness.window()), (&Mode::Scrolling, "43 44 45 46 47".into()));
    wheel(&mut harness, Wheel::Down);
    assert_eq!((harness.viewer.mode(), harness.window()), (&Mode::Live, "46 47 48 49 50".into()));
}

#[test]
fn full_screen_program_gets_the_wheel() {
    let mut harness = Harness::live(&["1", "2"], 5);
    harness.write("\x1b[?1049h");
    let up = mouse(MouseAction::Wheel(Wheel::Up), 1, 1);
    assert_eq!(harness.input(up.clone()), Some(Effect::Input(up)));
}

#[test]
fn wheel_scrolls_sideways_and_help() {
    let mut harness = Harness::hundred(5);
    wheel(&mut harness, Wheel::Right);
    assert_eq!(harness.viewer.left(), 3);
    wheel(&mut harness, Wheel::Left);
    assert_eq!(harness.viewer.left(), 0);
    harness.keys("h");
    wheel(&mut harness, Wheel::Down);
    assert_eq!(harness.viewer.mode(), &Mode::Help(3));
    wheel(&mut harness, Wheel::Up);
    wheel(&mut harness, Wheel::Up);
    assert_eq!(harness.viewer.mode(), &Mode::Help(0));
}

#[test]
fn click_on_timeline_seeks() {
    let mut harness = Harness::hundred(5);
    let document = Document::recorded(&harness.terminal);
    let timeline = Timeline { duration: Duration::from_secs(100), ..Timeline::default() };
    let frame = FrameContext { timeline: Some(&timeline), ..FrameContext::new(&document, harness.regions) };
    let seek = |viewer: &mut nerve_tui::view::viewer::Viewer, col| {
        viewer.input(mouse(MouseAction::Press(Button::Left), col, 5), &frame)
    };
    assert_eq!(seek(&mut harness.viewer, COLS - 1), Some(Effect::Seek(Duration::from_secs(100))));
    let middle = timeline.time_at(9, COLS);
    assert_eq!(seek(&mut harness.viewer, 9), Some(Effect::Seek(middle)));
}

#[test]
fn click_cancels_confirmation() {
    let mut harness = Harness::live(&[], 5);
    harness.numbered(9, &[9]);
    harness.keys("ctrl+] q");
    assert_eq!(harness.viewer.mode(), &Mode::Confirm);
    click(&mut harness, COLS, 4);
    assert_eq!(harness.keys("y"), [], "the program is not ended");
    assert_eq!(harness.viewer.entry().unwrap().text(), "y");
}

#[test]
fn mouse_move_keeps_esc_armed() {
    let mut harness = Harness::hundred(5);
    harness.keys("esc");
    harness.input(mouse(MouseAction::Move(None), 1, 1));
    assert_eq!(harness.keys("esc"), [Effect::Quit]);
    harness.keys("esc");
    click(&mut harness, 1, 1);
    assert_eq!(harness.keys("esc"), []);
}

/// A program that wants all of the mouse.
fn dragging() -> Harness {
    let mut harness = Harness::live(&["1", "2"], 5);
    harness.write("\x1b[?1002h\x1b[?1006h");
    harness
}

#[test]
fn program_gets_release_of_its_press() {
    let mut harness = dragging();
    let own = |action, col, row| Some(Effect::Input(mouse(action, col, row)));
    let (press, drag) = (MouseAction::Press(Button::Left), MouseAction::Move(Some(Button::Left)));
    let release = MouseAction::Release(Button::Left);
    assert_eq!(harness.input(mouse(press, 3, 1)), own(press, 3, 1));
    assert_eq!(harness.input(mouse(drag, COLS + 4, 9)), own(drag, COLS - 1, 4));
    assert_eq!(harness.input(mouse(release, COLS + 4, 6)), own(release, COLS - 1, 4));
}

#[test]
fn viewer_press_is_not_sent_to_program() {
    let mut harness = dragging();
    for action in [
        MouseAction::Press(Button::Left),
        MouseAction::Move(Some(Button::Left)),
        MouseAction::Release(Button::Left),
    ] {
        let col = if action == MouseAction::Press(Button::Left) { COLS } else { 3 };
        assert_eq!(harness.input(mouse(action, col, 1)), None, "{action:?}");
    }
    let press = MouseAction::Press(Button::Left);
    assert_eq!(harness.input(mouse(press, 3, 1)), Some(Effect::Input(mouse(press, 3, 1))));
}

#[test]
fn click_uses_the_row_that_was_drawn() {
    let mut harness = dragging();
    harness.write("\x1b[5;1H");
    // Not drawn yet.
    harness.terminal.process_data(nerve_types::TsNs(0), b"\r\n\r\n");
    let press = MouseAction::Press(Button::Left);
    assert_eq!(harness.input(mouse(press, 3, 1)), Some(Effect::Input(mouse(press, 3, 1))));
}
