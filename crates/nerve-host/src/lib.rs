//! Terminals with a program on them: backends, the pump, the recorder, and hosts.
//!
//! A host is a small process that owns one terminal and its recording, and outlives the process that started it. It keeps no
//! terminal model and no parser. It reads the terminal, stamps and records the bytes ([`pump`], [`recorder`]) and sends them
//! to its clients ([`protocol`]). Its entry in the [`registry`] lets others find it. [`launch`] starts a host;
//! [`backend::HostedBackend`] is the client.

#![warn(missing_docs)]

pub mod backend;
pub mod clock;
pub mod connection;
pub mod end_snapshot;
pub mod environment;
pub mod executions;
pub mod launch;
pub mod line_reader;
pub mod manager;
pub mod output_feed;
pub mod process;
pub mod protocol;
pub mod pump;
pub mod recorder;
pub mod registry;
pub mod repair;
pub mod resync_limit;
pub mod tap;

mod backlog;
mod blocking_task;
mod clients;
mod exit_ack;
mod faults;
mod lifecycle;
mod live_index;
mod metadata;
mod reader;
mod session;
mod size_policy;
pub mod snapshot_retention;
mod snapshots;
mod sockets;
mod spec;
mod writer;

pub use spec::{CONTROL, EXECUTION, EndSnapshot, HostSpec, OF, SNAPSHOT, UNRECORDED};
