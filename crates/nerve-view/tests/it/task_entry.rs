//! The task entry: each rule of the seed (agent-record §6) has its test.

use nerve_term::event::{Size, TsNs};
use nerve_term::terminal::TerminalState;
use nerve_view::keys::{Code, Input, Key};
use nerve_view::viewer::{Effect, Mode, Source, Submission, Target};
use nerve_view::viewport::Row;

use crate::Stage;

/// A program that has written a hundred lines, with snapshots on these, in ten rows.
fn live(snapshots: &[u64]) -> Stage {
    let mut stage = Stage::live(&[], 10);
    stage.numbered(100, snapshots);
    stage
}

fn at(line: u64) -> Option<Target> {
    Some(Target::Snapshot { id: line, line: line - 1 })
}

fn target(stage: &Stage) -> Option<Target> {
    stage.viewer.entry()?.target()
}

fn text(stage: &Stage) -> String {
    stage.viewer.entry().unwrap().text()
}

#[test]
fn a_program_has_none_until_it_is_asked_for() {
    let mut stage = live(&[20, 95]);
    assert!(stage.viewer.entry().is_none());
    assert_eq!(stage.keys("ctrl+shift+up"), []);
    assert_eq!((target(&stage), stage.viewer.mode()), (at(95), &Mode::Entry), "the latest snapshot");
}

#[test]
fn the_latest_snapshot_is_the_one_taken_last_not_the_lowest() {
    let mut stage = live(&[]);
    stage.snapshot(1);
    stage.write("\x1b[3A");
    stage.snapshot(2);
    stage.keys("ctrl+shift+up");
    assert_eq!(target(&stage), Some(Target::Snapshot { id: 2, line: 96 }));
    stage.keys("ctrl+shift+down");
    assert_eq!(target(&stage), Some(Target::Snapshot { id: 1, line: 99 }), "the next one down the lines");
}

#[test]
fn a_recording_has_it_at_once_at_the_very_bottom_and_it_is_typed_into() {
    let mut stage = Stage::after(&["one", "two", "three", "four", "five"], 6);
    assert_eq!((target(&stage), stage.window()), (Some(Target::End), "three four five - - -".into()));
    stage.types("go on");
    assert_eq!(text(&stage), "go on");
}

#[test]
fn a_recordings_end_is_its_end_snapshot_if_it_has_one() {
    let submitted = |stage: &mut Stage| match stage.keys("x enter").pop() {
        Some(Effect::Branch(submission)) => submission,
        other => panic!("{other:?}"),
    };
    let mut without = Stage::after(&["one", "two"], 6);
    let expected = Submission { snapshot: None, line: 1, text: "x".into() };
    assert_eq!(submitted(&mut without), expected);
    let mut with = Stage::after(&["one", "two", "three\x1b[A"], 6);
    with.snapshot(7);
    assert_eq!(with.window(), "one two three - - -", "not at its cursor's line");
    assert_eq!(submitted(&mut with), Submission { snapshot: Some(7), line: 2, ..expected });
    let mut earlier = Stage::after(&["one"], 6);
    earlier.snapshot(7);
    earlier.write("\r\ntwo");
    assert_eq!(submitted(&mut earlier).snapshot, None, "something was written after it");
}

#[test]
fn it_moves_from_snapshot_to_snapshot_and_stays_at_the_last() {
    let mut stage = live(&[20, 50, 95]);
    stage.keys("ctrl+shift+up ctrl+shift+up");
    assert_eq!(target(&stage), at(50));
    stage.keys("up");
    assert_eq!(target(&stage), at(20), "Up does too: the text has one row");
    stage.keys("up");
    assert_eq!((target(&stage), stage.message()), (at(20), "no snapshot above"));
    stage.keys("down ctrl+shift+down");
    assert_eq!(target(&stage), at(95));
    stage.keys("ctrl+shift+down");
    assert_eq!((target(&stage), stage.message()), (at(95), "no snapshot below"));
}

#[test]
fn in_a_recording_below_the_last_snapshot_is_the_end() {
    let mut stage = Stage::after(&[], 10);
    stage.numbered(50, &[20, 40]);
    assert_eq!(target(&stage), Some(Target::End));
    stage.keys("up");
    assert_eq!(target(&stage), at(40));
    stage.keys("up down down");
    assert_eq!(target(&stage), Some(Target::End));
    stage.keys("down");
    assert_eq!(stage.message(), "no snapshot below");
}

