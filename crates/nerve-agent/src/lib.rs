//! Knowledge about agent programs: profiles, parsers of their answers, and the driver that turns a prompt into a finished turn.
//!
//! Nothing here does I/O, sleeps or reads a clock: callers pass bytes and `now`, and get back effects and the next deadline. Live
//! sessions, replays and tests on simulated time therefore use the same code.
//!
//! | module | content |
//! |---|---|
//! | [`activity`] | readers of session files that report activities |
//! | [`profile`] | descriptions of agent programs |
//! | [`parse`] | parsers of answers and transcripts |
//! | [`driver`] | agent states and turns |
//! | [`terminal_text`] | the rows of saved terminal output |
#![warn(missing_docs)]

pub mod activity;
pub mod driver;
pub mod parse;
pub mod profile;
pub mod terminal_text;
