//! Nodes over real programs: shells, REPLs and the mock agent, through the engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod activity;
mod bash;
mod chat;
mod compat;
mod conversations;
mod fork;
mod harness;
mod matrix;
mod mock_agent;
mod odd_shells;
mod patterns;
mod profile_env;
mod proxy;
mod results;
mod shell;
mod streams;
mod telemetry;
mod tmux;
mod usage_limits;
mod wezterm;
