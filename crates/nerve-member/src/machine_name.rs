//! The name of a machine at the broker, and whether that machine is drained.

use nerve_cluster::MachineId;
use nerve_nats::{BrokerError, NameHolder, NatsStore};

use crate::error::MemberError;

/// Attempts to write the name while others write it too.
const WRITE_ATTEMPTS: usize = 10;

/// A name at the broker. Every write is a compare-and-set, so that two machines never have the same name.
pub(crate) struct MachineName<'a> {
    store: &'a NatsStore,
    name: &'a str,
}

impl MachineName<'_> {
    pub(crate) fn new<'a>(store: &'a NatsStore, name: &'a str) -> MachineName<'a> {
        MachineName { store, name }
    }

    /// Takes the name for a machine, which may have it already.
    ///
    /// # Errors
    /// [`MemberError::NameTaken`], or see [`BrokerError`].
    pub(crate) async fn claim(&self, id: MachineId) -> Result<(), MemberError> {
        self.update(|holder| match holder {
            Some(holder) if holder.machine_id != id => Err(self.taken(holder)),
            Some(holder) => Ok(Some(holder)),
            None => Ok(Some(NameHolder { machine_id: id, is_drained: false })),
        })
        .await
    }

    /// Makes the name free if the machine has it.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub(crate) async fn release(&self, id: MachineId) -> Result<(), MemberError> {
        self.update(|holder| Ok(holder.filter(|holder| holder.machine_id != id))).await
    }

    /// Sets whether the machine is drained. Takes the name for it, if the name is free.
    ///
    /// # Errors
    /// [`MemberError::NameTaken`], or see [`BrokerError`].
    pub(crate) async fn set_drained(&self, id: MachineId, is_drained: bool) -> Result<(), MemberError> {
        self.update(|holder| match holder {
            Some(holder) if holder.machine_id != id => Err(self.taken(holder)),
            _ => Ok(Some(NameHolder { machine_id: id, is_drained })),
        })
        .await
    }

    /// Replaces the holder by what `change` returns for it.
    async fn update(
        &self,
        change: impl Fn(Option<NameHolder>) -> Result<Option<NameHolder>, MemberError>,
    ) -> Result<(), MemberError> {
        for _ in 0..WRITE_ATTEMPTS {
            let (sequence, holder) = self.store.name_holder(self.name).await?;
            let changed = change(holder)?;
            if changed == holder {
                return Ok(());
            }
            match self.store.set_name_holder(self.name, changed.as_ref(), sequence).await {
                Err(BrokerError::WrongSequence) => {}
                written => return Ok(written?),
            }
        }
        Err(BrokerError::WrongSequence.into())
    }

    fn taken(&self, holder: NameHolder) -> MemberError {
        MemberError::NameTaken { name: self.name.to_string(), holder: holder.machine_id }
    }
}
