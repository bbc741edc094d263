//! Nodes, sessions, graphs and the engine.
//!
//! Data flow: a backend's bytes → pump → terminal model → driver → [`node`] → [`engine`].

pub mod activity;
pub mod branches;
pub mod budget;
pub mod cancellation;
pub mod chat;
pub mod command;
pub mod compat;
pub mod context;
pub mod conversation;
pub mod data_dirs;
pub mod engine;
pub mod error;
pub mod events;
pub mod executions;
mod files;
pub mod fork;
pub mod graph;
pub mod llm;
pub mod metrics;
pub mod node;
pub mod patterns;
pub mod policy;
pub mod profiles;
pub mod proxy;
pub mod recordings;
pub mod results;
pub mod session;
pub mod snapshots;
pub mod telemetry;
pub mod trace;
pub mod webhook;
