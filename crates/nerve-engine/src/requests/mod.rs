//! The engine's requests, one file per subject. The code behind them is in the module of the same name one level up.
//!
//! Each method of [`Engine`](crate::Engine) takes a request of [`nerve_api`] and returns its reply.

mod adopt;
mod branches;
mod budgets;
mod caller;
pub(crate) mod context;
mod conversations;
mod file_job;
mod fork;
mod fork_source;
mod graphs;
mod history;
mod nodes;
mod notification_state;
mod params;
mod recordings;
mod restart;
mod restart_plan;
mod results;
mod runs;
mod search;
mod sessions;
mod snapshots;
mod stopped_nodes;
mod terminals;
mod timelines;
mod transcripts;
mod turns;
mod usage;
