//! A program for a terminal: a state machine without I/O or a clock. Times are relative to its start.

use std::time::Duration;

use super::screen::ScreenSize;
use super::transcript::Message;

/// A program that reads and writes a terminal.
pub trait Program {
    /// Returns the messages of the conversation since the last call: a prompt when it is submitted, an answer when it is complete.
    fn take_messages(&mut self) -> Vec<Message> {
        Vec::new()
    }
    /// Returns the output since the last call.
    fn take_output(&mut self) -> Vec<u8>;
    /// Returns when `tick` is due.
    fn deadline(&self) -> Option<Duration>;
    /// Returns the exit code once it has ended.
    fn exit_code(&self) -> Option<i32>;
    /// Returns true if it reads its terminal.
    fn wants_input(&self) -> bool;
    /// Processes bytes from the terminal.
    fn input(&mut self, bytes: &[u8], now: Duration);
    /// Advances the time to `now`.
    fn tick(&mut self, now: Duration);
    /// Changes the size of the terminal.
    fn resize(&mut self, size: ScreenSize);
}
