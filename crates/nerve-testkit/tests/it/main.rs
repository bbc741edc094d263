//! The testkit, tested: one binary for all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod mock_agent;
mod mock_agent_on_a_terminal;
mod mock_model;
mod replay;
mod screen;
