//! Patterns: as they are typed, what they mean, and windows that show only the lines with one.

use nerve_term::event::{Size, TsNs};
use nerve_view::viewer::{Mode, PromptView};

use crate::{Stage, key};

fn typed(stage: &Stage) -> PromptView {
    match stage.viewer.mode() {
        Mode::Prompt(typed) => typed.clone(),
        other => panic!("nothing is typed: {other:?}"),
    }
}

/// What stands before the cursor, sign and all.
fn prompt(stage: &Stage) -> String {
    let typed = typed(stage);
    format!("{}{}", typed.sign, &typed.text[..typed.cursor])
}

#[test]
fn what_is_no_regular_expression_says_so_and_is_looked_for_as_it_stands() {
    let mut stage = Stage::new(&["a", "f(x)", "b"], 2);
    stage.keys("g");
    stage.types("/f(");
    assert_eq!(typed(&stage).fault.as_deref(), Some("unclosed group"));
    assert_eq!(stage.viewer.found(), Some(1));
    stage.keys("enter");
    assert_eq!(stage.message(), "no regular expression (unclosed group): looked for as it stands");
    stage.types("/nobody(\n");
    assert_eq!(
        stage.message(),
        "'nobody(' is nowhere as it stands, and no regular expression: unclosed group"
    );
    stage.keys("/ ctrl+r");
    stage.types("f(\n");
    assert_eq!((stage.viewer.found(), stage.message()), (Some(1), ""), "that is what was wanted");
}

#[test]
fn lines_without_a_pattern_are_gone_to() {
    let mut stage = Stage::new(&["one", "one two", "three", "one", ""], 2);
    stage.keys("g");
    stage.types("/!one\n");
    assert_eq!((stage.viewer.found(), stage.viewer.matches()), (Some(2), Some((Some(1), Some(2)))));
    stage.keys("n");
    assert_eq!(stage.viewer.found(), Some(4), "an empty one");
    stage.keys("/ ctrl+n");
    assert_eq!(prompt(&stage), "not /");
    stage.keys("backspace");
    assert_eq!(prompt(&stage), "/", "taken back");
    stage.keys("backspace");
    assert_eq!(*stage.viewer.mode(), Mode::Scrolling);
    stage.types("/a!\n");
    assert_eq!(stage.message(), "'a!' is nowhere", "a sign only at the begin");
}

#[test]
fn a_search_from_the_end_of_all_lines_or_where_one_stays() {
    let mut stage = Stage::hundred(10);
    stage.keys("5 0 g");
    stage.types("/@line 1\n");
    assert_eq!((stage.viewer.found(), stage.first()), (Some(0), "line 1".into()));
    stage.keys("5 0 g ? ctrl+f");
    stage.types("9\n");
    assert_eq!(stage.viewer.found(), Some(98));
    stage.keys("g / ctrl+k");
    stage.types("77\n");
    assert_eq!((stage.first().as_str(), stage.viewer.found(), stage.message()), ("line 1", None, ""));
    assert_eq!(stage.viewer.matches(), Some((None, Some(1))));
    stage.keys("n");
    assert_eq!(stage.viewer.found(), Some(76));
}

#[test]
fn a_number_before_a_search_is_which_match() {
    let mut stage = Stage::hundred(10);
    stage.keys("g 3");
    stage.types("/line 2");
    assert_eq!(stage.viewer.found(), Some(20), "lines 2, 20, 21");
    stage.keys("enter 2 ? enter");
    assert_eq!(stage.viewer.found(), Some(1), "upwards, two further");
}

#[test]
fn a_pattern_is_edited_and_recalled() {
    let mut stage = Stage::hundred(10);
    stage.types("/line 7\n");
    stage.types("/line 8\n");
    stage.types("?other\n");
    stage.keys("/ up");
    assert_eq!(prompt(&stage), "/other");
    stage.keys("up up up");
    assert_eq!(prompt(&stage), "/line 7", "the oldest");
    stage.keys("down down down");
    assert_eq!(prompt(&stage), "/");
    stage.types("li");
    stage.keys("up");
    assert_eq!(prompt(&stage), "/line 8", "that begin so");
    stage.keys("up");
    assert_eq!((prompt(&stage).as_str(), stage.viewer.found()), ("/line 7", Some(6)));
    stage.keys("down down");
    assert_eq!(prompt(&stage), "/li");
    stage.keys("home x ctrl+w");
    assert_eq!((prompt(&stage), typed(&stage).text), ("/".into(), "li".into()));
    stage.keys("end backspace backspace backspace");
    assert_eq!(*stage.viewer.mode(), Mode::Scrolling);
}

