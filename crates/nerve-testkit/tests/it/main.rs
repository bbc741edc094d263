//! Tests of the testkit.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

mod mock_agent;
mod mock_agent_on_a_terminal;
mod mock_model;
mod replay;
mod screen;
