//! Patterns: as they are typed, what they mean, and windows that show only the lines with one.

use nerve_tui::view::viewer::{Mode, PromptView};
use nerve_types::{Size, TsNs};

use crate::{Harness, key};

fn typed(harness: &Harness) -> PromptView {
    match harness.viewer.mode() {
        Mode::Prompt(typed) => typed.clone(),
        other => panic!("nothing is typed: {other:?}"),
    }
}

/// Returns the prompt up to the cursor, with its sign.
fn prompt(harness: &Harness) -> String {
    let typed = typed(harness);
    format!("{}{}", typed.sign, &typed.text[..typed.cursor])
}

#[test]
fn invalid_regex_is_matched_literally() {
    let mut harness = Harness::new(&["a", "f(x)", "b"], 2);
    harness.keys("g");
    harness.types("/f(");
    assert_eq!(typed(&harness).fault.as_deref(), Some("unclosed group"));
    assert_eq!(harness.viewer.found(), Some(1));
    harness.keys("enter");
    assert_eq!(harness.message(), "not a regular expression (unclosed group): searching for the text");
    harness.types("/absent(\n");
    assert_eq!(
        harness.message(),
        "no match for the text 'absent(', and not a regular expression: unclosed group"
    );
    harness.keys("/ ctrl+r");
    harness.types("f(\n");
    assert_eq!((harness.viewer.found(), harness.message()), (Some(1), ""), "that is what was wanted");
}

#[test]
fn inverse_search_finds_other_lines() {
    let mut harness = Harness::new(&["one", "one two", "three", "one", ""], 2);
    harness.keys("g");
    harness.types("/!one\n");
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (Some(2), Some((Some(1), Some(2)))));
    harness.keys("n");
    assert_eq!(harness.viewer.found(), Some(4), "an empty one");
    harness.keys("/ ctrl+n");
    assert_eq!(prompt(&harness), "not /");
    harness.keys("backspace");
    assert_eq!(prompt(&harness), "/", "taken back");
    harness.keys("backspace");
    assert_eq!(*harness.viewer.mode(), Mode::Scrolling);
    harness.types("/a!\n");
    assert_eq!(harness.message(), "no match for 'a!'", "a sign only at the begin");
}

#[test]
fn search_from_the_end_and_in_place() {
    let mut harness = Harness::hundred(10);
    harness.keys("5 0 g");
    harness.types("/@line 1\n");
    assert_eq!((harness.viewer.found(), harness.first()), (Some(0), "line 1".into()));
    harness.keys("5 0 g ? ctrl+f");
    harness.types("9\n");
    assert_eq!(harness.viewer.found(), Some(98));
    harness.keys("g / ctrl+k");
    harness.types("77\n");
    assert_eq!((harness.first().as_str(), harness.viewer.found(), harness.message()), ("line 1", None, ""));
    assert_eq!(harness.viewer.matches(), Some((None, Some(1))));
    harness.keys("n");
    assert_eq!(harness.viewer.found(), Some(76));
}

#[test]
fn count_selects_the_nth_match() {
    let mut harness = Harness::hundred(10);
    harness.keys("g 3");
    harness.types("/line 2");
    assert_eq!(harness.viewer.found(), Some(20), "lines 2, 20, 21");
    harness.keys("enter 2 ? enter");
    assert_eq!(harness.viewer.found(), Some(1), "upwards, two further");
}

#[test]
fn pattern_editing_and_history() {
    let mut harness = Harness::hundred(10);
    harness.types("/line 7\n");
    harness.types("/line 8\n");
    harness.types("?other\n");
    harness.keys("/ up");
    assert_eq!(prompt(&harness), "/other");
    harness.keys("up up up");
    assert_eq!(prompt(&harness), "/line 7", "the oldest");
    harness.keys("down down down");
    assert_eq!(prompt(&harness), "/");
    harness.types("li");
    harness.keys("up");
    assert_eq!(prompt(&harness), "/line 8", "that begin so");
    harness.keys("up");
    assert_eq!((prompt(&harness).as_str(), harness.viewer.found()), ("/line 7", Some(6)));
    harness.keys("down down");
    assert_eq!(prompt(&harness), "/li");
    harness.keys("home x ctrl+w");
    assert_eq!((prompt(&harness), typed(&harness).text), ("/".into(), "li".into()));
    harness.keys("end backspace backspace backspace");
    assert_eq!(*harness.viewer.mode(), Mode::Scrolling);
}

