//! Programs that ran under an earlier driver.

use nerve_agent::driver::{AgentState, Overwrite, SubmitError};
use nerve_types::Foreground;

use super::harness::Harness;

/// Returns a harness after the replay of the output of a shell.
fn replayed(output: &str) -> Harness {
    let mut harness = Harness::new("shell");
    harness.foreground = Foreground::Idle;
    harness.terminal.process_data(harness.now, output.as_bytes());
    harness.driver.on_output(harness.now, harness.terminal.offset());
    harness
}

#[test]
fn idle_program_is_ready_at_once() {
    let mut harness = replayed("$ echo a\r\na\r\n$ ");
    harness.driver.on_idle_takeover(harness.now);
    harness.observe();
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn first_turn_after_takeover_ends_at_the_known_prompt() {
    for (known, lost) in [(Some("$ "), None), (None, Some(Overwrite::AmbiguousRow))] {
        let mut harness = replayed("$ echo a\r\na\r\n$ ");
        known.into_iter().for_each(|prompt| harness.driver.on_known_prompt(prompt.to_string()));
        harness.driver.on_idle_takeover(harness.now);
        harness.observe();
        harness.submit("echo b").unwrap();
        harness.feed("echo b\r\nb\r\n$ ");
        harness.advance(5000);
        assert_eq!(harness.ended.pop().unwrap().overwrite, lost, "{known:?}");
        assert_eq!(harness.driver.learned_prompt(), Some("$ "));
    }
}

/// Returns a harness whose driver was attached to a shell that has written `output`.
fn attached(profile: &str, output: &str) -> Harness {
    let mut harness = Harness::new(profile);
    harness.driver = harness.driver.attached();
    harness.foreground = Foreground::Idle;
    harness.feed(output);
    harness.advance(5000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness
}

#[test]
fn draft_before_attaching_refuses_prompt() {
    let long = format!("$ echo {}", "long ".repeat(20));
    for (profile, output, draft) in [
        ("shell", "$ ls\r\nout\r\n$ echo draft", "echo draft"),
        ("shell", "$ echo draft\x1b[3G", "echo draft"),
        ("shell", "$ for i in 1 2\r\n> ", "for i in 1 2"),
        ("shell", "no prompt", "no prompt"),
        ("shell", long.as_str(), long[2..].trim()),
        ("python", ">>> 1 +", "1 +"),
        ("python", "In [3]: print(", "print("),
        ("generic", "(gdb) ", ""),
        ("generic", "name> break", "break"),
    ] {
        let mut harness = attached(profile, output);
        let submitted = harness.submit("echo ours");
        match draft {
            "" => assert_eq!(submitted, Ok(1), "{output}"),
            draft => assert_eq!(submitted, Err(SubmitError::Line(draft.into())), "{output}"),
        }
    }
}

#[test]
fn right_hand_prompt_is_no_draft() {
    let mut harness = attached("shell", "% \x1b[54G12:30\x1b[3G");
    assert_eq!(harness.submit("echo ours"), Ok(1));
}

#[test]
fn placeholder_is_no_draft() {
    let mut harness = attached("generic", "> \x1b[7mT\x1b[m\x1b[2mry this\x1b[m\x1b[3G");
    assert_eq!(harness.submit("echo ours"), Ok(1));
}

#[test]
fn cleared_draft_admits_prompt() {
    let mut harness = attached("shell", "$ echo draft");
    assert!(harness.submit("echo ours").is_err());
    harness.feed("\r$ \x1b[K");
    assert_eq!(harness.submit("echo ours"), Ok(1));
}

#[test]
fn unknown_prompt_is_known_after_enter() {
    let mut harness = attached("shell", "odd one");
    assert_eq!(harness.submit("echo ours"), Err(SubmitError::Line("odd one".into())));
    harness.feed("\r\nodd one");
    harness.advance(1000);
    harness.feed(" typed");
    assert_eq!(harness.submit("echo ours"), Err(SubmitError::Line("typed".into())));
}

#[test]
fn idle_takeover_yields_to_busy_program() {
    let mut harness = replayed("$ sleep 9\r\n");
    harness.driver.on_idle_takeover(harness.now);
    harness.foreground = Foreground::Other;
    harness.observe();
    assert_eq!(*harness.driver.state(), AgentState::Busy);
}
