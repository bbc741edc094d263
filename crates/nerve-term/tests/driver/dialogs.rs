//! Dialogs that are answered: when one counts as gone, and what is the next one.

use nerve_term::driver::AgentState;
use nerve_term::profile::BlockKind;

use crate::harness::Bench;

const CHOICES: [&str; 3] = ["Allow once", "Allow for this session", "No, suggest changes (esc)"];

fn choices() -> Vec<String> {
    CHOICES.map(String::from).to_vec()
}

/// Gemini's dialog below `above`, its cursor on `selected`.
fn dialog(above: &str, command: &str, selected: usize) -> String {
    let rule = "─".repeat(40);
    let mut rows = vec![above.to_string(), format!("╭{rule}╮")];
    rows.extend([format!("│ ? Shell  {command}"), "│ Allow execution of [Shell]?".into(), "│".into()]);
    for (at, label) in CHOICES.iter().enumerate() {
        let mark = if at == selected { "●" } else { " " };
        rows.push(format!("│ {mark} {}. {label}", at + 1));
    }
    rows.push(format!("╰{rule}╯"));
    format!("\x1b[H\x1b[2J{}\x1b[?25l", rows.join("\r\n"))
}

/// Gemini's composer with a busy row above it.
const WORKING: &str = "\x1b[H\x1b[2J⊶ Shell\r\n ⠋ Thinking... (esc to cancel, 0s)\r\n────────\r\n >   Type your message or @path/to/file\x1b[3G";

const ACTION: &str = "\x1b]0;✋  Action Required (work)\x07";

