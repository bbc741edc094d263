//! Requests to the replicated store, and its responses, as data.
//!
//! NATS JetStream meets this contract with `Nats-Expected-Last-Subject-Sequence` and `Nats-TTL`, read through the stream's leader.
//! There, an expired or deleted key leaves a marker, a message with a sequence of its own. A later write expects that sequence.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{Instance, MachineId};
use crate::journal::Record;

/// Position of a message in the store. Increases with every accepted write of the same stream; 0 stands for "no message yet". All keys
/// share one stream, so sequences of leases are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// Id of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub String);

/// Id of a step in its run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId(pub String);

/// One attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Key of a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The identity of a machine.
    Machine(MachineId),
    /// Ownership of a run.
    Owner(RunId),
    /// Execution of a step.
    Step(AttemptId),
}

/// A request to the store. Every write is a compare-and-set: `expected` is the sequence of the last message of the key or journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Reads a lease, linearizably. The response is [`Response::Entry`].
    Get {
        /// The lease.
        key: Key,
    },
    /// Takes or renews a lease.
    Put {
        /// The lease.
        key: Key,
        /// The new holder.
        holder: Instance,
        /// Sequence of the key's last message.
        expected: Sequence,
        /// Time after which the store removes the message, by the store's clock.
        ttl: Duration,
    },
    /// Releases a lease.
    Delete {
        /// The lease.
        key: Key,
        /// Sequence of the key's last message.
        expected: Sequence,
    },
    /// Reads the records of a journal after a sequence, linearizably. The response is [`Response::Records`].
    Read {
        /// The run.
        run: RunId,
        /// Sequence of the last known record.
        after: Sequence,
    },
    /// Appends a record to a journal.
    Append {
        /// The run.
        run: RunId,
        /// The record.
        record: Record,
        /// Sequence of the journal's last record.
        expected: Sequence,
    },
}

/// The store's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The write is durable, at this sequence.
    Accepted(Sequence),
    /// The write had no effect: the last sequence differs from the expected one. An earlier copy of the same write may be the cause.
    WrongSequence {
        /// The last sequence.
        last: Sequence,
    },
    /// No response within the deadline. A write may take effect, even later.
    Unavailable,
    /// The state of a lease.
    Entry {
        /// Sequence of the last message, also if it is a marker; 0 without a message.
        sequence: Sequence,
        /// The holder; `None` if the lease is free.
        holder: Option<Instance>,
    },
    /// Records with their sequences, in order.
    Records(Vec<(Sequence, Record)>),
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.run.0, self.step.0, self.attempt)
    }
}

/// The subject of the key in the store.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Machine(machine) => write!(f, "machine.{machine}"),
            Key::Owner(run) => write!(f, "run.{}.owner", run.0),
            Key::Step(attempt) => write!(f, "step.{attempt}"),
        }
    }
}
