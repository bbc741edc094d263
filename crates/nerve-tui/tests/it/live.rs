//! A program that runs: its keys, the prefix, scrolling back.

use nerve_tui::view::bindings::Bindings;
use nerve_tui::view::document::Document;
use nerve_tui::view::keys::{Input, Key};
use nerve_tui::view::viewer::{Effect, Mode, Source, Target, Viewer};
use nerve_types::Size;
use nerve_vt::terminal::TerminalState;

use crate::{Harness, key};

fn to_program(name: &str) -> Effect {
    Effect::Input(Input::Key(key(name)))
}

#[test]
fn keys_pastes_and_focus_go_to_program() {
    let mut harness = Harness::live(&["$"], 5);
    let all = "q esc ctrl+c j / ? ctrl+shift+down up pagedown f1 enter alt+v i [ ctrl+z";
    let expected: Vec<Effect> = all.split(' ').map(to_program).collect();
    assert_eq!(harness.keys(all), expected);
    let paste = Input::Paste("two\nlines".into());
    assert_eq!(harness.input(paste.clone()), Some(Effect::Input(paste)));
    assert_eq!(harness.input(Input::Focus(false)), Some(Effect::Input(Input::Focus(false))));
    assert_eq!(harness.viewer.mode(), &Mode::Live);
}

#[test]
fn shows_screen_with_empty_rows() {
    let mut harness = Harness::live(&["1", "2", "3", "4", "5", "6"], 4);
    assert_eq!(harness.window(), "3 4 5 6");
    harness.write("\x1b[H\x1b[2Jnew");
    assert_eq!(harness.shown(), ["new", "", "", ""]);
    harness.write("\x1b[?1049h\x1b[Hfull");
    assert_eq!(harness.shown(), ["full", "", "", ""]);
    harness.write("\x1b[?1049l");
    assert_eq!(harness.shown(), ["new", "", "", ""]);
}

#[test]
fn cursor_is_visible_in_low_window() {
    let mut harness = Harness::live(&["1", "2", "3"], 10);
    harness.resize(4);
    harness.write("");
    assert_eq!(harness.window(), "1 2 3 ", "the cursor is in line 3");
    harness.write("\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9");
    assert_eq!(harness.window(), "6 7 8 9");
    harness.write("\x1b[H");
    assert_eq!(harness.window(), "1 2 3 4");
}

#[test]
fn unfinished_frame_is_not_shown() {
    let mut harness = Harness::live(&["old"], 3);
    harness.write("\x1b[?2026h\x1b[H\x1b[2Jnew");
    assert_eq!(harness.shown(), ["old", "", ""]);
    harness.write("\x1b[?2026l");
    assert_eq!(harness.shown(), ["new", "", ""]);
}

#[test]
fn frame_with_dropped_lines_is_shown() {
    let mut harness = Harness::live(&["1", "2", "3"], 2);
    harness.write("\x1b[?2026h\r\n4\r\n5\x1b[3J");
    assert_eq!(harness.shown(), ["2", "3"]);
    harness.write("\x1b[?2026l");
    assert_eq!(harness.shown(), ["4", "5"]);
}

#[test]
fn cancelled_search_returns_to_live_screen() {
    let mut harness = Harness::live(&["1", "2", "3"], 6);
    harness.resize(2);
    harness.keys("shift+pageup G /");
    harness.write("\r\n4\r\n5\r\n6");
    harness.keys("esc q");
    assert_eq!(harness.window(), "5 6");
}

#[test]
fn scroll_mode_lasts_until_q_or_esc() {
    for (leave, enter) in
        [("q", "shift+pageup"), ("esc", "pageup"), ("ctrl+c", "ctrl+] ["), ("Q", "ctrl+] pageup")]
    {
        let mut harness = Harness::live(&[], 5);
        harness.numbered(50, &[]);
        assert_eq!(harness.keys(enter), [], "{enter}");
        assert_eq!(harness.viewer.mode(), &Mode::Scrolling);
        harness.keys("g");
        assert_eq!(harness.window(), "1 2 3 4 5");
        harness.write("\r\nmore");
        assert_eq!(harness.window(), "1 2 3 4 5", "what is written does not move it");
        assert_eq!(harness.keys(leave), [], "{leave}");
        assert_eq!((harness.viewer.mode(), harness.window()), (&Mode::Live, "47 48 49 50 more".into()));
        assert_eq!(harness.keys("j"), [to_program("j")]);
    }
}

