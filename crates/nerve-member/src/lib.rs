//! Membership of a machine in a cluster. Its server holds the lease on the machine's identity and sees the other members; it takes no
//! runs yet.
//!
//! | file | contents |
//! |---|---|
//! | `cluster.toml` in the directory of the settings | [`ClusterConfig`], mode 0600 |
//! | `cluster/machine.json` in the state directory | the id of the machine, and the number of starts |
//! | `cluster/status.json` there | [`MemberStatus`] of the running server |
//! | `cluster/lock` there | locked by the process that uses the identity |
//!
//! [`serve`] is the part of a server. It follows the configuration, so `nerve cluster join` and `leave` need no restart. [`Membership`]
//! has the commands.
#![warn(missing_docs)]

mod broker_check;
mod config;
mod error;
mod fingerprint;
mod identity;
mod member;
mod member_list;
mod membership;
mod paths;
mod private_file;
mod service;
mod status;

pub use broker_check::BrokerCheck;
pub use config::{ClusterConfig, DEFAULT_LEASE_SECONDS};
pub use error::MemberError;
pub use member_list::{MemberInfo, MemberList};
pub use membership::{Creation, Membership, MembershipStatus};
pub use nerve_nats::{Promise, StreamSettings};
pub use paths::MemberPaths;
pub use service::serve;
pub use status::{MemberState, MemberStatus};