#[test]
fn highlighting_can_be_toggled() {
    let mut harness = Harness::hundred(10);
    harness.keys("g");
    harness.types("/line 5\n");
    harness.keys("alt+u");
    assert!(harness.viewer.pattern().is_none());
    harness.keys("alt+u");
    assert!(harness.viewer.pattern().is_some());
    harness.keys("esc");
    assert!(harness.viewer.pattern().is_none());
    harness.keys("n");
    assert!(harness.viewer.pattern().is_some(), "what was looked for is not forgotten");
    harness.keys("alt+U n");
    assert_eq!(harness.message(), "no search yet");
}

#[test]
fn filter_shows_only_matching_lines() {
    let mut harness = Harness::hundred(4);
    harness.keys("g");
    harness.types("&line .5\n");
    assert_eq!(harness.shown(), ["line 15", "line 25", "line 35", "line 45"]);
    assert_eq!(harness.viewer.filter(), Some("&line .5"));
    harness.keys("j j");
    assert_eq!(harness.first(), "line 35");
    harness.keys("G");
    assert_eq!(harness.shown(), ["line 65", "line 75", "line 85", "line 95"]);
    harness.keys("2 0 g");
    assert_eq!(harness.first(), "line 25", "the first one from there on");
    harness.keys("=");
    assert_eq!(harness.message(), "lines 25–55 of 100, 55 %");
    harness.types("/5\n");
    harness.keys("n");
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (Some(34), Some((Some(3), Some(10)))));
    harness.types("/line 36\n");
    assert_eq!(harness.message(), "no match for 'line 36'", "among these");
    harness.keys("g & enter");
    assert_eq!(harness.shown(), ["line 15", "line 16", "line 17", "line 18"], "all, from there on");
    assert!(harness.viewer.filter().is_none());
}

#[test]
fn inverse_filter_and_filter_without_matches() {
    let mut harness = Harness::new(&["a", "b", "a b", "c"], 4);
    harness.types("&!a\n");
    assert_eq!(harness.shown(), ["b", "c", "", ""]);
    harness.types("&absent\n");
    assert_eq!(harness.message(), "no line matches &absent: showing all");
    assert_eq!(harness.shown(), ["a", "b", "a b", "c"]);
    harness.types("&a(\n");
    assert_eq!(harness.message(), "no line matches &a(: showing all");
    harness.types("&b");
    harness.keys("esc");
    assert_eq!((harness.shown().len(), harness.viewer.filter()), (4, None), "given up");
}

#[test]
fn filter_follows_new_and_dropped_lines() {
    let mut harness = Harness::hundred(3);
    harness.types("&0$\n");
    assert_eq!(harness.shown(), ["line 80", "line 90", "line 100"]);
    harness.write("\r\nline 101\r\nline 110\r\nmore");
    assert_eq!(harness.shown(), ["line 90", "line 100", "line 110"], "it follows");
    harness.keys("k");
    harness.write("\r\nline 120\r\n");
    assert_eq!(harness.shown(), ["line 80", "line 90", "line 100"], "it stays");
    // What was on the screen is above it.
    harness.write("\x1b[H\x1b[2Jline 0");
    harness.keys("G");
    assert_eq!(harness.shown(), ["line 110", "line 120", "line 0"]);
    harness.write("\x1b[3J");
    assert_eq!(harness.shown(), ["line 0", "", ""]);
}

#[test]
fn entry_and_live_mode_clear_the_filter() {
    let mut harness = Harness::new(&[], 6);
    harness.numbered(30, &[20]);
    harness.types("&line 1\n");
    harness.keys("i");
    assert!(harness.viewer.filter().is_none());
    assert!(harness.window().contains("- -"), "{}", harness.window());
    let mut harness = Harness::live(&["a", "b", "a b"], 3);
    harness.keys("shift+pageup");
    harness.types("&b\n");
    assert_eq!(harness.shown(), ["b", "a b", ""]);
    harness.keys("q");
    assert_eq!(
        (harness.shown(), harness.viewer.mode()),
        (vec!["a".into(), "b".into(), "a b".into()], &Mode::Live)
    );
}

#[test]
fn large_filter_is_incremental() {
    let mut terminal = nerve_vt::terminal::TerminalState::new(Size::new(20, 5));
    let text: String = (1..=100_000).map(|number| format!("line {number}\r\n")).collect();
    terminal.process_data(TsNs(0), text.as_bytes());
    let mut harness = Harness::on(nerve_tui::view::viewer::Source::Recording, terminal, 4);
    harness.write("");
    harness.keys("esc 5 0 0 0 0 g");
    harness.types("&000$");
    let document = nerve_tui::view::document::Document::recorded(&harness.terminal);
    let frame = nerve_tui::view::regions::FrameContext::new(&document, harness.regions);
    harness.viewer.input(nerve_tui::view::keys::Input::Key(key("enter")), &frame);
    let mut pieces = 1;
    while harness.viewer.advance_search(&document) {
        pieces += 1;
    }
    assert!(pieces >= 4, "{pieces}");
    assert_eq!(harness.shown(), ["line 50000", "line 51000", "line 52000", "line 53000"]);
}

