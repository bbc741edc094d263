//! Bytes → terminal → screen → parsed answer, and the driver that turns a prompt into a finished turn.
//!
//! Nothing in this crate does I/O, sleeps or reads a clock: callers pass bytes and `now`, and get back effects and the next
//! deadline. That is what lets one code path serve live sessions, replays and tests on simulated time.
//!
//! | module | what it is |
//! |---|---|
//! | [`event`] | the currency: time, byte offset, kind |
//! | [`terminal`] | [`terminal::TerminalState`]: the one model of a terminal |
//! | [`screen`] | an immutable view of what is visible |
//! | [`keys`] | keys and pasted text to bytes |
//! | [`profile`] | what is known of each agent, as data |
//! | [`parse`] | a turn's text to sections |
//! | [`driver`] | ready, busy, blocked; typed, submitted, started |
#![warn(missing_docs)]

pub mod driver;
pub mod event;
pub mod keys;
pub mod parse;
pub mod profile;
pub mod screen;
pub mod store;
pub mod terminal;
