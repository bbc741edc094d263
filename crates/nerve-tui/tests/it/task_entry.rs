//! The task entry: each rule has its test.

use nerve_tui::view::keys::{Code, Input, Key};
use nerve_tui::view::viewer::{Effect, Mode, Source, Submission, Target};
use nerve_tui::view::viewport::Row;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::TerminalState;

use crate::Harness;

/// A program that has written a hundred lines, with snapshots on these, in ten rows.
fn live(snapshots: &[u64]) -> Harness {
    let mut harness = Harness::live(&[], 10);
    harness.numbered(100, snapshots);
    harness
}

fn at(line: u64) -> Option<Target> {
    Some(Target::Snapshot { id: line, line: line - 1 })
}

fn target(harness: &Harness) -> Option<Target> {
    harness.viewer.entry()?.target()
}

fn text(harness: &Harness) -> String {
    harness.viewer.entry().unwrap().text()
}

#[test]
fn live_viewer_has_no_entry_at_first() {
    let mut harness = live(&[20, 95]);
    assert!(harness.viewer.entry().is_none());
    assert_eq!(harness.keys("ctrl+shift+up"), []);
    assert_eq!((target(&harness), harness.viewer.mode()), (at(95), &Mode::Entry), "the latest snapshot");
}

#[test]
fn latest_snapshot_is_the_last_taken() {
    let mut harness = live(&[]);
    harness.snapshot(1);
    harness.write("\x1b[3A");
    harness.snapshot(2);
    harness.keys("ctrl+shift+up");
    assert_eq!(target(&harness), Some(Target::Snapshot { id: 2, line: 96 }));
    harness.keys("ctrl+shift+down");
    assert_eq!(target(&harness), Some(Target::Snapshot { id: 1, line: 99 }), "the next one down the lines");
}

#[test]
fn recording_opens_entry_at_its_end() {
    let mut harness = Harness::after(&["one", "two", "three", "four", "five"], 6);
    assert_eq!((target(&harness), harness.window()), (Some(Target::End), "three four five - - -".into()));
    harness.types("again");
    assert_eq!(text(&harness), "again");
}

#[test]
fn end_snapshot_is_the_recordings_end() {
    let submitted = |harness: &mut Harness| match harness.keys("x enter").pop() {
        Some(Effect::Branch(submission)) => submission,
        other => panic!("{other:?}"),
    };
    let mut without = Harness::after(&["one", "two"], 6);
    let expected = Submission { snapshot: None, line: 1, text: "x".into() };
    assert_eq!(submitted(&mut without), expected);
    let mut with = Harness::after(&["one", "two", "three\x1b[A"], 6);
    with.snapshot(7);
    assert_eq!(with.window(), "one two three - - -", "not at its cursor's line");
    assert_eq!(submitted(&mut with), Submission { snapshot: Some(7), line: 2, ..expected });
    let mut earlier = Harness::after(&["one"], 6);
    earlier.snapshot(7);
    earlier.write("\r\ntwo");
    assert_eq!(submitted(&mut earlier).snapshot, None, "something was written after it");
}

#[test]
fn entry_moves_between_snapshots() {
    let mut harness = live(&[20, 50, 95]);
    harness.keys("ctrl+shift+up ctrl+shift+up");
    assert_eq!(target(&harness), at(50));
    harness.keys("up");
    assert_eq!(target(&harness), at(20), "Up does too: the text has one row");
    harness.keys("up");
    assert_eq!((target(&harness), harness.message()), (at(20), "no snapshot above"));
    harness.keys("down ctrl+shift+down");
    assert_eq!(target(&harness), at(95));
    harness.keys("ctrl+shift+down");
    assert_eq!((target(&harness), harness.message()), (at(95), "no snapshot below"));
}

#[test]
fn end_follows_the_last_snapshot() {
    let mut harness = Harness::after(&[], 10);
    harness.numbered(50, &[20, 40]);
    assert_eq!(target(&harness), Some(Target::End));
    harness.keys("up");
    assert_eq!(target(&harness), at(40));
    harness.keys("up down down");
    assert_eq!(target(&harness), Some(Target::End));
    harness.keys("down");
    assert_eq!(harness.message(), "no snapshot below");
}

