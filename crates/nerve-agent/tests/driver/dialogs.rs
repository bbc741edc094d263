//! Answers to dialogs: when a dialog counts as closed, and how the next one is recognised.

use nerve_agent::driver::AgentState;
use nerve_agent::profile::BlockKind;

use crate::harness::Harness;

const CHOICES: [&str; 3] = ["Allow once", "Allow for this session", "No, suggest changes (esc)"];

fn choices() -> Vec<String> {
    CHOICES.map(String::from).to_vec()
}

/// Draws Gemini's dialog below `above`, with the cursor on `selected`.
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

/// Gemini's composer below a busy row.
const WORKING: &str = "\x1b[H\x1b[2J⊶ Shell\r\n ⠋ Thinking... (esc to cancel, 0s)\r\n────────\r\n >   Type your message or @path/to/file\x1b[3G";

const ACTION: &str = "\x1b]0;✋  Action Required (work)\x07";

/// Returns a terminal whose dialog for `ls` was answered with the first choice; Enter was sent.
fn answered(above: &str) -> Harness {
    let mut harness = Harness::new("gemini");
    harness.feed("\x1b]0;◇  Ready (work)\x07\x1b[?2004h >   Type your message or @path/to/file\x1b[3G");
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.feed("\x1b]0;✦  Working… (work)\x07");
    harness.feed(&dialog(above, "ls", 0));
    harness.feed(ACTION);
    harness.advance(99);
    assert_eq!(*harness.driver.state(), AgentState::Busy, "possibly half a dialog");
    harness.advance(1);
    assert_eq!(
        *harness.driver.state(),
        AgentState::Blocked { kind: BlockKind::Permission, choices: choices() }
    );
    assert_eq!(harness.take_blocked_count(), 1);
    assert!(harness.driver.answer(harness.now, &choices(), Some(0)));
    harness.effects();
    assert_eq!(harness.take_written(), "\r");
    harness
}

#[test]
fn late_title_is_not_a_second_dialog() {
    let mut harness = answered("");
    // Half of the next frame: the dialog is erased, the composer is not drawn yet.
    harness.feed("\x1b[H\x1b[2J⊶ Shell");
    harness.advance(20);
    assert!(harness.take_answers().is_empty(), "half a frame is no evidence");
    harness.feed(WORKING);
    assert_eq!(harness.take_answers(), [true]);
    harness.feed("\x1b]0;✦  Working… (work)\x07");
    harness.advance(5000);
    assert_eq!(*harness.driver.state(), AgentState::Busy);
    assert_eq!((harness.take_blocked_count(), harness.take_written().as_str()), (0, ""));
}

#[test]
fn second_escape_waits_longer_in_qwen() {
    let mut harness = Harness::new("qwen");
    let rows = [
        "  ? Shell ls",
        "",
        "   Allow execution of: 'ls'?",
        "",
        "   › 1. Yes, allow once",
        "     2. No (esc)",
    ];
    harness.feed(&format!("\x1b[H\x1b[2J{}\x1b[?25l", rows.join("\r\n")));
    harness.advance(2000);
    let choices = ["Yes, allow once", "No (esc)"].map(String::from);
    assert!(harness.driver.answer(harness.now, &choices, None), "{:?}", harness.driver.state());
    harness.effects();
    assert_eq!(harness.take_written(), "\x1b");
    harness.advance(2900);
    assert_eq!(harness.take_written(), "", "it may only be late");
    harness.advance(200);
    assert_eq!(harness.take_written(), "\x1b");
}

#[test]
fn provider_selection_of_qwen_is_a_login() {
    let mut harness = Harness::new("qwen");
    let edge = "─".repeat(40);
    let inner =
        ["Connect a Provider", "", "› Alibaba ModelStudio", "  Custom Provider", "", "Terms of Services"];
    let inner = inner.map(|text| format!("  │ {text:39}│")).join("\r\n");
    harness.feed(&format!(
        "\x1b[H\x1b[2J  ●\u{fe0e} Auto mode enabled.\r\n  ┌{edge}┐\r\n{inner}\r\n  └{edge}┘\x1b[?25l"
    ));
    harness.advance(2000);
    let state = harness.driver.state();
    assert!(matches!(state, AgentState::Blocked { kind: BlockKind::Login, .. }), "{state:?}");
}

