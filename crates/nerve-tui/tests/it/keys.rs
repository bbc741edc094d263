//! The effects of keys.

use nerve_tui::view::keys::{Code, Key};
use nerve_tui::view::viewer::{Effect, Mode};

use crate::Harness;

#[test]
fn less_keys_scroll() {
    let mut harness = Harness::hundred(10);
    let mut after = |keys: &str| {
        harness.keys(keys);
        harness.first()
    };
    assert_eq!(after("G"), "line 91");
    assert_eq!(after("k"), "line 90");
    assert_eq!(after("b"), "line 80");
    assert_eq!(after("u"), "line 75");
    assert_eq!(after("g"), "line 1");
    assert_eq!(after("j down enter"), "line 4");
    assert_eq!(after("space"), "line 14");
    assert_eq!(after("d"), "line 19");
    assert_eq!(after("1 0 j"), "line 29");
    assert_eq!(after("3 f"), "line 32", "so many lines, as in less");
    assert_eq!(after("3 b"), "line 29");
    assert_eq!(after("5 0 G"), "line 50");
    assert_eq!(after("9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 j"), "line 91");
    assert_eq!(after("ctrl+home"), "line 1");
    assert_eq!(after("ctrl+end"), "line 91");
}

#[test]
fn other_key_disarms_esc() {
    let mut harness = Harness::hundred(10);
    assert_eq!(harness.keys("esc j esc"), []);
    assert_eq!(harness.viewer.message(), Some("press Esc again to leave"));
    assert_eq!(harness.keys("k esc esc"), [Effect::Quit]);
    assert_eq!(harness.keys("q"), [Effect::Quit]);
}

#[test]
fn keys_request_effects() {
    let mut harness = Harness::hundred(10);
    assert_eq!(
        harness.keys("p , 3 . + -"),
        [
            Effect::TogglePlay,
            Effect::Skip(-5),
            Effect::Skip(15),
            Effect::Speed { faster: true },
            Effect::Speed { faster: false }
        ]
    );
}

#[test]
fn incremental_search_follows_typing() {
    let mut harness = Harness::hundred(10);
    harness.keys("g");
    harness.types("/line 5");
    assert_eq!(harness.viewer.found(), Some(4), "in the window: it does not move");
    assert_eq!(harness.first(), "line 1");
    harness.types("7");
    assert_eq!((harness.viewer.found(), harness.first()), (Some(56), "line 52".into()));
    harness.key(Key::plain(Code::Backspace));
    assert_eq!((harness.viewer.found(), harness.first()), (Some(4), "line 1".into()));
    harness.types("7\n");
    assert_eq!(harness.viewer.mode(), &Mode::Scrolling);
    assert_eq!(harness.viewer.matches(), Some((Some(1), Some(1))));
}

#[test]
fn cancelled_search_restores_position() {
    let mut harness = Harness::hundred(10);
    harness.keys("g");
    for end in ["esc", "ctrl+c", "backspace backspace backspace"] {
        harness.types("/99");
        assert_eq!(harness.viewer.found(), Some(98));
        harness.keys(end);
        assert_eq!((harness.first(), harness.viewer.mode()), ("line 1".into(), &Mode::Scrolling), "{end}");
        assert_eq!(harness.viewer.pattern().map(|pattern| pattern.text()), None);
    }
}

#[test]
fn next_and_previous_wrap_around() {
    let mut harness = Harness::new(&["a", "x1", "b", "x2 x2", "c", "x3", "d"], 2);
    harness.keys("g");
    harness.types("/x\n");
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (Some(1), Some((Some(1), Some(4)))));
    harness.keys("n");
    assert_eq!((harness.viewer.found(), harness.viewer.matches()), (Some(3), Some((Some(2), Some(4)))));
    harness.keys("n n");
    assert_eq!((harness.viewer.found(), harness.viewer.message()), (Some(1), Some("search wrapped around")));
    harness.keys("N");
    assert_eq!((harness.viewer.found(), harness.viewer.message()), (Some(5), Some("search wrapped around")));
    harness.types("?x1\n");
    assert_eq!(harness.viewer.found(), Some(1));
    harness.types("/absent\n");
    assert_eq!((harness.viewer.found(), harness.viewer.message()), (None, Some("no match for 'absent'")));
    harness.keys("n");
    assert_eq!(harness.viewer.message(), Some("no match for 'absent'"));
}

#[test]
fn next_without_search_does_nothing() {
    let mut harness = Harness::hundred(10);
    harness.keys("n");
    assert_eq!(harness.viewer.message(), Some("no search yet"));
}

