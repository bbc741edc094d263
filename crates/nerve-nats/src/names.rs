//! The names of machines. Each name belongs to one machine, also while that machine is away.

use nerve_cluster::{MachineId, Sequence};
use serde::{Deserialize, Serialize};

use crate::error::BrokerError;
use crate::jetstream::Write;
use crate::store::{NatsStore, decode, encode};
use crate::streams::MARKER_TTL;

/// The machine that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameHolder {
    /// The machine.
    pub machine_id: MachineId,
    /// True if the machine begins no steps, for its maintenance.
    #[serde(rename = "drained", default)]
    pub is_drained: bool,
}

impl NatsStore {
    /// Returns the holder of a name, and the sequence that the next write expects. Linearizable.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn name_holder(&self, name: &str) -> Result<(Sequence, Option<NameHolder>), BrokerError> {
        let (stream, subject) = (self.streams().stream("leases"), self.name_subject(name));
        let Some(message) = self.connection().last_message(&stream, &subject).await? else {
            return Ok((Sequence(0), None));
        };
        let holder = match message.payload.as_slice() {
            [] => None,
            payload => Some(decode(payload)?),
        };
        Ok((Sequence(message.sequence), holder))
    }

    /// Gives a name to a machine, or makes it free.
    ///
    /// # Errors
    /// [`BrokerError::WrongSequence`] if the name was written after `expected`, or see [`BrokerError`].
    pub async fn set_name_holder(
        &self,
        name: &str,
        holder: Option<&NameHolder>,
        expected: Sequence,
    ) -> Result<(), BrokerError> {
        let (ttl, payload) = match holder {
            Some(holder) => (None, encode(holder)?),
            None => (Some(MARKER_TTL), Vec::new()),
        };
        let write = Write { expected: Some(expected.0), ttl };
        self.connection().write(&self.name_subject(name), &write, payload).await?;
        Ok(())
    }

    /// Returns the subject of a name.
    pub(crate) fn name_subject(&self, name: &str) -> String {
        self.streams().subject("lease", format_args!("name.{name}"))
    }
}