#[test]
fn redrawn_dialog_is_the_same() {
    let mut harness = answered("✦ I will look. 1 s");
    // A read can end anywhere: after the erase, within the dialog, before its cursor.
    harness.feed("\x1b[H\x1b[2J");
    harness.advance(5);
    let again = dialog("✦ I will look. 2 s", "ls", 0);
    let half = again.find("│ ● 1.").unwrap();
    harness.feed(&again[..half]);
    harness.advance(5);
    harness.feed(&dialog("✦ I will look. 2 s", "ls", 9));
    harness.advance(5);
    assert_eq!(harness.take_written(), "", "no key is sent to half a dialog");
    harness.feed(&again);
    assert!(harness.take_answers().is_empty());
    harness.advance(600);
    assert_eq!(harness.take_written(), "\r", "the key was ignored");
    harness.feed(WORKING);
    assert_eq!((harness.take_answers(), harness.take_blocked_count()), (vec![true], 0));
}

#[test]
fn repeated_key_that_arrives_late_confirms_no_other_choice() {
    let mut harness = Harness::new("gemini");
    harness.feed("\x1b[?2004h >   Type your message or @path/to/file\x1b[3G");
    harness.advance(2000);
    harness.feed(&dialog("", "ls", 0));
    harness.advance(100);
    assert!(harness.driver.answer(harness.now, &choices(), Some(1)));
    harness.effects();
    assert_eq!(harness.take_written(), "\x1b[B");
    harness.advance(600);
    assert_eq!(harness.take_written(), "\x1b[B", "the key had no effect so far");
    // A slow agent has only now read the first key. The second one is on its way.
    harness.feed(&dialog("", "ls", 1));
    harness.advance(500);
    assert_eq!(harness.take_written(), "", "Enter would confirm what the second key selects");
    harness.feed(&dialog("", "ls", 2));
    assert_eq!(harness.take_written(), "\x1b[A");
    harness.feed(&dialog("", "ls", 1));
    harness.advance(1000);
    assert_eq!(harness.take_written(), "");
    harness.advance(1000);
    assert_eq!(harness.take_written(), "\r", "no key is on its way any more");
}

#[test]
fn choices_read_in_pieces_are_reported_together() {
    let mut harness = Harness::new("gemini");
    harness.feed("\x1b[?2004h >   Type your message or @path/to/file\x1b[3G");
    harness.advance(2000);
    let all = dialog("", "ls", 0);
    let first = all.find("│   2.").unwrap();
    harness.feed(&all[..first]);
    harness.advance(30);
    harness.feed(&all);
    harness.advance(100);
    assert_eq!(harness.take_blocked_count(), 1);
    assert!(matches!(harness.driver.state(), AgentState::Blocked { choices: all, .. } if *all == choices()));
}

#[test]
fn half_of_a_dialog_is_not_reported() {
    let permission = [
        "\x1b[H\x1b[2J",
        " Bash command\r\n ls\r\n Do you want to proceed?\r\n ❯ 1. Yes\r\n",
        "   2. Yes, and always allow access to /a/long/path/that/wraps\r\n      from this project\r\n",
        "   3. No\r\n",
        "\r\n Esc to cancel · Tab to amend",
    ];
    for cut in 2..permission.len() {
        let mut harness = Harness::ready_claude();
        harness.submit("hello").unwrap();
        harness.composer("", "hello", "");
        harness.feed("\x1b]0;◐ Claude Code\x07");
        harness.composer("❯ hello\n", "", "esc to interrupt");
        harness.feed("\x1b]0;✳ Claude Code\x07");
        harness.feed(&permission[..cut].concat());
        // On a busy machine the agent writes the rest much later than `settle_ms`.
        harness.advance(300);
        assert_eq!((harness.take_blocked_count(), harness.driver.state()), (0, &AgentState::Busy), "{cut}");
        harness.feed(&permission[cut..].concat());
        harness.advance(40);
        let AgentState::Blocked { choices, .. } = harness.driver.state() else { panic!("{cut}") };
        assert_eq!((choices.len(), choices[2].as_str()), (3, "No"), "{cut}");
        harness.advance(5000);
        assert_eq!(harness.take_blocked_count(), 1, "{cut}");
        // The redrawn dialog is the same one, whatever part of it is visible for a while.
        harness.feed(&permission[..cut].concat());
        harness.advance(300);
        harness.feed(&permission[cut..].concat());
        harness.advance(5000);
        assert_eq!(harness.take_blocked_count(), 0, "{cut}");
    }
}