#[test]
fn snapshots_on_one_line_are_separate_stops() {
    let mut harness = live(&[]);
    harness.snapshot(1);
    harness.snapshot(2);
    harness.keys("ctrl+shift+up");
    let on = |id| Some(Target::Snapshot { id, line: 99 });
    assert_eq!(target(&harness), on(2));
    let window = harness.window();
    harness.keys("up");
    assert_eq!((target(&harness), harness.window()), (on(1), window), "it stays where it is");
}

#[test]
fn up_and_down_move_in_the_text_first() {
    let mut harness = live(&[50, 95]);
    harness.keys("ctrl+shift+up a alt+enter b up");
    assert_eq!(target(&harness), at(95), "to the text's first row");
    harness.keys("up");
    assert_eq!(target(&harness), at(50));
    harness.keys("down");
    assert_eq!(target(&harness), at(50), "to its last row");
    harness.keys("down");
    assert_eq!(target(&harness), at(95));
    // The same with rows that are wrapped.
    let mut wrapped = live(&[50, 95]);
    wrapped.keys("ctrl+shift+up");
    wrapped.types("one two three four five");
    wrapped.keys("up");
    assert_eq!(target(&wrapped), at(95));
    wrapped.keys("up");
    assert_eq!(target(&wrapped), at(50));
    wrapped.keys("ctrl+shift+up");
    assert_eq!(wrapped.message(), "no snapshot above", "those keys never are the text's");
}

#[test]
fn visible_snapshot_with_room_does_not_scroll() {
    let mut harness = live(&[92, 94]);
    assert_eq!(harness.window(), "91 92 93 94 95 96 97 98 99 100");
    harness.keys("ctrl+shift+up");
    assert_eq!(harness.window(), "91 92 93 94 - - - [95] [96] [97]");
    harness.keys("ctrl+shift+up");
    assert_eq!(harness.window(), "91 92 - - - [93] [94] [95] [96] [97]");
}

#[test]
fn snapshot_without_room_is_centred() {
    let mut harness = live(&[60, 98]);
    harness.keys("ctrl+shift+up");
    assert_eq!(
        harness.window(),
        "96 97 98 - - - [99] [100]".replace("96", "94 95 96"),
        "as far as there are lines"
    );
    let mut fits = live(&[97]);
    fits.keys("ctrl+shift+up");
    assert_eq!(fits.window(), "91 92 93 94 95 96 97 - - -", "it just fits");
}

#[test]
fn hidden_snapshot_is_centred() {
    for rows in [3, 4, 9, 10, 11, 12] {
        let mut harness = Harness::live(&[], rows);
        harness.numbered(100, &[40, 100]);
        harness.keys("ctrl+shift+up ctrl+shift+up");
        let shown: Vec<Row> = harness.viewer.viewport().rows().collect();
        let is_line = |row: &&Row| matches!(row, Row::Line { .. });
        let above = shown.iter().take_while(is_line).count();
        let below = shown.iter().rev().take_while(is_line).count();
        assert!(below == above || below == above + 1, "{above} {below}: {}", harness.window());
    }
}

#[test]
fn output_does_not_scroll_an_open_entry() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up");
    let window = harness.window();
    for number in 101..150 {
        harness.write(&format!("\r\nline {number}"));
        assert_eq!(harness.window(), window);
    }
    harness.keys("esc esc");
    assert_eq!(harness.viewer.mode(), &Mode::Live);
    assert_eq!(harness.window(), "140 141 142 143 144 145 146 147 148 149", "it follows again");
}

#[test]
fn entry_scrolls_with_its_line() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up");
    assert_eq!(harness.window(), "91 92 93 94 - - - [95] [96] [97]");
    harness.viewer.wheel(-2);
    assert_eq!(harness.window(), "89 90 91 92 93 94 - - - [95]");
    harness.viewer.wheel(6);
    assert_eq!(harness.window(), "94 - - - [95] [96] [97] [98] [99] [100]", "as far as there is something");
    harness.keys("pageup");
    assert_eq!(harness.window(), "84 85 86 87 88 89 90 91 92 93");
    harness.keys("ctrl+home");
    assert_eq!((harness.first(), target(&harness)), ("line 1".into(), at(94)));
    harness.keys("pagedown ctrl+end");
    assert_eq!(harness.window(), "94 - - - [95] [96] [97] [98] [99] [100]");
    // Who types sees what is typed.
    harness.keys("ctrl+home x");
    assert!(harness.window().contains("94 - - -"), "{}", harness.window());
}

