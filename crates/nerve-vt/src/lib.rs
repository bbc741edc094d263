//! The terminal model: bytes to terminal to screen, and keys to bytes.
//!
//! Nothing here does I/O, sleeps or reads a clock: callers pass bytes and times. Live sessions, replays and tests therefore use
//! the same code.
//!
//! | module | content |
//! |---|---|
//! | [`terminal`] | [`terminal::TerminalState`]: the model of a terminal, with its compact scrollback |
//! | [`screen`] | an immutable view of the visible rows |
//! | [`keys`] | keys, mouse and pasted text as bytes |
#![warn(missing_docs)]

pub mod keys;
pub mod screen;
pub mod terminal;
