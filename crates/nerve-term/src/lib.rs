//! Terminal model, agent profiles, answer parsers, and the driver that turns a prompt into a finished turn.
//!
//! Nothing in this crate does I/O, sleeps or reads a clock: callers pass bytes and `now`, and get effects and the next
//! deadline. Live sessions, replays and tests on simulated time therefore share one code path.
//!
//! | module | contents |
//! |---|---|
//! | [`event`] | terminal events, time and size |
//! | [`terminal`] | the terminal model, [`terminal::TerminalState`] |
//! | [`screen`] | an immutable view of the visible screen |
//! | [`store`] | the scrollback |
//! | [`keys`] | encoding of keys, pastes and mouse events |
//! | [`profile`] | agent profiles |
//! | [`parse`] | parsers of answers and transcripts |
//! | [`driver`] | agent states and turns |
#![warn(missing_docs)]

pub mod driver;
pub mod event;
pub mod keys;
pub mod parse;
pub mod profile;
pub mod screen;
pub mod store;
pub mod terminal;