#[test]
fn several_snapshots_on_one_line_are_gone_through_one_by_one() {
    let mut stage = live(&[]);
    stage.snapshot(1);
    stage.snapshot(2);
    stage.keys("ctrl+shift+up");
    let on = |id| Some(Target::Snapshot { id, line: 99 });
    assert_eq!(target(&stage), on(2));
    let window = stage.window();
    stage.keys("up");
    assert_eq!((target(&stage), stage.window()), (on(1), window), "it stays where it is");
}

#[test]
fn up_and_down_go_through_the_text_first() {
    let mut stage = live(&[50, 95]);
    stage.keys("ctrl+shift+up a alt+enter b up");
    assert_eq!(target(&stage), at(95), "to the text's first row");
    stage.keys("up");
    assert_eq!(target(&stage), at(50));
    stage.keys("down");
    assert_eq!(target(&stage), at(50), "to its last row");
    stage.keys("down");
    assert_eq!(target(&stage), at(95));
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
fn a_snapshot_that_is_visible_with_room_below_stays_in_its_row_and_nothing_scrolls() {
    let mut stage = live(&[92, 94]);
    assert_eq!(stage.window(), "91 92 93 94 95 96 97 98 99 100");
    stage.keys("ctrl+shift+up");
    assert_eq!(stage.window(), "91 92 93 94 - - - [95] [96] [97]");
    stage.keys("ctrl+shift+up");
    assert_eq!(stage.window(), "91 92 - - - [93] [94] [95] [96] [97]");
}

#[test]
fn a_snapshot_without_room_below_it_is_centred() {
    let mut stage = live(&[60, 98]);
    stage.keys("ctrl+shift+up");
    assert_eq!(
        stage.window(),
        "96 97 98 - - - [99] [100]".replace("96", "94 95 96"),
        "as far as there are lines"
    );
    let mut fits = live(&[97]);
    fits.keys("ctrl+shift+up");
    assert_eq!(fits.window(), "91 92 93 94 95 96 97 - - -", "it just fits");
}

#[test]
fn a_snapshot_out_of_sight_is_centred_with_at_most_one_line_more_below() {
    for rows in [3, 4, 9, 10, 11, 12] {
        let mut stage = Stage::live(&[], rows);
        stage.numbered(100, &[40, 100]);
        stage.keys("ctrl+shift+up ctrl+shift+up");
        let shown: Vec<Row> = stage.viewer.viewport().rows().collect();
        let is_line = |row: &&Row| matches!(row, Row::Line { .. });
        let above = shown.iter().take_while(is_line).count();
        let below = shown.iter().rev().take_while(is_line).count();
        assert!(below == above || below == above + 1, "{above} {below}: {}", stage.window());
    }
}

#[test]
fn what_is_written_moves_nothing_while_it_is_shown() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up");
    let window = stage.window();
    for number in 101..150 {
        stage.write(&format!("\r\nline {number}"));
        assert_eq!(stage.window(), window);
    }
    stage.keys("esc esc");
    assert_eq!(stage.viewer.mode(), &Mode::Live);
    assert_eq!(stage.window(), "140 141 142 143 144 145 146 147 148 149", "it follows again");
}

#[test]
fn scrolling_takes_it_along_with_its_snapshot() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up");
    assert_eq!(stage.window(), "91 92 93 94 - - - [95] [96] [97]");
    stage.viewer.wheel(-2);
    assert_eq!(stage.window(), "89 90 91 92 93 94 - - - [95]");
    stage.viewer.wheel(6);
    assert_eq!(stage.window(), "94 - - - [95] [96] [97] [98] [99] [100]", "as far as there is something");
    stage.keys("pageup");
    assert_eq!(stage.window(), "84 85 86 87 88 89 90 91 92 93");
    stage.keys("ctrl+home");
    assert_eq!((stage.first(), target(&stage)), ("line 1".into(), at(94)));
    stage.keys("pagedown ctrl+end");
    assert_eq!(stage.window(), "94 - - - [95] [96] [97] [98] [99] [100]");
    // Who types sees what is typed.
    stage.keys("ctrl+home x");
    assert!(stage.window().contains("94 - - -"), "{}", stage.window());
}

