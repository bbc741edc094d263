//! Requests to the replicated store, and its responses, as data.
//!
//! NATS JetStream meets this contract with `Nats-Expected-Last-Subject-Sequence` and `Nats-TTL`, read through the stream's leader.
//! There, an expired or deleted key leaves a marker, a message with a sequence of its own. A later write expects that sequence.

use std::fmt;
use std::time::Duration;

use nerve_types::name::{self, NameError};
use serde::{Deserialize, Serialize};

use crate::identity::{Instance, MachineId};
use crate::journal::{Record, UndecodableRecord};

/// Position of a message in the store. Increases with every accepted write of the same stream; 0 stands for "no message yet". All keys
/// share one stream, so sequences of leases are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// Id of a run, a name by the rule of [`nerve_types::name`]. Ids are joined by dots in subjects of the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RunId(String);

/// Id of a step in its run, a name by the rule of [`nerve_types::name`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct StepId(String);

impl RunId {
    /// Creates the id.
    ///
    /// # Errors
    /// [`NameError`] quotes an invalid id.
    pub fn new(id: impl Into<String>) -> Result<RunId, NameError> {
        RunId::try_from(id.into())
    }
}

impl StepId {
    /// Creates the id.
    ///
    /// # Errors
    /// [`NameError`] quotes an invalid id.
    pub fn new(id: impl Into<String>) -> Result<StepId, NameError> {
        StepId::try_from(id.into())
    }
}

impl TryFrom<String> for RunId {
    type Error = NameError;

    fn try_from(id: String) -> Result<RunId, NameError> {
        name::check("run", &id)?;
        Ok(RunId(id))
    }
}

impl TryFrom<String> for StepId {
    type Error = NameError;

    fn try_from(id: String) -> Result<StepId, NameError> {
        name::check("step", &id)?;
        Ok(StepId(id))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    /// Records with their sequences, in order, as [`Record::decode`] returns them.
    Records(Vec<(Sequence, Result<Record, UndecodableRecord>)>),
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.run, self.step, self.attempt)
    }
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
    use super::{AttemptId, Key, RunId, StepId};

    #[test]
    fn ids_that_are_no_names_are_rejected() {
        for id in ["", "a.b", "a b", "*", ">", "A", &"x".repeat(33)] {
            let json = serde_json::to_string(id).unwrap();
            assert!(RunId::new(id).is_err() && serde_json::from_str::<RunId>(&json).is_err(), "{id:?}");
            assert!(StepId::new(id).is_err() && serde_json::from_str::<StepId>(&json).is_err(), "{id:?}");
        }
    }

    #[test]
    fn subjects_join_ids_by_dots() {
        let (run, step) = (RunId::new("r-1").unwrap(), StepId::new("s").unwrap());
        assert_eq!(Key::Owner(run.clone()).to_string(), "run.r-1.owner");
        assert_eq!(Key::Step(AttemptId { run, step, attempt: 2 }).to_string(), "step.r-1.s.2");
    }
}
