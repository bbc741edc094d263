//! The engine: one method per request, and events. Servers, the CLI and tests all use it.

#![warn(missing_docs)]

pub mod branches;
pub mod compat;
pub mod conversation;
pub mod data_dirs;
pub mod dispatch;
mod engine;
mod node_files;
mod page;
mod recorded_source;
pub mod recordings;
mod requests;
mod results;
mod runs;
pub mod search;
mod session_persister;
pub mod snapshot_limit;
pub mod snapshots;
mod thread;
mod timelines;
pub mod transcripts;
pub mod usage;
mod webhook;

pub use self::engine::{Engine, EngineConfig};
pub use self::requests::context::{RequestContext, Warnings};
