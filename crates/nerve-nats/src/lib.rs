//! The replicated store of a cluster on NATS JetStream: performs the requests of `nerve-cluster`'s core.
//!
//! JetStream's API is JSON over requests, so this crate uses only the basic client of async-nats. Each call has a deadline, and no
//! state depends on a subscription that lasts.
//!
//! | stream | subjects | messages |
//! |---|---|---|
//! | leases | `nerve.CLUSTER.lease.KEY` | the last of each key, with a time to live; expiry leaves a marker |
//! | | `nerve.CLUSTER.lease.name.NAME` | the machine that has a name, without a time to live |
//! | journals | `nerve.CLUSTER.journal.RUN` | all records of all runs |
//!
//! A write carries the sequence of the last message of its subject (`Nats-Expected-Last-Subject-Sequence`), and the stream's leader
//! refuses it if another message is the last. A read of a lease asks the leader too, because replicas lag.
#![warn(missing_docs)]

mod connection;
mod error;
mod jetstream;
mod journal_reader;
mod names;
mod options;
mod presence;
mod runs;
mod store;
mod streams;

pub use connection::Connection;
pub use error::BrokerError;
pub use names::NameHolder;
pub use options::{BrokerOptions, Credentials};
pub use presence::{PresentMachine, PresentMachines};
pub use runs::JournalChanges;
pub use store::NatsStore;
pub use streams::{ClusterName, Durability, StreamSettings, StreamStatus, Streams};