#[test]
fn lines_below_the_entry_are_dimmed() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up");
    let dimmed = harness.viewer.viewport().rows().filter_map(|row| match row {
        Row::Line { number, dimmed } => Some((number, dimmed)),
        _ => None,
    });
    assert!(dimmed.into_iter().all(|(number, dimmed)| dimmed == (number > 93)));
}

#[test]
fn esc_closes_entry_and_keeps_text() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up");
    harness.types("half a thou");
    harness.keys("esc");
    assert!(harness.viewer.entry().is_none());
    assert_eq!(harness.viewer.mode(), &Mode::Scrolling);
    harness.keys("ctrl+shift+up");
    assert_eq!(text(&harness), "half a thou");
}

#[test]
fn esc_twice_leaves() {
    let mut recording = Harness::after(&["one"], 6);
    assert_eq!(recording.keys("esc"), []);
    assert_eq!(recording.message(), "press Esc again to leave");
    assert_eq!(recording.keys("esc"), [Effect::Quit]);
    let mut recording = Harness::after(&["one"], 6);
    assert_eq!(recording.keys("esc j esc"), []);
    assert_eq!(recording.keys("esc"), [Effect::Quit]);
    // Where a program runs it leads back to it.
    let mut program = live(&[94]);
    assert_eq!(program.keys("ctrl+shift+up esc"), []);
    assert_eq!(program.message(), "press Esc again to return to the program");
    assert_eq!(program.keys("esc"), []);
    assert_eq!(program.viewer.mode(), &Mode::Live);
}

#[test]
fn i_opens_entry_at_current_snapshot() {
    let mut harness = Harness::new(&[], 10);
    harness.numbered(100, &[20, 40, 43]);
    harness.keys("3 5 g i");
    assert_eq!(target(&harness), at(43), "the last line that is seen is 44");
    harness.keys("esc j 2 2 g i");
    assert_eq!(target(&harness), at(20), "above the window: it comes into sight");
    assert!(harness.window().contains("20 - - - [21]"), "{}", harness.window());
    harness.keys("esc j g");
    harness.types("/line 41\n");
    harness.keys("i");
    assert_eq!(target(&harness), at(40), "of the match, not of the window's last line");
    harness.keys("esc j g alt+u i");
    assert_eq!(harness.message(), "no snapshot at this line or above it");
    harness.keys("G i");
    assert_eq!(target(&harness), Some(Target::End));
}

#[test]
fn no_snapshots_no_entry() {
    let mut harness = live(&[]);
    harness.keys("ctrl+shift+up");
    assert_eq!(harness.message(), "no snapshot to branch from yet");
    harness.keys("shift+pageup i");
    assert_eq!(harness.message(), "there are no snapshots");
    assert!(harness.viewer.entry().is_none());
}

#[test]
fn enter_submits_and_keeps_text_until_delivery() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up");
    assert_eq!(harness.keys("enter"), []);
    assert_eq!(harness.message(), "the task is empty; 'esc' closes it");
    harness.keys("space alt+enter");
    assert_eq!(harness.keys("enter"), [], "blanks are nothing");
    harness.keys("ctrl+z ctrl+z ctrl+z ctrl+u backspace backspace");
    harness.types("try it");
    let submission = Submission { snapshot: Some(94), line: 93, text: "try it".into() };
    assert_eq!(harness.keys("enter"), [Effect::Branch(submission.clone())]);
    assert!(harness.viewer.entry().unwrap().is_sent());
    assert_eq!(harness.keys("enter x"), [], "not twice, and it is not changed meanwhile");
    assert_eq!(
        (text(&harness), harness.message()),
        ("try it".into(), "the task is being delivered: wait for it")
    );
    harness.viewer.branch_failed("no such model");
    assert_eq!((text(&harness), harness.message()), ("try it".into(), "no such model"));
    assert_eq!(harness.keys("enter"), [Effect::Branch(submission)]);
    harness.viewer.branch_created();
    assert_eq!((harness.viewer.mode(), harness.viewer.entry().is_none()), (&Mode::Live, true));
    harness.keys("ctrl+shift+up");
    assert_eq!(text(&harness), "");
}

