//! Recordings of programs that had the whole screen.

use nerve_tui::view::viewer::{Source, Target};
use nerve_types::Size;
use nerve_vt::terminal::TerminalState;

use crate::Harness;

const ENTER: &str = "\x1b[?1049h\x1b[H";
const LEAVE: &str = "\x1b[?1049l";

fn recorded(text: &str) -> Harness {
    let terminal = TerminalState::new(Size::new(40, 5)).keeping_last_alt_screen();
    let mut harness = Harness::on(Source::Recording, terminal, 12);
    harness.write(text);
    harness
}

fn lines(harness: &Harness) -> Vec<String> {
    let document = harness.document();
    document.lines().map(|line| document.text(line).unwrap_or_default()).collect()
}

#[test]
fn last_alt_screen_is_shown_and_searchable() {
    let mut harness = recorded(&format!("$ agent\r\n{ENTER}an answer\r\n\r\nwith a needle{LEAVE}Bye!\r\n"));
    assert_eq!(lines(&harness), ["$ agent", "Bye!", "", "an answer", "", "with a needle"]);
    assert_eq!(harness.viewer.entry().unwrap().target(), Some(Target::End), "below all of it");
    harness.keys("esc / n e e d l e enter");
    assert_eq!(harness.message(), "", "it is found");
    assert!(harness.shown().iter().any(|line| line == "with a needle"));
    assert_eq!(harness.document().cursor(), None, "the snapshot has no cursor");
}

#[test]
fn last_alt_screen_is_omitted_after_other_lines() {
    let harness = recorded(&format!("{ENTER}an editor{LEAVE}1\r\n2\r\n3\r\n4\r\n5\r\n6"));
    assert_eq!(lines(&harness), ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn last_of_several_alt_screens_counts() {
    let harness = recorded(&format!("{ENTER}first{LEAVE}{ENTER}second{LEAVE}"));
    assert_eq!(lines(&harness), ["", "second"]);
    let harness = recorded(&format!("{ENTER}gone\x1b[2J{LEAVE}"));
    assert_eq!(lines(&harness), [""]);
    let harness = recorded(&format!("{ENTER}left{LEAVE}{ENTER}shown"));
    assert_eq!(lines(&harness), ["", "shown", "", "", "", ""], "it is there");
}
