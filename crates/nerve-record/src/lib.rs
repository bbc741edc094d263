//! What is kept of a node.
//!
//! Nothing here is async and nothing reads a clock: callers pass times as [`nerve_term::event::TsNs`].
//!
//! | module | what it is |
//! |---|---|
//! | [`history`] | the JSONL audit log of one node's operations (seed channel-history) |
//! | [`name`] | the rule for names that become parts of paths |
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation)]

pub mod history;
pub mod name;
