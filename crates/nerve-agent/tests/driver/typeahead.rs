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

#[test]
fn turn_of_several_lines_waits_for_their_prompts() {
    let mut harness = ready_harness("python", "Python 3\r\n>>> ");
    harness.submit("import time\nprint('x')").unwrap();
    harness.feed("import time\r\n>>> ");
    // On a busy machine the program draws the echo of the next line late.
    harness.advance(300);
    assert!(harness.ended.is_empty(), "the second line was not read yet");
    harness.feed("print('x')\r\nx\r\n>>> ");
    harness.advance(60);
    assert_eq!(harness.ended.len(), 1);
    // Lines of a block are read at other prompts.
    harness.submit("for i in range(2):\n    print(i)\n").unwrap();
    harness.feed("for i in range(2):\r\n...     print(i)\r\n... \r\n0\r\n1\r\n>>> ");
    harness.advance(60);
    assert_eq!(harness.ended.len(), 2);
    // The prompts have scrolled off the screen.
    harness.submit("1\nfor i in range(40): print(i)").unwrap();
    let output: String = (0..40).map(|i| format!("{i}\r\n")).collect();
    harness.feed(&format!("1\r\n1\r\n>>> for i in range(40): print(i)\r\n{output}>>> "));
    harness.advance(500);
    assert_eq!(harness.ended.len(), 2);
    harness.advance(1000);
    assert_eq!(harness.ended.len(), 3);
}

#[test]
fn interrupted_turn_waits_for_no_dropped_lines() {
    let mut harness = ready_harness("python", "Python 3\r\n>>> ");
    harness.submit("time.sleep(60)\nprint('x')").unwrap();
    harness.feed("time.sleep(60)\r\n");
    harness.driver.interrupt(harness.now, harness.terminal.cursor_line().0);
    harness.feed("^CKeyboardInterrupt\r\n>>> ");
    harness.advance(300);
    assert_eq!(harness.ended.len(), 1);
}