#[test]
fn matches_are_put_out_and_lit_again() {
    let mut stage = Stage::hundred(10);
    stage.keys("g");
    stage.types("/line 5\n");
    stage.keys("alt+u");
    assert!(stage.viewer.pattern().is_none());
    stage.keys("alt+u");
    assert!(stage.viewer.pattern().is_some());
    stage.keys("esc");
    assert!(stage.viewer.pattern().is_none());
    stage.keys("n");
    assert!(stage.viewer.pattern().is_some(), "what was looked for is not forgotten");
    stage.keys("alt+U n");
    assert_eq!(stage.message(), "nothing was looked for yet");
}

#[test]
fn only_lines_with_a_pattern_are_shown_until_there_is_none() {
    let mut stage = Stage::hundred(4);
    stage.keys("g");
    stage.types("&line .5\n");
    assert_eq!(stage.shown(), ["line 15", "line 25", "line 35", "line 45"]);
    assert_eq!(stage.viewer.filter(), Some("&line .5"));
    stage.keys("j j");
    assert_eq!(stage.first(), "line 35");
    stage.keys("G");
    assert_eq!(stage.shown(), ["line 65", "line 75", "line 85", "line 95"]);
    stage.keys("2 0 g");
    assert_eq!(stage.first(), "line 25", "the first one from there on");
    stage.keys("=");
    assert_eq!(stage.message(), "lines 25–55 of 100, 55 %");
    stage.types("/5\n");
    stage.keys("n");
    assert_eq!((stage.viewer.found(), stage.viewer.matches()), (Some(34), Some((Some(3), Some(10)))));
    stage.types("/line 36\n");
    assert_eq!(stage.message(), "'line 36' is nowhere", "among these");
    stage.keys("g & enter");
    assert_eq!(stage.shown(), ["line 15", "line 16", "line 17", "line 18"], "all, from there on");
    assert!(stage.viewer.filter().is_none());
}

#[test]
fn a_filter_of_lines_without_a_pattern_and_one_for_nothing() {
    let mut stage = Stage::new(&["a", "b", "a b", "c"], 4);
    stage.types("&!a\n");
    assert_eq!(stage.shown(), ["b", "c", "", ""]);
    stage.types("&nobody\n");
    assert_eq!(stage.message(), "no line for &nobody: all are shown");
    assert_eq!(stage.shown(), ["a", "b", "a b", "c"]);
    stage.types("&a(\n");
    assert_eq!(stage.message(), "no line for &a(: all are shown");
    stage.types("&b");
    stage.keys("esc");
    assert_eq!((stage.shown().len(), stage.viewer.filter()), (4, None), "given up");
}

#[test]
fn a_filter_goes_on_with_what_is_written_and_with_what_is_forgotten() {
    let mut stage = Stage::hundred(3);
    stage.types("&0$\n");
    assert_eq!(stage.shown(), ["line 80", "line 90", "line 100"]);
    stage.write("\r\nline 101\r\nline 110\r\nmore");
    assert_eq!(stage.shown(), ["line 90", "line 100", "line 110"], "it follows");
    stage.keys("k");
    stage.write("\r\nline 120\r\n");
    assert_eq!(stage.shown(), ["line 80", "line 90", "line 100"], "it stays");
    // What was on the screen is above it.
    stage.write("\x1b[H\x1b[2Jline 0");
    stage.keys("G");
    assert_eq!(stage.shown(), ["line 110", "line 120", "line 0"]);
    stage.write("\x1b[3J");
    assert_eq!(stage.shown(), ["line 0", "", ""]);
}

#[test]
fn a_filter_ends_where_one_branches_and_back_at_the_program() {
    let mut stage = Stage::new(&[], 6);
    stage.numbered(30, &[20]);
    stage.types("&line 1\n");
    stage.keys("i");
    assert!(stage.viewer.filter().is_none());
    assert!(stage.window().contains("- -"), "{}", stage.window());
    let mut stage = Stage::live(&["a", "b", "a b"], 3);
    stage.keys("shift+pageup");
    stage.types("&b\n");
    assert_eq!(stage.shown(), ["b", "a b", ""]);
    stage.keys("q");
    assert_eq!(
        (stage.shown(), stage.viewer.mode()),
        (vec!["a".into(), "b".into(), "a b".into()], &Mode::Live)
    );
}

#[test]
fn a_filter_of_many_lines_does_not_hold_up_a_key() {
    let mut terminal = nerve_term::terminal::TerminalState::new(Size::new(20, 5));
    let text: String = (1..=100_000).map(|number| format!("line {number}\r\n")).collect();
    terminal.process_data(TsNs(0), text.as_bytes());
    let mut stage = Stage::on(nerve_view::viewer::Source::Recording, terminal, 4);
    stage.write("");
    stage.keys("esc 5 0 0 0 0 g");
    stage.types("&000$");
    let document = nerve_view::document::Document::of(&stage.terminal);
    let frame = nerve_view::regions::FrameContext::of(&document, stage.regions);
    stage.viewer.input(nerve_view::keys::Input::Key(key("enter")), &frame);
    let mut pieces = 1;
    while stage.viewer.work(&document) {
        pieces += 1;
    }
    assert!(pieces >= 4, "{pieces}");
    assert_eq!(stage.shown(), ["line 50000", "line 51000", "line 52000", "line 53000"]);
}