#[test]
fn lines_below_it_are_dimmed() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up");
    let dimmed = stage.viewer.viewport().rows().filter_map(|row| match row {
        Row::Line { number, dimmed } => Some((number, dimmed)),
        _ => None,
    });
    assert!(dimmed.into_iter().all(|(number, dimmed)| dimmed == (number > 93)));
}

#[test]
fn esc_closes_it_and_its_text_is_kept() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up");
    stage.types("half a thou");
    stage.keys("esc");
    assert!(stage.viewer.entry().is_none());
    assert_eq!(stage.viewer.mode(), &Mode::Scrolling);
    stage.keys("ctrl+shift+up");
    assert_eq!(text(&stage), "half a thou");
}

#[test]
fn esc_twice_leaves_and_any_other_key_disarms_it() {
    let mut recording = Stage::after(&["one"], 6);
    assert_eq!(recording.keys("esc"), []);
    assert_eq!(recording.message(), "Esc once more to leave");
    assert_eq!(recording.keys("esc"), [Effect::Quit]);
    let mut recording = Stage::after(&["one"], 6);
    assert_eq!(recording.keys("esc j esc"), []);
    assert_eq!(recording.keys("esc"), [Effect::Quit]);
    // Where a program runs it leads back to it.
    let mut program = live(&[94]);
    assert_eq!(program.keys("ctrl+shift+up esc"), []);
    assert_eq!(program.message(), "Esc once more: back to the program");
    assert_eq!(program.keys("esc"), []);
    assert_eq!(program.viewer.mode(), &Mode::Live);
}

#[test]
fn i_inserts_it_at_the_snapshot_of_what_is_seen() {
    let mut stage = Stage::new(&[], 10);
    stage.numbered(100, &[20, 40, 43]);
    stage.keys("3 5 g i");
    assert_eq!(target(&stage), at(43), "the last line that is seen is 44");
    stage.keys("esc j 2 2 g i");
    assert_eq!(target(&stage), at(20), "above the window: it comes into sight");
    assert!(stage.window().contains("20 - - - [21]"), "{}", stage.window());
    stage.keys("esc j g");
    stage.types("/line 41\n");
    stage.keys("i");
    assert_eq!(target(&stage), at(40), "of the match, not of the window's last line");
    stage.keys("esc j g alt+u i");
    assert_eq!(stage.message(), "no snapshot at this line or above it");
    stage.keys("G i");
    assert_eq!(target(&stage), Some(Target::End));
}

#[test]
fn without_snapshots_there_is_nothing_to_go_on_from() {
    let mut stage = live(&[]);
    stage.keys("ctrl+shift+up");
    assert_eq!(stage.message(), "there is no snapshot yet that the agent could go on from");
    stage.keys("shift+pageup i");
    assert_eq!(stage.message(), "there are no snapshots");
    assert!(stage.viewer.entry().is_none());
}

#[test]
fn enter_submits_with_the_snapshot_and_the_text_stays_until_it_has_arrived() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up");
    assert_eq!(stage.keys("enter"), []);
    assert_eq!(stage.message(), "nothing is typed yet; 'esc' closes this");
    stage.keys("space alt+enter");
    assert_eq!(stage.keys("enter"), [], "blanks are nothing");
    stage.keys("ctrl+z ctrl+z ctrl+z ctrl+u backspace backspace");
    stage.types("try it");
    let submission = Submission { snapshot: Some(94), line: 93, text: "try it".into() };
    assert_eq!(stage.keys("enter"), [Effect::Branch(submission.clone())]);
    assert!(stage.viewer.entry().unwrap().is_sent());
    assert_eq!(stage.keys("enter x"), [], "not twice, and it is not changed meanwhile");
    assert_eq!((text(&stage), stage.message()), ("try it".into(), "this is on its way: wait for it"));
    stage.viewer.refused("no such model");
    assert_eq!((text(&stage), stage.message()), ("try it".into(), "no such model"));
    assert_eq!(stage.keys("enter"), [Effect::Branch(submission)]);
    stage.viewer.submitted();
    assert_eq!((stage.viewer.mode(), stage.viewer.entry().is_none()), (&Mode::Live, true));
    stage.keys("ctrl+shift+up");
    assert_eq!(text(&stage), "");
}