#[test]
fn accepts_line_breaks_and_pastes() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up a alt+enter b shift+enter c ctrl+j d");
    assert_eq!(text(&harness), "a\nb\nc\nd");
    assert_eq!(harness.input(Input::Paste("1\r\n2\r3\x1b[31m\n".into())), None);
    assert_eq!(text(&harness), "a\nb\nc\nd1\n2\n3[31m\n", "whole, and nothing that controls a terminal");
    harness.input(Input::Paste("x".repeat(40_000)));
    assert_eq!(harness.message(), "task longer than 32 KiB: put it into a file that the agent can read");
    assert_eq!(text(&harness).len(), 17, "nothing of it");
}

#[test]
fn grows_to_a_third_of_the_window() {
    let mut harness = Harness::live(&[], 15);
    harness.numbered(100, &[90]);
    harness.keys("ctrl+shift+up");
    let height = |harness: &Harness| harness.viewer.viewport().entry().unwrap();
    assert_eq!(height(&harness), (5, 3));
    harness.keys("alt+enter");
    assert_eq!(height(&harness), (5, 4));
    harness.keys("alt+enter alt+enter alt+enter");
    assert_eq!(height(&harness), (5, 5), "at its place");
    harness.keys("backspace backspace backspace backspace");
    assert_eq!(height(&harness), (5, 3));
    harness.types("wide enough to be wrapped");
    assert_eq!(height(&harness), (5, 4), "18 columns of text");
    harness.resize(6);
    assert_eq!(height(&harness).1, 3);
    harness.resize(2);
    assert_eq!(height(&harness).1, 2);
    harness.resize(1);
    assert_eq!(height(&harness).1, 1);
    harness.resize(30);
    assert_eq!(height(&harness).1, 4);
}

#[test]
fn entry_returns_to_its_line_after_time_travel() {
    let mut harness = Harness::after(&[], 10);
    harness.numbered(50, &[20, 40]);
    harness.keys("up");
    let window = harness.window();
    let whole = std::mem::replace(&mut harness.terminal, TerminalState::new(Size::new(40, 5)));
    harness.write("line 1\r\nline 2");
    assert_eq!(harness.window(), "1 2 - - - ~ ~ ~ ~ ~");
    harness.terminal = whole;
    harness.write("");
    harness.keys("ctrl+end");
    assert!(harness.window().contains("39 40 - - - [41]") || window.contains("40 - - -"));
    assert_eq!(target(&harness), at(40));
}

#[test]
fn entry_at_the_end_follows_time_travel() {
    let mut harness = Harness::after(&["line 1", "line 2", "line 3", "line 4"], 6);
    assert_eq!(harness.window(), "2 3 4 - - -");
    harness.write("\r\nline 5\r\nline 6");
    assert_eq!(harness.window(), "4 5 6 - - -");
    harness.keys("pageup");
    harness.write("\r\nline 7");
    assert_eq!(harness.window(), "1 2 3 4 5 6", "who scrolled away has scrolled away");
}

#[test]
fn loaded_earlier_lines_do_not_scroll() {
    let lines: Vec<String> = (1..=30).map(|number| format!("line {number}")).collect();
    for scrolls in [true, false] {
        let mut harness = Harness::after(&lines[20..].iter().map(String::as_str).collect::<Vec<_>>(), 6);
        if scrolls {
            harness.keys("pageup");
        }
        let window = harness.window();
        harness.terminal = TerminalState::new(Size::new(40, 5));
        harness.terminal.process_data(TsNs(0), lines.join("\r\n").as_bytes());
        harness.viewer.renumber(20);
        harness.write("");
        assert_eq!(harness.window(), window);
    }
}

#[test]
fn entry_stays_visible_in_lower_window() {
    let mut harness = live(&[94]);
    harness.keys("ctrl+shift+up");
    harness.resize(4);
    assert_eq!(harness.window(), "94 - - -");
    harness.keys("ctrl+home");
    harness.resize(3);
    assert_eq!(harness.window(), "1 2 3", "who scrolled away has scrolled away");
}

