//! Nodes over real programs: shells, REPLs and the mock agent, through the engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod activity;
mod bash;
mod limits;
mod mock_agent;
mod odd_shells;
mod profile_env;
mod registry;
mod shell;
mod stage;
mod streams;
