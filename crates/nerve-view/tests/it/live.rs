//! A program that runs: its keys, the prefix, scrolling back.

use nerve_term::event::Size;
use nerve_term::terminal::TerminalState;
use nerve_view::bindings::Bindings;
use nerve_view::document::Document;
use nerve_view::keys::{Input, Key};
use nerve_view::viewer::{Effect, Mode, Source, Target, Viewer};

use crate::{Stage, key};

fn to_program(name: &str) -> Effect {
    Effect::Input(Input::Key(key(name)))
}

#[test]
fn keys_pastes_and_focus_are_the_programs() {
    let mut stage = Stage::live(&["$"], 5);
    let all = "q esc ctrl+c j / ? ctrl+shift+down up pagedown f1 enter alt+v i [ ctrl+z";
    let expected: Vec<Effect> = all.split(' ').map(to_program).collect();
    assert_eq!(stage.keys(all), expected);
    let paste = Input::Paste("two\nlines".into());
    assert_eq!(stage.input(paste.clone()), Some(Effect::Input(paste)));
    assert_eq!(stage.input(Input::Focus(false)), Some(Effect::Input(Input::Focus(false))));
    assert_eq!(stage.viewer.mode(), &Mode::Live);
}

#[test]
fn the_screen_is_shown_with_its_empty_rows_and_not_what_scrolled_off() {
    let mut stage = Stage::live(&["1", "2", "3", "4", "5", "6"], 4);
    assert_eq!(stage.window(), "3 4 5 6");
    stage.write("\x1b[H\x1b[2Jnew");
    assert_eq!(stage.shown(), ["new", "", "", ""]);
    stage.write("\x1b[?1049h\x1b[Hfull");
    assert_eq!(stage.shown(), ["full", "", "", ""]);
    stage.write("\x1b[?1049l");
    assert_eq!(stage.shown(), ["new", "", "", ""]);
}

#[test]
fn in_a_window_lower_than_the_screen_the_cursor_is_in_sight() {
    let mut stage = Stage::live(&["1", "2", "3"], 10);
    stage.resize(4);
    stage.write("");
    assert_eq!(stage.window(), "1 2 3 ", "the cursor is in line 3");
    stage.write("\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9");
    assert_eq!(stage.window(), "6 7 8 9");
    stage.write("\x1b[H");
    assert_eq!(stage.window(), "1 2 3 4");
}

#[test]
fn an_unfinished_frame_is_not_shown() {
    let mut stage = Stage::live(&["old"], 3);
    stage.write("\x1b[?2026h\x1b[H\x1b[2Jnew");
    assert_eq!(stage.shown(), ["old", "", ""]);
    stage.write("\x1b[?2026l");
    assert_eq!(stage.shown(), ["new", "", ""]);
}

#[test]
fn a_frame_is_shown_even_when_its_lines_were_forgotten_since() {
    let mut stage = Stage::live(&["1", "2", "3"], 2);
    stage.write("\x1b[?2026h\r\n4\r\n5\x1b[3J");
    assert_eq!(stage.shown(), ["2", "3"]);
    stage.write("\x1b[?2026l");
    assert_eq!(stage.shown(), ["4", "5"]);
}

#[test]
fn a_search_that_is_given_up_where_a_program_runs_leads_back_to_its_screen() {
    let mut stage = Stage::live(&["1", "2", "3"], 6);
    stage.resize(2);
    stage.keys("shift+pageup G /");
    stage.write("\r\n4\r\n5\r\n6");
    stage.keys("esc q");
    assert_eq!(stage.window(), "5 6");
}

#[test]
fn scrolling_back_takes_the_keys_until_q_or_esc() {
    for (leave, enter) in
        [("q", "shift+pageup"), ("esc", "pageup"), ("ctrl+c", "ctrl+] ["), ("Q", "ctrl+] pageup")]
    {
        let mut stage = Stage::live(&[], 5);
        stage.numbered(50, &[]);
        assert_eq!(stage.keys(enter), [], "{enter}");
        assert_eq!(stage.viewer.mode(), &Mode::Scrolling);
        stage.keys("g");
        assert_eq!(stage.window(), "1 2 3 4 5");
        stage.write("\r\nmore");
        assert_eq!(stage.window(), "1 2 3 4 5", "what is written does not move it");
        assert_eq!(stage.keys(leave), [], "{leave}");
        assert_eq!((stage.viewer.mode(), stage.window()), (&Mode::Live, "47 48 49 50 more".into()));
        assert_eq!(stage.keys("j"), [to_program("j")]);
    }
}