/// Blocked by the dialog for `ls`, and the first choice picked: Enter was sent.
fn answered(above: &str) -> Bench {
    let mut bench = Bench::new("gemini");
    bench.feed("\x1b]0;◇  Ready (work)\x07 >   Type your message or @path/to/file\x1b[3G");
    bench.pass(2000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.feed("\x1b]0;✦  Working… (work)\x07");
    bench.feed(&dialog(above, "ls", 0));
    bench.feed(ACTION);
    bench.pass(99);
    assert_eq!(*bench.driver.state(), AgentState::Busy, "it may be half a dialog");
    bench.pass(1);
    assert_eq!(
        *bench.driver.state(),
        AgentState::Blocked { kind: BlockKind::Permission, choices: choices() }
    );
    assert_eq!(bench.take_blocked(), 1);
    assert!(bench.driver.answer(bench.now, &choices(), Some(0)));
    bench.effects();
    assert_eq!(bench.take_written(), "\r");
    bench
}

#[test]
fn late_title_is_not_a_second_dialog() {
    let mut bench = answered("");
    // Half of the next frame: the dialog is erased, the composer not drawn yet.
    bench.feed("\x1b[H\x1b[2J⊶ Shell");
    bench.pass(20);
    assert!(bench.take_answered().is_empty(), "half a frame says nothing");
    bench.feed(WORKING);
    assert_eq!(bench.take_answered(), [true]);
    bench.feed("\x1b]0;✦  Working… (work)\x07");
    bench.pass(5000);
    assert_eq!(*bench.driver.state(), AgentState::Busy);
    assert_eq!((bench.take_blocked(), bench.take_written().as_str()), (0, ""));
}

#[test]
fn redrawn_dialog_is_the_same() {
    let mut bench = answered("✦ I will look. 1 s");
    // Row by row, as a read can end anywhere: erased, half of it, all of it with the cursor not drawn yet.
    bench.feed("\x1b[H\x1b[2J");
    bench.pass(5);
    let again = dialog("✦ I will look. 2 s", "ls", 0);
    let half = again.find("│ ● 1.").unwrap();
    bench.feed(&again[..half]);
    bench.pass(5);
    bench.feed(&dialog("✦ I will look. 2 s", "ls", 9));
    bench.pass(5);
    assert_eq!(bench.take_written(), "", "no key goes to half a dialog");
    bench.feed(&again);
    assert!(bench.take_answered().is_empty());
    bench.pass(600);
    assert_eq!(bench.take_written(), "\r", "the key was swallowed");
    bench.feed(WORKING);
    assert_eq!((bench.take_answered(), bench.take_blocked()), (vec![true], 0));
}

#[test]
fn choices_read_in_pieces_are_reported_together() {
    let mut bench = Bench::new("gemini");
    bench.feed(" >   Type your message or @path/to/file\x1b[3G");
    bench.pass(2000);
    let all = dialog("", "ls", 0);
    let first = all.find("│   2.").unwrap();
    bench.feed(&all[..first]);
    bench.pass(30);
    bench.feed(&all);
    bench.pass(100);
    assert_eq!(bench.take_blocked(), 1);
    assert!(matches!(bench.driver.state(), AgentState::Blocked { choices: all, .. } if *all == choices()));
}

#[test]
fn second_dialog_is_reported_and_gets_no_key() {
    let mut bench = answered("");
    bench.feed(&dialog("", "rm -r .", 0));
    bench.pass(99);
    assert!(bench.take_answered().is_empty());
    bench.pass(5000);
    assert_eq!((bench.take_answered(), bench.take_blocked()), (vec![true], 1));
    assert_eq!(bench.take_written(), "", "a key never answers the next dialog");
    let state = bench.driver.state();
    assert!(matches!(state, AgentState::Blocked { .. }), "{state:?}");
}

const ACROSS: [&str; 3] = ["Allow once", "Allow always", "Reject"];

/// opencode's dialog: its choices stand in one row, and only a background tells which is selected.
fn dialog_across(selected: usize) -> String {
    let bar = "\x1b[48;5;233m  ┃\x1b[48;5;234m  ";
    let cell = |(at, label): (usize, &&str)| match at == selected {
        true => format!("\x1b[48;5;215m {label} \x1b[48;5;234m "),
        false => format!(" {label}  "),
    };
    let cells: String = ACROSS.iter().enumerate().map(cell).collect();
    let rows = [
        format!("{bar}△ Permission required"),
        format!("{bar}$ ls"),
        format!("{bar}{cells}  ⇆ select  enter confirm"),
    ];
    format!("\x1b[H\x1b[2J{}\x1b[0m\x1b[?25l", rows.join("\r\n"))
}

#[test]
fn horizontal_choices_use_left_and_right() {
    let mut bench = Bench::new("opencode");
    bench.feed("┃  Ask anything\r\n╹▀▀▀\x1b[1;4H");
    bench.pass(4000);
    assert_eq!(*bench.driver.state(), AgentState::Ready);
    bench.feed(&dialog_across(0));
    bench.pass(1000);
    let choices = ACROSS.map(String::from).to_vec();
    assert_eq!(
        *bench.driver.state(),
        AgentState::Blocked { kind: BlockKind::Permission, choices: choices.clone() }
    );
    assert!(bench.driver.answer(bench.now, &choices, Some(2)));
    bench.effects();
    assert_eq!(bench.take_written(), "\x1b[C");
    bench.feed(&dialog_across(1));
    assert_eq!(bench.take_written(), "\x1b[C");
    bench.feed(&dialog_across(2));
    assert_eq!(bench.take_written(), "\r");
    bench.feed("\x1b[H\x1b[2J┃  Ask anything\r\n╹▀▀▀\r\n esc interrupt\x1b[1;4H\x1b[?25h");
    bench.pass(500);
    assert_eq!(bench.take_answered(), [true]);
    assert!(!bench.driver.answer(bench.now, &choices, Some(0)), "it asks nothing any more");
}

#[test]
fn identical_dialog_is_reported_after_work_on_screen() {
    let mut bench = answered("");
    bench.feed(WORKING);
    assert_eq!(bench.take_answered(), [true]);
    bench.feed(&dialog("", "ls", 0));
    bench.pass(5000);
    assert_eq!((bench.take_blocked(), bench.take_written().as_str()), (1, ""));
}

#[test]
fn identical_dialog_is_reported_after_work_in_title() {
    let mut bench = answered("");
    bench.feed(&format!("\x1b]0;✦  Working… (work)\x07{}{ACTION}", dialog("", "ls", 0)));
    bench.pass(5000);
    assert_eq!((bench.take_answered(), bench.take_blocked()), (vec![true], 1));
    assert_eq!(bench.take_written(), "");
}

#[test]
fn identical_dialog_is_reported_below_new_output() {
    let mut bench = answered("✦ I will look.");
    bench.feed(&dialog("✦ I will look.\r\n✓ Shell ls\r\n  a.txt\r\n", "ls", 0));
    bench.pass(5000);
    assert_eq!((bench.take_answered(), bench.take_blocked()), (vec![true], 1));
    assert_eq!(bench.take_written(), "");
}

#[test]
fn unanswerable_dialog_is_reported() {
    let mut bench = answered("");
    bench.pass(10_000);
    assert_eq!(bench.take_answered(), [false]);
    assert!(matches!(bench.driver.state(), AgentState::Blocked { .. }));
}

#[test]
fn unknown_dialog_is_closed_once_composer_is_back() {
    let mut bench = Bench::ready_claude();
    bench.feed("\x1b[H\x1b[2J Settings: Status\r\n Version: 2\r\n\r\n Some way to leave");
    bench.pass(3000);
    assert!(matches!(bench.driver.state(), AgentState::Blocked { kind: BlockKind::Other, .. }));
    assert!(bench.driver.answer(bench.now, &[], None));
    bench.effects();
    assert_eq!(bench.take_written(), "\x1b");
    bench.composer("", "", "? for shortcuts");
    bench.pass(5000);
    assert_eq!(bench.take_answered(), [true]);
    assert_eq!(bench.take_written(), "", "a second Escape would go to the composer");
}
