//! Tests of the testkit.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

// The unit tests of the example `fake_wezterm`: cargo does not run tests of examples.
#[path = "../../examples/fake_wezterm/text.rs"]
mod fake_wezterm_text;
mod mock_agent;
mod mock_agent_on_a_terminal;
mod mock_model;
mod replay;
mod screen;
