//! Membership of a machine in a cluster. Its server holds the lease on the machine's identity, sees the other members, owns runs and
//! executes their steps with its engine.
//!
//! | file | contents |
//! |---|---|
//! | `cluster.toml` in the directory of the settings | [`ClusterConfig`], mode 0600 |
//! | `cluster/machine.json` in the state directory | the id of the machine, and the number of starts |
//! | `cluster/status.json` there | [`MemberStatus`] of the running server |
//! | `cluster/lock` there | locked by the process that uses the identity |
//!
//! [`serve`] is the part of a server. It follows the configuration, so `nerve cluster join` and `leave` need no restart. [`Membership`]
//! has the commands of members, and [`ClusterRuns`] those of runs.
//!
//! An attempt at a step becomes a run of the machine's own engine: the step alone, with the results of earlier steps as fixed values.
//! The id of that run follows from the attempt, so another process of the machine finds it, and the engine's journal refuses a second
//! one.
#![warn(missing_docs)]

mod broker_check;
mod catch_up;
mod cluster_runs;
mod config;
mod driver;
mod error;
mod fingerprint;
mod identity;
mod machine_name;
mod member_list;
mod membership;
mod paths;
mod private_file;
mod run_plan;
mod service;
mod status;
mod step_executor;
mod step_graph;
mod write_problems;

pub use broker_check::BrokerCheck;
pub use cluster_runs::ClusterRuns;
pub use config::{ClusterConfig, DEFAULT_LEASE_SECONDS};
pub use error::MemberError;
pub use member_list::{AwayMember, DrainState, MemberInfo, MemberList};
pub use membership::{Creation, Membership, MembershipStatus};
pub use nerve_nats::{Durability, StreamSettings};
pub use paths::MemberPaths;
pub use run_plan::RunPlan;
pub use service::serve;
pub use status::{MemberState, MemberStatus};