#[test]
fn pageup_is_a_full_screen_programs_and_shift_pageup_is_not() {
    let mut stage = Stage::live(&["1", "2", "3", "4"], 3);
    stage.write("\x1b[?1049h\x1b[Hfull");
    assert_eq!(stage.keys("pageup"), [to_program("pageup")]);
    assert_eq!(stage.keys("shift+pageup"), []);
    assert_eq!(stage.viewer.mode(), &Mode::Scrolling);
    assert_eq!(stage.window(), "2 3 4", "what was written before it");
}

#[test]
fn the_prefix_has_the_next_key() {
    let mut stage = Stage::live(&["1", "2", "3", "4"], 3);
    stage.snapshot(1);
    assert_eq!(stage.keys("ctrl+]"), []);
    assert!(stage.viewer.awaits_key());
    assert_eq!(stage.keys("ctrl+]"), [to_program("ctrl+]")], "twice is the key itself");
    assert!(!stage.viewer.awaits_key());
    assert_eq!(stage.keys("ctrl+] d"), [Effect::Detach]);
    assert_eq!(stage.keys("ctrl+] y"), [Effect::Copy("2\n3\n4".into())]);
    assert_eq!(stage.keys("ctrl+] esc j"), [to_program("j")], "Esc takes it back");
    assert_eq!(stage.keys("ctrl+] up"), []);
    assert_eq!(stage.viewer.mode(), &Mode::Entry);
    stage.keys("esc esc");
    for help in ["?", "h"] {
        stage.keys(&format!("ctrl+] {help}"));
        assert_eq!(stage.viewer.mode(), &Mode::Help(0));
        stage.keys("q");
        assert_eq!(stage.viewer.mode(), &Mode::Live);
    }
    stage.keys("ctrl+] w");
    assert_eq!(stage.message(), "'w' means nothing after ctrl+]; '?' shows what does");
    assert_eq!(stage.keys("w"), [to_program("w")]);
}

#[test]
fn a_snapshot_is_asked_for_from_all_that_a_program_is_shown_in() {
    let mut stage = Stage::live(&["1", "2", "3", "4"], 3);
    stage.snapshot(1);
    assert_eq!(stage.keys("ctrl+] s"), [Effect::TakeSnapshot]);
    assert_eq!(stage.keys("s"), [to_program("s")], "one key after the prefix");
    for (way, mode) in [("ctrl+] [", Mode::Scrolling), ("ctrl+shift+up", Mode::Entry)] {
        assert_eq!(stage.keys(way), []);
        assert_eq!(stage.keys("ctrl+] s"), [Effect::TakeSnapshot], "{way}");
        assert_eq!(stage.viewer.mode(), &mode, "what is done goes on");
        stage.keys("esc esc");
    }
    let bindings = Bindings::with(&[("snapshot".into(), vec!["ctrl+alt+s".into()])]).unwrap();
    stage.viewer = Viewer::new(Source::Live, bindings);
    stage.resize(3);
    stage.write("");
    assert_eq!(stage.keys("ctrl+alt+s ctrl+] s"), [Effect::TakeSnapshot, Effect::TakeSnapshot]);
    stage.keys("shift+pageup");
    assert_eq!(stage.keys("ctrl+alt+s"), [Effect::TakeSnapshot]);
}

#[test]
fn where_no_snapshot_can_be_taken_that_is_told() {
    let new = |source| Viewer::new(source, Bindings::default());
    for (viewer, words) in [
        (new(Source::Live).reading_only(), "attached for reading only"),
        (new(Source::Live).without_entry(), "its agent does"),
        (new(Source::Recording), "the session has ended"),
        (new(Source::Recording).of_running(), "'nerve attach' shows what runs"),
    ] {
        let mut stage = Stage::on(viewer.source(), TerminalState::new(Size::new(40, 5)), 5);
        stage.viewer = viewer;
        stage.resize(5);
        stage.write("text");
        assert_eq!(stage.keys("ctrl+] s"), []);
        assert!(stage.message().contains(words), "{}", stage.message());
    }
}

#[test]
fn the_session_is_ended_only_when_that_is_confirmed() {
    let mut stage = Stage::live(&["$"], 3);
    assert_eq!(stage.keys("ctrl+] q"), []);
    assert_eq!(stage.viewer.mode(), &Mode::Confirm);
    assert_eq!(stage.keys("n"), []);
    assert_eq!((stage.viewer.mode(), stage.message()), (&Mode::Live, "it goes on"));
    assert_eq!(stage.keys("ctrl+] q enter"), []);
    assert_eq!(stage.keys("ctrl+] q y"), [Effect::EndProgram]);
}

#[test]
fn text_is_found_in_what_a_program_wrote() {
    let mut stage = Stage::live(&[], 5);
    stage.numbered(50, &[]);
    stage.keys("shift+pageup");
    stage.types("/line 7\n");
    assert_eq!((stage.viewer.found(), stage.viewer.mode()), (Some(6), &Mode::Scrolling));
    stage.keys("q");
    assert!(stage.viewer.pattern().is_none(), "nothing is lit in a program");
}

