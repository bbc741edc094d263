//! Lines typed into a line-based program before it has read the ones before them.

use nerve_agent::driver::AgentState;
use nerve_types::Foreground;

use super::harness::Harness;

/// A prompt with the marks of shell integration.
const MARKED: &str = "\x1b]133;A\x07$ \x1b]133;B\x07";

fn ready_harness(profile: &str, greeting: &str) -> Harness {
    let mut harness = Harness::new(profile);
    harness.foreground = Foreground::Idle;
    harness.feed(greeting);
    harness.advance(2000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
    harness
}

fn type_line(harness: &mut Harness, line: &str) {
    let bytes = format!("{line}\r");
    harness.driver.on_input(harness.now, harness.terminal.cursor_line().0, bytes.as_bytes());
    harness.observe();
}

#[test]
fn second_line_waits_for_second_marked_prompt() {
    let mut harness = ready_harness("shell", MARKED);
    type_line(&mut harness, "echo a");
    type_line(&mut harness, "echo b");
    harness.feed(&format!("echo a\r\n\x1b]133;C\x07a\r\n\x1b]133;D;0\x07{MARKED}"));
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Busy, "this prompt is followed by the second line");
    harness.feed(&format!("echo b\r\n\x1b]133;C\x07b\r\n\x1b]133;D;0\x07{MARKED}"));
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn second_line_waits_for_second_known_prompt() {
    for (profile, prompt) in [("python", ">>> "), ("generic", "me: ")] {
        let mut harness = ready_harness(profile, &format!("welcome\r\n{prompt}"));
        type_line(&mut harness, "1");
        type_line(&mut harness, "2");
        // The terminal itself echoes the second line first.
        harness.feed(&format!("1\r\n2\r\n1\r\n{prompt}"));
        harness.advance(300);
        assert_eq!(*harness.driver.state(), AgentState::Busy, "{profile}");
        harness.feed(&format!("2\r\n2\r\n{prompt}"));
        harness.advance(60);
        assert_eq!(*harness.driver.state(), AgentState::Ready, "{profile}");
    }
}

#[test]
fn line_read_by_a_command_delays_only_until_silence() {
    let mut harness = ready_harness("shell", MARKED);
    type_line(&mut harness, "read x");
    type_line(&mut harness, "value");
    harness.feed(&format!("read x\r\n\x1b]133;C\x07value\r\n\x1b]133;D;0\x07{MARKED}"));
    harness.advance(500);
    assert_eq!(*harness.driver.state(), AgentState::Busy);
    harness.advance(1000);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}

#[test]
fn interrupt_drops_lines_that_were_not_read() {
    let mut harness = ready_harness("shell", MARKED);
    type_line(&mut harness, "sleep 60");
    type_line(&mut harness, "echo never");
    harness.feed("sleep 60\r\n\x1b]133;C\x07echo never\r\n");
    harness.driver.on_input(harness.now, harness.terminal.cursor_line().0, b"\x03");
    harness.feed(&format!("^C\r\n\x1b]133;D;130\x07{MARKED}"));
    harness.advance(300);
    assert_eq!(*harness.driver.state(), AgentState::Ready);
}