#[test]
fn scroll_keys_work_after_closing() {
    let mut harness = Harness::after(&["a", "b", "c", "d", "e", "f"], 3);
    harness.types("gj");
    assert_eq!(text(&harness), "gj");
    harness.keys("esc g j");
    assert_eq!(harness.window(), "b c d");
}

#[test]
fn shell_editing_keys_work() {
    let mut harness = Harness::after(&["x"], 9);
    harness.types("one two three");
    harness.keys("ctrl+w");
    assert_eq!(text(&harness), "one two ");
    harness.keys("ctrl+a ctrl+k");
    assert_eq!(text(&harness), "");
    harness.keys("ctrl+y");
    assert_eq!(text(&harness), "one two ");
    harness.keys("ctrl+u ctrl+z");
    assert_eq!(text(&harness), "one two ");
    harness.key(Key { ctrl: true, ..Key::plain(Code::Left) });
    harness.key(Key::plain(Code::Delete));
    assert_eq!(text(&harness), "one wo ");
}

#[test]
fn unfinished_recording_has_no_branch_at_end() {
    let mut harness = Harness::on(Source::Recording, TerminalState::new(Size::new(40, 5)), 6);
    harness.viewer = harness.viewer.clone().still_recording();
    harness.numbered(3, &[]);
    assert_eq!(target(&harness), None, "there is no snapshot yet");
    let mut harness = Harness::on(Source::Recording, TerminalState::new(Size::new(40, 5)), 6);
    harness.viewer = harness.viewer.clone().still_recording();
    harness.terminal.process_data(TsNs(0), b"line 1");
    harness.snapshot(1);
    harness.write("\r\nline 2");
    assert_eq!(target(&harness), at(1), "the latest snapshot");
    harness.keys("ctrl+shift+down");
    assert_eq!((target(&harness), harness.message()), (at(1), "no snapshot below"));
    let asked = harness.keys("x enter").pop();
    assert_eq!(asked, Some(Effect::Branch(Submission { snapshot: Some(1), line: 0, text: "x".into() })));
}

/// Erases all output up to the first snapshot, and takes a second one after it.
fn erase(harness: &mut Harness) {
    harness.snapshot(7);
    harness.write("\x1b[H\x1b[2J\x1b[3Jnew\r\n");
    harness.snapshot(8);
    harness.write("more");
}

const NINE: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

#[test]
fn erased_snapshots_are_explained() {
    let erased = |mut harness: Harness, keys: &str| {
        erase(&mut harness);
        harness.keys(keys);
        harness.message().to_string()
    };
    let after = "the snapshot's lines were erased: go back in time (, or the timeline)";
    assert_eq!(erased(Harness::after(&NINE, 6), "ctrl+shift+up ctrl+shift+up"), after);
    assert_eq!(erased(Harness::new(&NINE, 6), "g ["), after);
}

#[test]
fn live_erased_snapshots_move_to_first_kept_line() {
    let mut harness = Harness::live(&NINE, 6);
    erase(&mut harness);
    let first = harness.document().lines().start;
    harness.keys("ctrl+shift+up");
    assert_eq!(target(&harness), Some(Target::Snapshot { id: 8, line: first + 1 }));
    harness.keys("ctrl+shift+up");
    assert_eq!(target(&harness), Some(Target::Snapshot { id: 7, line: first }));
    assert!(harness.document().has_snapshot(first), "it is marked there");
    let asked = harness.keys("x enter").pop();
    assert_eq!(asked, Some(Effect::Branch(Submission { snapshot: Some(7), line: first, text: "x".into() })));
    harness.viewer.branch_failed("no");
    // All is erased while it is shown.
    harness.write("\x1b[H\x1b[2J\x1b[3Jnewer\r\n");
    let first = harness.document().lines().start;
    assert_eq!(target(&harness), Some(Target::Snapshot { id: 7, line: first }));
    harness.keys("ctrl+shift+down");
    assert_eq!(target(&harness), Some(Target::Snapshot { id: 8, line: first }));
}