#[test]
fn new_lines_and_pastes_are_text() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up a alt+enter b shift+enter c ctrl+j d");
    assert_eq!(text(&stage), "a\nb\nc\nd");
    assert_eq!(stage.input(Input::Paste("1\r\n2\r3\x1b[31m\n".into())), None);
    assert_eq!(text(&stage), "a\nb\nc\nd1\n2\n3[31m\n", "whole, and nothing that controls a terminal");
    stage.input(Input::Paste("x".repeat(40_000)));
    assert_eq!(stage.message(), "that is more than 32 KiB: put it into a file that the agent can read");
    assert_eq!(text(&stage).len(), 17, "nothing of it");
}

#[test]
fn it_grows_with_its_text_up_to_a_third_of_the_window() {
    let mut stage = Stage::live(&[], 15);
    stage.numbered(100, &[90]);
    stage.keys("ctrl+shift+up");
    let height = |stage: &Stage| stage.viewer.viewport().entry().unwrap();
    assert_eq!(height(&stage), (5, 3));
    stage.keys("alt+enter");
    assert_eq!(height(&stage), (5, 4));
    stage.keys("alt+enter alt+enter alt+enter");
    assert_eq!(height(&stage), (5, 5), "at its place");
    stage.keys("backspace backspace backspace backspace");
    assert_eq!(height(&stage), (5, 3));
    stage.types("wide enough to be wrapped");
    assert_eq!(height(&stage), (5, 4), "18 columns of text");
    stage.resize(6);
    assert_eq!(height(&stage).1, 3);
    stage.resize(2);
    assert_eq!(height(&stage).1, 2);
    stage.resize(1);
    assert_eq!(height(&stage).1, 1);
    stage.resize(30);
    assert_eq!(height(&stage).1, 4);
}

#[test]
fn a_recording_that_is_shown_at_an_earlier_moment_has_it_back_at_its_line_later() {
    let mut stage = Stage::after(&[], 10);
    stage.numbered(50, &[20, 40]);
    stage.keys("up");
    let window = stage.window();
    let whole = std::mem::replace(&mut stage.terminal, TerminalState::new(Size::new(40, 5)));
    stage.write("line 1\r\nline 2");
    assert_eq!(stage.window(), "1 2 - - - ~ ~ ~ ~ ~");
    stage.terminal = whole;
    stage.write("");
    stage.keys("ctrl+end");
    assert!(stage.window().contains("39 40 - - - [41]") || window.contains("40 - - -"));
    assert_eq!(target(&stage), at(40));
}

#[test]
fn at_the_end_of_a_recording_it_stays_there_at_another_moment() {
    let mut stage = Stage::after(&["line 1", "line 2", "line 3", "line 4"], 6);
    assert_eq!(stage.window(), "2 3 4 - - -");
    stage.write("\r\nline 5\r\nline 6");
    assert_eq!(stage.window(), "4 5 6 - - -");
    stage.keys("pageup");
    stage.write("\r\nline 7");
    assert_eq!(stage.window(), "1 2 3 4 5 6", "who scrolled away has scrolled away");
}

#[test]
fn lines_that_are_read_before_those_that_are_shown_move_nothing() {
    let lines: Vec<String> = (1..=30).map(|number| format!("line {number}")).collect();
    for scrolls in [true, false] {
        let mut stage = Stage::after(&lines[20..].iter().map(String::as_str).collect::<Vec<_>>(), 6);
        if scrolls {
            stage.keys("pageup");
        }
        let window = stage.window();
        stage.terminal = TerminalState::new(Size::new(40, 5));
        stage.terminal.process_data(TsNs(0), lines.join("\r\n").as_bytes());
        stage.viewer.renumber(20);
        stage.write("");
        assert_eq!(stage.window(), window);
    }
}

#[test]
fn it_stays_in_sight_when_the_window_gets_lower() {
    let mut stage = live(&[94]);
    stage.keys("ctrl+shift+up");
    stage.resize(4);
    assert_eq!(stage.window(), "94 - - -");
    stage.keys("ctrl+home");
    stage.resize(3);
    assert_eq!(stage.window(), "1 2 3", "who scrolled away has scrolled away");
}

