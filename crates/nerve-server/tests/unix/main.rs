//! The server over its real Unix socket, spoken to in raw lines.
#![expect(clippy::unwrap_used, reason = "what cannot be had in a test fails it")]

mod harness;

mod bad_input;
mod chat;
mod forks;
mod graphs;
mod in_process;
mod lifecycle;
mod matrix;
mod results;
mod traffic;