#[test]
fn full_screen_program_gets_pageup_not_shift_pageup() {
    let mut harness = Harness::live(&["1", "2", "3", "4"], 3);
    harness.write("\x1b[?1049h\x1b[Hfull");
    assert_eq!(harness.keys("pageup"), [to_program("pageup")]);
    assert_eq!(harness.keys("shift+pageup"), []);
    assert_eq!(harness.viewer.mode(), &Mode::Scrolling);
    assert_eq!(harness.window(), "2 3 4", "the output above");
}

#[test]
fn prefix_takes_the_next_key() {
    let mut harness = Harness::live(&["1", "2", "3", "4"], 3);
    harness.snapshot(1);
    assert_eq!(harness.keys("ctrl+]"), []);
    assert!(harness.viewer.is_prefix_pending());
    assert_eq!(harness.keys("ctrl+]"), [to_program("ctrl+]")], "twice is the key itself");
    assert!(!harness.viewer.is_prefix_pending());
    assert_eq!(harness.keys("ctrl+] d"), [Effect::Detach]);
    assert_eq!(harness.keys("ctrl+] y"), [Effect::Copy("2\n3\n4".into())]);
    assert_eq!(harness.keys("ctrl+] esc j"), [to_program("j")], "Esc takes it back");
    assert_eq!(harness.keys("ctrl+] up"), []);
    assert_eq!(harness.viewer.mode(), &Mode::Entry);
    harness.keys("esc esc");
    for help in ["?", "h"] {
        harness.keys(&format!("ctrl+] {help}"));
        assert_eq!(harness.viewer.mode(), &Mode::Help(0));
        harness.keys("q");
        assert_eq!(harness.viewer.mode(), &Mode::Live);
    }
    harness.keys("ctrl+] w");
    assert_eq!(harness.message(), "'w' is not bound after ctrl+]; '?' lists the keys");
    assert_eq!(harness.keys("w"), [to_program("w")]);
}

#[test]
fn snapshot_key_works_in_all_live_contexts() {
    let mut harness = Harness::live(&["1", "2", "3", "4"], 3);
    harness.snapshot(1);
    assert_eq!(harness.keys("ctrl+] s"), [Effect::TakeSnapshot]);
    assert_eq!(harness.keys("s"), [to_program("s")], "one key after the prefix");
    for (way, mode) in [("ctrl+] [", Mode::Scrolling), ("ctrl+shift+up", Mode::Entry)] {
        assert_eq!(harness.keys(way), []);
        assert_eq!(harness.keys("ctrl+] s"), [Effect::TakeSnapshot], "{way}");
        assert_eq!(harness.viewer.mode(), &mode, "the mode does not change");
        harness.keys("esc esc");
    }
    let bindings = Bindings::with(&[("snapshot".into(), vec!["ctrl+alt+s".into()])]).unwrap();
    harness.viewer = Viewer::new(Source::Live, bindings);
    harness.resize(3);
    harness.write("");
    assert_eq!(harness.keys("ctrl+alt+s ctrl+] s"), [Effect::TakeSnapshot, Effect::TakeSnapshot]);
    harness.keys("shift+pageup");
    assert_eq!(harness.keys("ctrl+alt+s"), [Effect::TakeSnapshot]);
}

#[test]
fn impossible_snapshot_is_explained() {
    let new = |source| Viewer::new(source, Bindings::default());
    for (viewer, words) in [
        (new(Source::Live).read_only(), "attached read-only"),
        (new(Source::Live).without_entry(), "its agent does"),
        (new(Source::Recording), "the session has ended"),
        (new(Source::Recording).still_recording(), "use 'nerve attach'"),
    ] {
        let mut harness = Harness::on(viewer.source(), TerminalState::new(Size::new(40, 5)), 5);
        harness.viewer = viewer;
        harness.resize(5);
        harness.write("text");
        assert_eq!(harness.keys("ctrl+] s"), []);
        assert!(harness.message().contains(words), "{}", harness.message());
    }
}

#[test]
fn session_end_needs_confirmation() {
    let mut harness = Harness::live(&["$"], 3);
    assert_eq!(harness.keys("ctrl+] q"), []);
    assert_eq!(harness.viewer.mode(), &Mode::Confirm);
    assert_eq!(harness.keys("n"), []);
    assert_eq!((harness.viewer.mode(), harness.message()), (&Mode::Live, "not ended"));
    assert_eq!(harness.keys("ctrl+] q enter"), []);
    assert_eq!(harness.keys("ctrl+] q y"), [Effect::EndProgram]);
}

#[test]
fn search_in_live_output() {
    let mut harness = Harness::live(&[], 5);
    harness.numbered(50, &[]);
    harness.keys("shift+pageup");
    harness.types("/line 7\n");
    assert_eq!((harness.viewer.found(), harness.viewer.mode()), (Some(6), &Mode::Scrolling));
    harness.keys("q");
    assert!(harness.viewer.pattern().is_none(), "nothing is lit in a program");
}