#[test]
fn less_has_its_keys_when_it_is_closed() {
    let mut stage = Stage::after(&["a", "b", "c", "d", "e", "f"], 3);
    stage.types("gj");
    assert_eq!(text(&stage), "gj");
    stage.keys("esc g j");
    assert_eq!(stage.window(), "b c d");
}

#[test]
fn what_a_shell_has_edits_it() {
    let mut stage = Stage::after(&["x"], 9);
    stage.types("one two three");
    stage.keys("ctrl+w");
    assert_eq!(text(&stage), "one two ");
    stage.keys("ctrl+a ctrl+k");
    assert_eq!(text(&stage), "");
    stage.keys("ctrl+y");
    assert_eq!(text(&stage), "one two ");
    stage.keys("ctrl+u ctrl+z");
    assert_eq!(text(&stage), "one two ");
    stage.key(Key { ctrl: true, ..Key::plain(Code::Left) });
    stage.key(Key::plain(Code::Delete));
    assert_eq!(text(&stage), "one wo ");
}

#[test]
fn a_recording_that_is_still_written_has_no_end_to_go_on_from() {
    let mut stage = Stage::on(Source::Recording, TerminalState::new(Size::new(40, 5)), 6);
    stage.viewer = stage.viewer.clone().of_running();
    stage.numbered(3, &[]);
    assert_eq!(target(&stage), None, "there is no snapshot yet");
    let mut stage = Stage::on(Source::Recording, TerminalState::new(Size::new(40, 5)), 6);
    stage.viewer = stage.viewer.clone().of_running();
    stage.terminal.process_data(TsNs(0), b"line 1");
    stage.snapshot(1);
    stage.write("\r\nline 2");
    assert_eq!(target(&stage), at(1), "the latest snapshot");
    stage.keys("ctrl+shift+down");
    assert_eq!((target(&stage), stage.message()), (at(1), "no snapshot below"));
    let asked = stage.keys("x enter").pop();
    assert_eq!(asked, Some(Effect::Branch(Submission { snapshot: Some(1), line: 0, text: "x".into() })));
}

/// What is erased is all there was at the first snapshot; another is taken after it.
fn erase(stage: &mut Stage) {
    stage.snapshot(7);
    stage.write("\x1b[H\x1b[2J\x1b[3Jnew\r\n");
    stage.snapshot(8);
    stage.write("more");
}

const NINE: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

#[test]
fn snapshots_whose_lines_were_erased_are_not_said_to_be_none() {
    let erased = |mut stage: Stage, keys: &str| {
        erase(&mut stage);
        stage.keys(keys);
        stage.message().to_string()
    };
    let after = "the snapshot's lines were erased: go back in time (, or the timeline)";
    assert_eq!(erased(Stage::after(&NINE, 6), "ctrl+shift+up ctrl+shift+up"), after);
    assert_eq!(erased(Stage::new(&NINE, 6), "g ["), after);
}

#[test]
fn of_a_program_that_runs_snapshots_whose_lines_were_erased_stand_at_the_first_that_is_kept() {
    let mut stage = Stage::live(&NINE, 6);
    erase(&mut stage);
    let first = stage.document().lines().start;
    stage.keys("ctrl+shift+up");
    assert_eq!(target(&stage), Some(Target::Snapshot { id: 8, line: first + 1 }));
    stage.keys("ctrl+shift+up");
    assert_eq!(target(&stage), Some(Target::Snapshot { id: 7, line: first }));
    assert!(stage.document().has_snapshot(first), "it is marked there");
    let asked = stage.keys("x enter").pop();
    assert_eq!(asked, Some(Effect::Branch(Submission { snapshot: Some(7), line: first, text: "x".into() })));
    stage.viewer.refused("no");
    // All is erased while it is shown.
    stage.write("\x1b[H\x1b[2J\x1b[3Jnewer\r\n");
    let first = stage.document().lines().start;
    assert_eq!(target(&stage), Some(Target::Snapshot { id: 7, line: first }));
    stage.keys("ctrl+shift+down");
    assert_eq!(target(&stage), Some(Target::Snapshot { id: 8, line: first }));
}