#[test]
fn dialog_without_a_hint_is_reported() {
    let mut harness = Harness::ready_claude();
    harness.feed("\x1b[H\x1b[2J Do you want to proceed?\r\n ❯ 1. Yes\r\n   2. No");
    harness.advance(5000);
    assert_eq!(harness.take_blocked_count(), 1);
    let AgentState::Blocked { choices, .. } = harness.driver.state() else { panic!("not blocked") };
    assert_eq!(choices[..], ["Yes", "No"]);
}

#[test]
fn second_dialog_is_reported_and_gets_no_key() {
    let mut harness = answered("");
    harness.feed(&dialog("", "rm -r .", 0));
    harness.advance(99);
    assert!(harness.take_answers().is_empty());
    harness.advance(5000);
    assert_eq!((harness.take_answers(), harness.take_blocked_count()), (vec![true], 1));
    assert_eq!(harness.take_written(), "", "a key never answers the next dialog");
    let state = harness.driver.state();
    assert!(matches!(state, AgentState::Blocked { .. }), "{state:?}");
}

const ACROSS: [&str; 3] = ["Allow once", "Allow always", "Reject"];

/// Draws opencode's dialog: all choices in one row, the selected one with another background.
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

/// Draws the dialog as in a narrow window: the hints are below the choices.
fn narrow_dialog_across(selected: usize) -> String {
    let hints =
        "\r\n\x1b[48;5;233m  ┃\x1b[48;5;234m\r\n\x1b[48;5;233m  ┃\x1b[48;5;234m  ctrl+f fullscreen  ⇆ select";
    dialog_across(selected).replace("  ⇆ select", hints)
}

#[test]
fn horizontal_choices_use_left_and_right() {
    check_horizontal_choices(dialog_across);
}

#[test]
fn choices_above_the_hints_are_answerable() {
    check_horizontal_choices(narrow_dialog_across);
}