#[test]
fn follow_mode_ends_on_request_or_match() {
    let mut harness = Harness::hundred(3);
    harness.keys("g F");
    harness.write("\r\nmore");
    assert_eq!(harness.shown(), ["line 99", "line 100", "more"]);
    assert_eq!(harness.keys("ctrl+c"), [], "as in less that only ends going along");
    assert_eq!(harness.message(), "stopped following");
    harness.write("\r\nand more");
    assert_eq!(harness.first(), "line 99");
    assert_eq!(harness.keys("ctrl+c").len(), 1);

    let mut harness = Harness::hundred(3);
    harness.keys("alt+F");
    assert_eq!(harness.message(), "no search yet");
    harness.types("/error\n");
    harness.keys("esc F");
    harness.write("\r\nfine\r\nfine");
    assert_eq!(harness.first(), "line 100");
    harness.write("\r\nan error\r\nfine");
    assert_eq!((harness.viewer.found(), harness.message()), (Some(102), "match found"));
    let before = harness.first();
    harness.write("\r\nerror\r\nerror");
    assert_eq!(harness.first(), before);
}

#[test]
fn current_match_stays_during_output() {
    let write = |harness: &mut Harness| harness.write(&"\r\nmore".repeat(20));
    for keys in ["? 9 5 enter", "? 9 5", "? 9 enter n", "/ 9 enter N"] {
        let mut harness = Harness::live(&[], 10);
        harness.numbered(100, &[]);
        harness.keys(&format!("shift+pageup G {keys}"));
        let (window, found) = (harness.shown(), harness.viewer.found());
        assert!(
            found.is_some_and(|line| harness.viewer.viewport().row_of(line).is_some()),
            "{keys}: {found:?}"
        );
        write(&mut harness);
        assert_eq!((harness.shown(), harness.viewer.found()), (window, found), "{keys}");
    }
    let mut harness = Harness::live(&[], 10);
    harness.numbered(100, &[]);
    harness.keys("shift+pageup G ? 9 5 enter");
    write(&mut harness);
    harness.keys("N");
    assert_eq!(
        (harness.viewer.found(), harness.message()),
        (Some(94), "search wrapped around"),
        "on from there"
    );
    // Who has not gone to it is back where he was: at the end, and along with it.
    harness.keys("G ? 9 5");
    write(&mut harness);
    assert!(!harness.shown().contains(&"more".to_string()), "{:?}", harness.shown());
    harness.keys("esc");
    assert_eq!(harness.shown(), ["more"; 10]);
    harness.write("\r\nlast");
    assert_eq!(harness.shown()[9], "last");
}

#[test]
fn awaited_match_stays_in_low_window() {
    let mut harness = Harness::live(&["1", "2", "3", "4"], 10);
    harness.resize(3);
    harness.keys("shift+pageup G / x enter alt+F");
    harness.write("\r\n5\r\n6\r\n7\r\n8\r\n9\r\nx\x1b[H");
    assert_eq!((harness.viewer.found(), harness.message()), (Some(9), "match found"));
    harness.write("\x1b[1;9H");
    assert!(harness.shown().contains(&"x".to_string()), "{:?}", harness.shown());
}

#[test]
fn hidden_match_has_no_position() {
    let mut harness = Harness::hundred(4);
    harness.keys("g");
    harness.types("/line 42\n");
    harness.types("&line .7\n");
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (None, Some((None, Some(0)))));
    harness.types("/7\n");
    let found = harness.viewer.found();
    harness.types("&7\n");
    assert_eq!((harness.viewer.found(), found), (found, Some(46)));
    assert_eq!(harness.viewer.matches(), Some((Some(5), Some(20))), "one that is stays the one");
    // A line of the screen is written anew.
    let mut harness = Harness::live(&["x", "y x"], 3);
    harness.keys("shift+pageup");
    harness.types("?x\n");
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (Some(1), Some((Some(2), Some(2)))));
    harness.write("\x1b[2Kz");
    harness.viewer.advance_search(&nerve_tui::view::document::Document::live(&harness.terminal));
    assert_eq!(harness.viewer.matches(), Some((None, Some(1))));
}