#[test]
fn brackets_go_to_snapshots() {
    let mut harness = Harness::new(&[], 3);
    harness.keys("]");
    assert_eq!(harness.viewer.message(), Some("there are no snapshots"));
    for number in 1..=50 {
        harness.write(&format!("line {number}"));
        if number % 20 == 0 {
            harness.snapshot(number);
        }
        harness.write("\r\n");
    }
    harness.keys("g ]");
    assert_eq!(harness.first(), "line 20");
    harness.keys("]");
    assert_eq!(harness.first(), "line 40");
    harness.keys("]");
    assert_eq!((harness.first(), harness.viewer.message()), ("line 40".into(), Some("no snapshot below")));
    harness.keys("[ [");
    assert_eq!((harness.first(), harness.viewer.message()), ("line 20".into(), Some("no snapshot above")));
}

#[test]
fn horizontal_scroll_shows_matches() {
    let mut harness = Harness::new(&["0123456789abcdefghijklmnopqrstuvwxyz", "short"], 2);
    harness.keys("right");
    assert_eq!(harness.viewer.left(), 10);
    harness.keys("right right");
    assert_eq!(harness.viewer.left(), 20, "40 columns in a window of 20");
    harness.keys("left left left");
    assert_eq!(harness.viewer.left(), 0);
    harness.types("/xyz\n");
    assert_eq!(harness.viewer.left(), 20);
}

#[test]
fn any_key_leaves_help() {
    let mut harness = Harness::hundred(10);
    harness.keys("h j j");
    assert_eq!(harness.viewer.mode(), &Mode::Help(2));
    assert_eq!(harness.keys("q"), []);
    assert_eq!(harness.viewer.mode(), &Mode::Scrolling);
    harness.types("?\n");
    assert_eq!(harness.viewer.mode(), &Mode::Help(0), "a search upwards for nothing");
}

#[test]
fn alternate_screen_is_below_the_lines() {
    let mut harness = Harness::new(&["one", "two"], 4);
    harness.write("\x1b[?1049h\x1b[Hfull\r\nscreen");
    harness.keys("g");
    assert_eq!(harness.shown(), ["one", "two", "full", "screen"]);
    harness.types("/screen\n");
    assert_eq!(harness.viewer.found(), Some(3));
    harness.write("\x1b[?1049l");
    assert_eq!(harness.shown(), ["one", "two", "", ""]);
}

#[test]
fn counts_set_page_steps() {
    let mut harness = Harness::hundred(10);
    let mut after = |keys: &str| {
        harness.keys(keys);
        harness.first()
    };
    assert_eq!(after("g 3 d"), "line 4");
    assert_eq!(after("d"), "line 7");
    assert_eq!(after("u"), "line 4");
    assert_eq!(after("7 z"), "line 11");
    assert_eq!(after("space"), "line 18", "a window is that high now");
    assert_eq!(after("w w"), "line 4");
}

#[test]
fn percent_and_bookmarks() {
    let mut harness = Harness::hundred(10);
    let mut after = |keys: &str| {
        harness.keys(keys);
        harness.first()
    };
    assert_eq!(after("5 0 %"), "line 51");
    assert_eq!(after("m a g"), "line 1");
    assert_eq!(after("' a"), "line 51");
    assert_eq!(after("' '"), "line 1", "back");
    assert_eq!(after("' $"), "line 91");
    assert_eq!(after("' ^"), "line 1");
    assert_eq!(after("' z"), "line 1");
    assert_eq!(harness.message(), "no such bookmark");
}

#[test]
fn bottom_bookmarks_and_removal() {
    let mut harness = Harness::hundred(10);
    let mut after = |keys: &str| {
        harness.keys(keys);
        harness.first()
    };
    assert_eq!(after("3 0 g M b G"), "line 91");
    assert_eq!(after("' b"), "line 30", "line 39 at the bottom");
    assert_eq!(after("ctrl+x ctrl+x '"), "line 91", "as ' '");
    assert_eq!(after("alt+m b ' b"), "line 91");
    assert_eq!(harness.message(), "no such bookmark");
    harness.keys("m 1");
    assert_eq!(harness.message(), "a bookmark is a letter");
    harness.keys("esc M c");
    assert_eq!(harness.message(), "no such bookmark", "Esc and M are Alt and M");
}

#[test]
fn goes_to_matching_brackets() {
    let lines = ["fn (a) {", "  { x }", "  (", "  {", "  }", "  )", "}", "end", "end", "end"];
    let mut harness = Harness::new(&lines, 3);
    harness.keys("g {");
    assert_eq!(harness.shown(), ["  }", "  )", "}"]);
    harness.keys("}");
    assert_eq!(harness.first(), "fn (a) {");
    harness.keys("3 g (");
    assert_eq!(harness.shown(), ["  {", "  }", "  )"]);
    harness.keys(")");
    assert_eq!(harness.first(), "  (");
    harness.keys("2 g 2 {");
    assert_eq!(harness.message(), "no '{' in the first line of the window");
    harness.keys("3 g j {");
    assert_eq!(harness.shown(), ["  (", "  {", "  }"]);
    let mut harness = Harness::new(&["{", "a", "b", "c"], 2);
    harness.keys("g {");
    assert_eq!((harness.first().as_str(), harness.message()), ("{", "no matching '}' within 50000 lines"));
}