fn check_horizontal_choices(dialog_across: fn(usize) -> String) {
    let mut harness = Harness::new("opencode");
    harness.feed("┃  Ask anything\r\n╹▀▀▀\x1b[1;4H");
    harness.advance(4000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.feed(&dialog_across(0));
    harness.advance(1000);
    let choices = ACROSS.map(String::from).to_vec();
    assert_eq!(
        *harness.driver.state(),
        AgentState::Blocked { kind: BlockKind::Permission, choices: choices.clone() }
    );
    assert!(harness.driver.answer(harness.now, &choices, Some(2)));
    harness.effects();
    assert_eq!(harness.take_written(), "\x1b[C");
    harness.feed(&dialog_across(1));
    assert_eq!(harness.take_written(), "\x1b[C");
    harness.feed(&dialog_across(2));
    assert_eq!(harness.take_written(), "\r");
    harness.feed("\x1b[H\x1b[2J┃  Ask anything\r\n╹▀▀▀\r\n esc interrupt\x1b[1;4H\x1b[?25h");
    harness.advance(500);
    assert_eq!(harness.take_answers(), [true]);
    assert!(!harness.driver.answer(harness.now, &choices, Some(0)), "no dialog is shown any more");
}

const REASON: &str = "\x1b[H\x1b[2J  ┃  △ Reject permission\r\n  ┃  Tell Kilo what to do differently\r\n  ┃  enter confirm  esc cancel\x1b[?25l";

/// A Kilo whose permission dialog was refused and that requests the reason.
fn kilo_refused(target: Option<usize>, keys: &str) -> Harness {
    let mut harness = Harness::new("kilo");
    harness.feed("┃  Ask anything\r\n╹▀▀▀\x1b[1;4H");
    harness.advance(4000);
    harness.feed(&dialog_across(2));
    harness.advance(1000);
    assert!(harness.driver.answer(harness.now, &ACROSS.map(String::from), target));
    harness.effects();
    assert_eq!(harness.take_written(), keys);
    harness.feed(REASON);
    harness
}

#[test]
fn request_for_a_reason_is_confirmed_once() {
    for (target, keys) in [(None, "\x1b"), (Some(2), "\r")] {
        let mut harness = kilo_refused(target, keys);
        assert_eq!(harness.take_written(), "\r");
        harness.advance(3000);
        assert_eq!((harness.take_written().as_str(), harness.take_answers()), ("", vec![]), "it may be late");
        harness.advance(2000);
        assert_eq!(harness.take_written(), "\r");
        harness.feed("\x1b[H\x1b[2J┃  Ask anything\r\n╹▀▀▀\x1b[1;4H\x1b[?25h");
        harness.advance(20_000);
        assert_eq!((harness.take_answers(), harness.take_blocked_count()), (vec![true], 1));
        assert_eq!((harness.take_written().as_str(), harness.driver.state()), ("", &AgentState::Ready));
    }
}

#[test]
fn request_for_a_reason_that_stays_is_a_dialog() {
    let mut harness = kilo_refused(None, "\x1b");
    harness.advance(15_000);
    assert_eq!(harness.take_answers(), [false]);
    let state = harness.driver.state();
    assert!(matches!(state, AgentState::Blocked { choices, .. } if choices.is_empty()), "{state:?}");
    // Without an answer in progress, nothing is typed into it.
    harness.take_written();
    harness.feed("\x1b[H\x1b[2J┃  Ask anything\r\n╹▀▀▀\x1b[1;4H\x1b[?25h");
    harness.advance(4000);
    harness.feed(REASON);
    harness.advance(10_000);
    assert_eq!(harness.take_written(), "");
    assert!(matches!(harness.driver.state(), AgentState::Blocked { .. }));
}

#[test]
fn identical_dialog_is_reported_after_work_on_screen() {
    let mut harness = answered("");
    harness.feed(WORKING);
    assert_eq!(harness.take_answers(), [true]);
    harness.feed(&dialog("", "ls", 0));
    harness.advance(5000);
    assert_eq!((harness.take_blocked_count(), harness.take_written().as_str()), (1, ""));
}

#[test]
fn identical_dialog_is_reported_after_work_in_title() {
    let mut harness = answered("");
    harness.feed(&format!("\x1b]0;✦  Working… (work)\x07{}{ACTION}", dialog("", "ls", 0)));
    harness.advance(5000);
    assert_eq!((harness.take_answers(), harness.take_blocked_count()), (vec![true], 1));
    assert_eq!(harness.take_written(), "");
}

#[test]
fn identical_dialog_is_reported_below_new_output() {
    let mut harness = answered("✦ I will look.");
    harness.feed(&dialog("✦ I will look.\r\n✓ Shell ls\r\n  a.txt\r\n", "ls", 0));
    harness.advance(5000);
    assert_eq!((harness.take_answers(), harness.take_blocked_count()), (vec![true], 1));
    assert_eq!(harness.take_written(), "");
}

#[test]
fn unanswerable_dialog_is_reported() {
    let mut harness = answered("");
    harness.advance(10_000);
    assert_eq!(harness.take_answers(), [false]);
    assert!(matches!(harness.driver.state(), AgentState::Blocked { .. }));
}

#[test]
fn unknown_dialog_is_closed_once_composer_is_back() {
    let mut harness = Harness::ready_claude();
    harness.feed("\x1b[H\x1b[2J Settings: Status\r\n Version: 2\r\n\r\n Some way to leave");
    harness.advance(3000);
    assert!(matches!(harness.driver.state(), AgentState::Blocked { kind: BlockKind::Other, .. }));
    assert!(harness.driver.answer(harness.now, &[], None));
    harness.effects();
    assert_eq!(harness.take_written(), "\x1b");
    harness.composer("", "", "? for shortcuts");
    harness.advance(5000);
    assert_eq!(harness.take_answers(), [true]);
    assert_eq!(harness.take_written(), "", "a second Escape would go to the composer");
}
