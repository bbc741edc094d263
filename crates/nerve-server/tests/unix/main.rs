//! The server over its Unix socket and over TCP, driven with raw lines.
#![expect(clippy::unwrap_used, reason = "a failing test panics")]
#![expect(clippy::duplicate_mod, reason = "the same tests run over the Unix socket and over TCP")]

mod harness;

mod access;
mod bad_input;
mod chat;
mod forks;
mod graphs;
mod http;
mod in_process;
mod json_style;
mod lifecycle;
mod matrix;
mod results;
mod search;
mod snapshots;
mod tcp;
mod tls;
mod traffic;
mod unix_only;
mod usage;
