//! Requests to the replicated store, and its responses, as data.
//!
//! NATS JetStream meets this contract with `Nats-Expected-Last-Subject-Sequence` and `Nats-TTL`, read through the stream's leader.
//! There, an expired or deleted key leaves a marker, a message with a sequence of its own. A later write expects that sequence.

use std::fmt;
use std::time::Duration;

use crate::id::{AttemptId, RunId, Sequence};
use crate::instance::{Instance, MachineId};
use crate::journal::{Record, UndecodableRecord};

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
    /// Records with their sequences, in order, as [`Record::decode`] returns them.
    Records(Vec<(Sequence, Result<Record, UndecodableRecord>)>),
}

/// The subject of the key in the store.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Machine(machine) => write!(f, "machine.{machine}"),
            Key::Owner(run) => write!(f, "run.{run}.owner"),
            Key::Step(attempt) => write!(f, "step.{attempt}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AttemptId, Key, RunId};
    use crate::id::StepId;

    #[test]
    fn subjects_join_ids_by_dots() {
        let (run, step) = (RunId::new("r-1").unwrap(), StepId::new("s").unwrap());
        assert_eq!(Key::Owner(run.clone()).to_string(), "run.r-1.owner");
        assert_eq!(Key::Step(AttemptId { run, step, attempt: 2 }).to_string(), "step.r-1.s.2");
    }
}