#[test]
fn going_along_ends_when_somebody_asks_or_with_what_is_looked_for() {
    let mut stage = Stage::hundred(3);
    stage.keys("g F");
    stage.write("\r\nmore");
    assert_eq!(stage.shown(), ["line 99", "line 100", "more"]);
    assert_eq!(stage.keys("ctrl+c"), [], "as in less that only ends going along");
    assert_eq!(stage.message(), "stays here");
    stage.write("\r\nand more");
    assert_eq!(stage.first(), "line 99");
    assert_eq!(stage.keys("ctrl+c").len(), 1);

    let mut stage = Stage::hundred(3);
    stage.keys("alt+F");
    assert_eq!(stage.message(), "nothing was looked for yet");
    stage.types("/error\n");
    stage.keys("esc F");
    stage.write("\r\nfine\r\nfine");
    assert_eq!(stage.first(), "line 100");
    stage.write("\r\nan error\r\nfine");
    assert_eq!((stage.viewer.found(), stage.message()), (Some(102), "this was waited for"));
    let before = stage.first();
    stage.write("\r\nerror\r\nerror");
    assert_eq!(stage.first(), before);
}

#[test]
fn a_match_that_was_gone_to_stays_while_a_program_writes() {
    let write = |stage: &mut Stage| stage.write(&"\r\nmore".repeat(20));
    for keys in ["? 9 5 enter", "? 9 5", "? 9 enter n", "/ 9 enter N"] {
        let mut stage = Stage::live(&[], 10);
        stage.numbered(100, &[]);
        stage.keys(&format!("shift+pageup G {keys}"));
        let (window, found) = (stage.shown(), stage.viewer.found());
        assert!(
            found.is_some_and(|line| stage.viewer.viewport().row_of(line).is_some()),
            "{keys}: {found:?}"
        );
        write(&mut stage);
        assert_eq!((stage.shown(), stage.viewer.found()), (window, found), "{keys}");
    }
    let mut stage = Stage::live(&[], 10);
    stage.numbered(100, &[]);
    stage.keys("shift+pageup G ? 9 5 enter");
    write(&mut stage);
    stage.keys("N");
    assert_eq!((stage.viewer.found(), stage.message()), (Some(94), "around the end"), "on from there");
    // Who has not gone to it is back where he was: at the end, and along with it.
    stage.keys("G ? 9 5");
    write(&mut stage);
    assert!(!stage.shown().contains(&"more".to_string()), "{:?}", stage.shown());
    stage.keys("esc");
    assert_eq!(stage.shown(), ["more"; 10]);
    stage.write("\r\nlast");
    assert_eq!(stage.shown()[9], "last");
}

#[test]
fn what_is_waited_for_stays_in_a_window_lower_than_the_screen() {
    let mut stage = Stage::live(&["1", "2", "3", "4"], 10);
    stage.resize(3);
    stage.keys("shift+pageup G / x enter alt+F");
    stage.write("\r\n5\r\n6\r\n7\r\n8\r\n9\r\nx\x1b[H");
    assert_eq!((stage.viewer.found(), stage.message()), (Some(9), "this was waited for"));
    stage.write("\x1b[1;9H");
    assert!(stage.shown().contains(&"x".to_string()), "{:?}", stage.shown());
}

#[test]
fn a_match_that_is_not_to_be_seen_has_no_place_among_them() {
    let mut stage = Stage::hundred(4);
    stage.keys("g");
    stage.types("/line 42\n");
    stage.types("&line .7\n");
    assert_eq!((stage.viewer.found(), stage.viewer.matches()), (None, Some((None, Some(0)))));
    stage.types("/7\n");
    let found = stage.viewer.found();
    stage.types("&7\n");
    assert_eq!((stage.viewer.found(), found), (found, Some(46)));
    assert_eq!(stage.viewer.matches(), Some((Some(5), Some(20))), "one that is stays the one");
    // A line of the screen is written anew.
    let mut stage = Stage::live(&["x", "y x"], 3);
    stage.keys("shift+pageup");
    stage.types("?x\n");
    assert_eq!((stage.viewer.found(), stage.viewer.matches()), (Some(1), Some((Some(2), Some(2)))));
    stage.write("\x1b[2Kz");
    stage.viewer.work(&nerve_view::document::Document::live(&stage.terminal));
    assert_eq!(stage.viewer.matches(), Some((None, Some(1))));
}