#[test]
fn a_program_has_no_time_to_go_through() {
    let mut stage = Stage::live(&["$"], 3);
    assert_eq!(stage.keys("shift+pageup p , ."), []);
    assert_eq!(stage.message(), "what runs cannot be gone through in time: a recording can");
    assert_eq!(stage.keys("r"), [Effect::Redraw]);
}

#[test]
fn in_a_recording_the_prefix_leaves_too() {
    let mut stage = Stage::hundred(5);
    assert_eq!(stage.keys("ctrl+] d ctrl+] q"), [Effect::Quit, Effect::Quit]);
    assert_eq!(stage.keys("ctrl+] ctrl+]"), []);
    assert_eq!(stage.key(Key::char('j')), None);
}

#[test]
fn what_is_told_no_more_is_another_picture() {
    for input in [Input::Paste("x".into()), Input::Key(key("n"))] {
        let mut stage = Stage::live(&["$"], 3);
        stage.keys("ctrl+] q");
        let before = stage.viewer.told();
        stage.input(input);
        assert_eq!(stage.viewer.mode(), &Mode::Live);
        assert_ne!(stage.viewer.told(), before);
    }
    let mut stage = Stage::live(&["$"], 3);
    let before = stage.viewer.told();
    stage.keys("a");
    assert_eq!(stage.viewer.told(), before);
}

#[test]
fn a_window_narrower_than_the_screen_goes_with_the_cursor() {
    let mut stage = Stage::on(Source::Live, TerminalState::new(Size::new(40, 5)), 5);
    let left = |stage: &mut Stage, text: &str| {
        stage.write(text);
        stage.viewer.left()
    };
    assert_eq!(left(&mut stage, "\x1b[1;20H"), 0);
    assert_eq!(left(&mut stage, "\x1b[1;31H"), 11);
    assert_eq!(left(&mut stage, "\x1b[1;15H"), 11, "as long as it is in the window that stays");
    assert_eq!(left(&mut stage, "\x1b[1;5H"), 0);
    assert_eq!(left(&mut stage, "\x1b[?25l\x1b[1;40H"), 0, "nobody sees it");
}

#[test]
fn the_task_entry_stays_below_its_text_when_that_is_wrapped_anew() {
    let mut stage = Stage::live(&[], 12);
    stage.write(&"a".repeat(50));
    stage.write(&format!("\r\n{}", "b".repeat(30)));
    stage.snapshot(1);
    stage.write("\r\nc");
    stage.keys("ctrl+shift+up");
    for cols in [10, 40, 17, 60] {
        stage.terminal.resize(Size::new(cols, 12));
        stage.write("");
        let Some(Target::Snapshot { line, .. }) = stage.viewer.entry().unwrap().target() else { panic!() };
        assert!(stage.document().text(line).unwrap().starts_with('b'), "line {line} at {cols} columns");
        assert_eq!(stage.viewer.viewport().entry_line(), Some(line));
    }
}

#[test]
fn matches_are_counted_while_lines_come() {
    let mut stage = Stage::live(&["x", "x", "x", "x"], 3);
    stage.keys("shift+pageup");
    stage.types("/x\n");
    assert_eq!(stage.viewer.matches(), Some((Some(1), Some(4))));
    let more = |stage: &mut Stage, text: &str| {
        stage.write(text);
        while stage.viewer.work(&Document::live(&stage.terminal)) {}
        stage.viewer.matches().unwrap().1
    };
    assert_eq!(more(&mut stage, "\r\nx\r\nx"), Some(6));
    assert_eq!(more(&mut stage, "\rxx"), Some(7), "in a line of the screen that is written anew");
    assert_eq!(more(&mut stage, "\x1b[3J"), Some(4), "without those that were forgotten");
}

#[test]
fn who_only_looks_is_told_so_at_once() {
    let mut stage = Stage::live(&["one", "two"], 5);
    stage.snapshot(1);
    stage.viewer = Viewer::new(Source::Live, Bindings::default()).reading_only();
    stage.resize(5);
    stage.write("");
    for keys in ["ctrl+] q", "ctrl+shift+up", "ctrl+] i", "ctrl+] [ i", "q"] {
        assert!(stage.keys(keys).is_empty(), "{keys}");
        assert!(stage.viewer.entry().is_none() && *stage.viewer.mode() != Mode::Confirm, "{keys}");
        let told = stage.viewer.message().is_some_and(|told| told.starts_with("attached for reading only"));
        assert_eq!(told, keys != "q", "{keys}: {:?}", stage.viewer.message());
    }
}
