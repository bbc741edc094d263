//! Nodes in the engine, with real programs: shells, REPLs and the mock agent.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod acp;
mod activity;
mod bash;
mod budgets;
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
mod restart;
mod results;
mod shell;
mod span_receiver;
mod streams;
mod telemetry;
mod timelines;
mod tmux;
mod usage_ledger;
mod usage_limits;
mod wezterm;
