//! Programs that ran under an earlier driver.

use nerve_agent::driver::AgentState;
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
fn idle_takeover_yields_to_busy_program() {
    let mut harness = replayed("$ sleep 9\r\n");
    harness.driver.on_idle_takeover(harness.now);
    harness.foreground = Foreground::Other;
    harness.observe();
    assert_eq!(*harness.driver.state(), AgentState::Busy);
}