#[test]
fn live_viewer_cannot_seek() {
    let mut harness = Harness::live(&["$"], 3);
    assert_eq!(harness.keys("shift+pageup p , ."), []);
    assert_eq!(harness.message(), "seeking works only in recordings");
    assert_eq!(harness.keys("r"), [Effect::Redraw]);
}

#[test]
fn prefix_detach_leaves_a_recording() {
    let mut harness = Harness::hundred(5);
    assert_eq!(harness.keys("ctrl+] d ctrl+] q"), [Effect::Quit, Effect::Quit]);
    assert_eq!(harness.keys("ctrl+] ctrl+]"), []);
    assert_eq!(harness.key(Key::char('j')), None);
}

#[test]
fn cleared_message_changes_status_line() {
    for input in [Input::Paste("x".into()), Input::Key(key("n"))] {
        let mut harness = Harness::live(&["$"], 3);
        harness.keys("ctrl+] q");
        let before = harness.viewer.status_line();
        harness.input(input);
        assert_eq!(harness.viewer.mode(), &Mode::Live);
        assert_ne!(harness.viewer.status_line(), before);
    }
    let mut harness = Harness::live(&["$"], 3);
    let before = harness.viewer.status_line();
    harness.keys("a");
    assert_eq!(harness.viewer.status_line(), before);
}

#[test]
fn narrow_window_follows_cursor() {
    let mut harness = Harness::on(Source::Live, TerminalState::new(Size::new(40, 5)), 5);
    let left = |harness: &mut Harness, text: &str| {
        harness.write(text);
        harness.viewer.left()
    };
    assert_eq!(left(&mut harness, "\x1b[1;20H"), 0);
    assert_eq!(left(&mut harness, "\x1b[1;31H"), 11);
    assert_eq!(left(&mut harness, "\x1b[1;15H"), 11, "as long as it is in the window that stays");
    assert_eq!(left(&mut harness, "\x1b[1;5H"), 0);
    assert_eq!(left(&mut harness, "\x1b[?25l\x1b[1;40H"), 0, "a hidden cursor is not followed");
}

#[test]
fn entry_stays_below_its_line_after_reflow() {
    let mut harness = Harness::live(&[], 12);
    harness.write(&"a".repeat(50));
    harness.write(&format!("\r\n{}", "b".repeat(30)));
    harness.snapshot(1);
    harness.write("\r\nc");
    harness.keys("ctrl+shift+up");
    for cols in [10, 40, 17, 60] {
        harness.terminal.resize(Size::new(cols, 12));
        harness.write("");
        let Some(Target::Snapshot { line, .. }) = harness.viewer.entry().unwrap().target() else { panic!() };
        assert!(harness.document().text(line).unwrap().starts_with('b'), "line {line} at {cols} columns");
        assert_eq!(harness.viewer.viewport().entry_line(), Some(line));
    }
}

#[test]
fn matches_are_counted_during_output() {
    let mut harness = Harness::live(&["x", "x", "x", "x"], 3);
    harness.keys("shift+pageup");
    harness.types("/x\n");
    assert_eq!(harness.viewer.matches(), Some((Some(1), Some(4))));
    let more = |harness: &mut Harness, text: &str| {
        harness.write(text);
        while harness.viewer.advance_search(&Document::live(&harness.terminal)) {}
        harness.viewer.matches().unwrap().1
    };
    assert_eq!(more(&mut harness, "\r\nx\r\nx"), Some(6));
    assert_eq!(more(&mut harness, "\rxx"), Some(7), "in a line of the screen that is written anew");
    assert_eq!(more(&mut harness, "\x1b[3J"), Some(4), "without those that were forgotten");
}

#[test]
fn read_only_input_is_rejected() {
    let mut harness = Harness::live(&["one", "two"], 5);
    harness.snapshot(1);
    harness.viewer = Viewer::new(Source::Live, Bindings::default()).read_only();
    harness.resize(5);
    harness.write("");
    for keys in ["ctrl+] q", "ctrl+shift+up", "ctrl+] i", "ctrl+] [ i", "q"] {
        assert!(harness.keys(keys).is_empty(), "{keys}");
        assert!(harness.viewer.entry().is_none() && *harness.viewer.mode() != Mode::Confirm, "{keys}");
        let refused =
            harness.viewer.message().is_some_and(|message| message.starts_with("attached read-only"));
        assert_eq!(refused, keys != "q", "{keys}: {:?}", harness.viewer.message());
    }
}
