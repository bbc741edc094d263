//! A program for a terminal: a state machine without I/O or a clock. Times are relative to its start.

use std::time::Duration;

use super::agent::Agent;
use super::replay::Replay;
use super::screen::ScreenSize;
use super::transcript::Message;

pub(super) trait Program {
    /// Returns the messages of the conversation since the last call.
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
    fn input(&mut self, bytes: &[u8], now: Duration);
    fn tick(&mut self, now: Duration);
    fn resize(&mut self, size: ScreenSize);
}

impl Program for Agent {
    fn take_messages(&mut self) -> Vec<Message> {
        self.take_messages()
    }

    fn take_output(&mut self) -> Vec<u8> {
        self.take_output()
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline()
    }

    fn exit_code(&self) -> Option<i32> {
        self.exit_code()
    }

    fn wants_input(&self) -> bool {
        self.wants_input()
    }

    fn input(&mut self, bytes: &[u8], now: Duration) {
        self.input(bytes, now);
    }

    fn tick(&mut self, now: Duration) {
        self.tick(now);
    }

    fn resize(&mut self, size: ScreenSize) {
        self.resize(size);
    }
}

impl Program for Replay {
    fn take_output(&mut self) -> Vec<u8> {
        self.take_output()
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline()
    }

    fn exit_code(&self) -> Option<i32> {
        self.exit_code()
    }

    fn wants_input(&self) -> bool {
        true
    }

    fn input(&mut self, bytes: &[u8], now: Duration) {
        self.input(bytes, now);
    }

    fn tick(&mut self, now: Duration) {
        self.tick(now);
    }

    /// Recorded output has a fixed width.
    fn resize(&mut self, _size: ScreenSize) {}
}
