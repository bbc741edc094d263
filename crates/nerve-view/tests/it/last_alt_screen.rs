//! Recordings of programs that had the whole screen.

use nerve_term::event::Size;
use nerve_term::terminal::TerminalState;
use nerve_view::viewer::{Source, Target};

use crate::Stage;

const ENTER: &str = "\x1b[?1049h\x1b[H";
const LEAVE: &str = "\x1b[?1049l";

fn recorded(text: &str) -> Stage {
    let terminal = TerminalState::new(Size::new(40, 5)).keeping_left_screen();
    let mut stage = Stage::on(Source::Recording, terminal, 12);
    stage.write(text);
    stage
}

fn lines(stage: &Stage) -> Vec<String> {
    let document = stage.document();
    document.lines().map(|line| document.text(line).unwrap_or_default()).collect()
}

#[test]
fn what_a_program_left_on_the_whole_screen_is_there_to_be_read_and_searched() {
    let mut stage = recorded(&format!("$ agent\r\n{ENTER}an answer\r\n\r\nwith a needle{LEAVE}Bye!\r\n"));
    assert_eq!(lines(&stage), ["$ agent", "Bye!", "", "an answer", "", "with a needle"]);
    assert_eq!(stage.viewer.entry().unwrap().target(), Some(Target::End), "below all of it");
    stage.keys("esc / n e e d l e enter");
    assert_eq!(stage.message(), "", "it is found");
    assert!(stage.shown().iter().any(|line| line == "with a needle"));
    assert_eq!(stage.document().cursor(), None, "nobody works there");
}

#[test]
fn of_a_session_with_other_lines_a_screen_that_was_left_is_none() {
    let stage = recorded(&format!("{ENTER}an editor{LEAVE}1\r\n2\r\n3\r\n4\r\n5\r\n6"));
    assert_eq!(lines(&stage), ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn the_last_one_counts_and_a_blank_one_is_nothing() {
    let stage = recorded(&format!("{ENTER}first{LEAVE}{ENTER}second{LEAVE}"));
    assert_eq!(lines(&stage), ["", "second"]);
    let stage = recorded(&format!("{ENTER}gone\x1b[2J{LEAVE}"));
    assert_eq!(lines(&stage), [""]);
    let stage = recorded(&format!("{ENTER}left{LEAVE}{ENTER}shown"));
    assert_eq!(lines(&stage), ["", "shown", "", "", "", ""], "it is there");
}