#[test]
fn count_sets_column_step() {
    let mut harness = Harness::new(&["0123456789abcdefghijklmnopqrstuvwxyz"], 2);
    harness.keys("3 right right");
    assert_eq!(harness.viewer.left(), 6);
    harness.keys("2 left");
    assert_eq!(harness.viewer.left(), 4);
    harness.keys("left left left");
    assert_eq!(harness.viewer.left(), 0);
}

#[test]
fn shifted_j_and_k_scroll_lines() {
    let mut harness = Harness::hundred(10);
    harness.keys("g J J K ctrl+m");
    assert_eq!(harness.first(), "line 3");
}

#[test]
fn less_and_more_keys_are_bound() {
    let mut harness = Harness::hundred(10);
    harness.keys("g =");
    assert_eq!(harness.message(), "lines 1–10 of 100, 10 %");
    assert_eq!(harness.keys("r ctrl+l"), [Effect::Redraw, Effect::Redraw]);
    assert_eq!(harness.keys(": q"), [Effect::Quit]);
    assert_eq!(harness.keys(": j q"), [Effect::Quit], "a colon and something else is something else");
    harness.keys("g ctrl+v");
    assert_eq!(harness.first(), "line 11");
    harness.keys("esc v");
    assert_eq!(harness.first(), "line 1", "Esc and v are Alt and v");
    assert_eq!(harness.keys("esc"), [], "and Esc is not pressed twice by that");
    harness.keys("j g s alt+space");
    assert_eq!(harness.first(), "line 12");
    harness.keys("alt+< 2 ctrl+j");
    assert_eq!(harness.first(), "line 3");
}

#[test]
fn count_repeats_next_match() {
    let mut harness = Harness::hundred(10);
    harness.keys("g");
    harness.types("/line 1\n");
    harness.keys("3 n");
    assert_eq!(harness.viewer.found(), Some(11), "lines 1, 10, 11, 12");
    harness.keys("2 N");
    assert_eq!(harness.viewer.found(), Some(9));
    harness.keys("alt+u");
    assert!(harness.viewer.pattern().is_none());
}

#[test]
fn prompt_accepts_pastes() {
    let mut harness = Harness::hundred(10);
    harness.keys("g /");
    harness.input(nerve_tui::view::keys::Input::Paste("line 77\nmore".into()));
    assert_eq!(harness.viewer.found(), Some(76));
    harness.keys("ctrl+u");
    assert_eq!((harness.viewer.found(), harness.first()), (None, "line 1".into()));
}

#[test]
fn empty_prompt_is_help_or_repeats_search() {
    let mut harness = Harness::hundred(10);
    harness.types("?\n");
    assert_eq!(harness.viewer.mode(), &Mode::Help(0));
    harness.keys("q g");
    harness.types("/line 5\n");
    harness.types("?\n");
    assert_eq!(harness.viewer.mode(), &Mode::Scrolling);
    assert_eq!(harness.viewer.found(), Some(58), "the other way search wrapped around");
    harness.keys("f1");
    assert_eq!(harness.viewer.mode(), &Mode::Help(0));
}

#[test]
fn copies_visible_text() {
    let mut harness = Harness::new(&["a", "", "b", ""], 6);
    assert_eq!(harness.keys("Y"), [Effect::Copy("a\n\nb".into())]);
    assert_eq!(harness.message(), "copied: 3 lines");
}

#[test]
fn upward_search_starts_at_last_visible_line() {
    let mut harness = Harness::hundred(5);
    harness.keys("g");
    harness.types("?line\n");
    assert_eq!(harness.viewer.found(), Some(4));
    assert_eq!(harness.first(), "line 1", "in the window: it does not move");
}

#[test]
fn esc_that_closed_the_entry_is_not_alt() {
    let mut harness = Harness::new(&["line 1", "line 2"], 5);
    harness.snapshot(1);
    harness.types("/line 2\n");
    harness.keys("i esc u");
    assert!(harness.viewer.pattern().is_some(), "u is half a window up, alt+u puts out the matches");
    assert_eq!(harness.keys("i esc esc"), [Effect::Quit]);
}

#[test]
fn colon_commands_run_or_are_refused() {
    let mut harness = Harness::hundred(5);
    harness.keys("g : G");
    assert_eq!((harness.first().as_str(), harness.message()), ("line 1", "unknown command: use :q or :f"));
    harness.keys(": f");
    assert_eq!(harness.message(), "lines 1–5 of 100, 5 %");
    assert_eq!(harness.keys(": q"), [Effect::Quit]);
    harness.keys(": esc");
    assert_eq!(harness.message(), "");
}
