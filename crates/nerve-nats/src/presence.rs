//! The machines that are present (the leases on their identities, in one reading), and the names of all machines.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Message;
use futures_util::StreamExt;
use jiff::Timestamp;
use nerve_cluster::Instance;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connection::no_response;
use crate::error::BrokerError;
use crate::names::NameHolder;
use crate::store::{LeaseMessage, NatsStore, decode};

/// Statuses that a broker sends instead of a message: end of the batch, no message, too many subjects, no such stream.
const END_OF_BATCH: u16 = 204;
const NO_MESSAGE: u16 = 404;
const TOO_MANY: u16 = 413;
const NO_RESPONDERS: u16 = 503;

/// A machine that holds its lease.
#[derive(Debug, Clone, PartialEq)]
pub struct PresentMachine {
    /// The process of its server.
    pub holder: Instance,
    /// The description that the process set with [`NatsStore::set_presence`].
    pub presence: Value,
    /// Time since the last renewal, by the brokers' clocks.
    pub lease_age: Duration,
}

/// The machines that are present.
#[derive(Debug, Clone, PartialEq)]
pub struct PresentMachines {
    /// The machines, by id.
    pub machines: Vec<PresentMachine>,
    /// Number of leases that a later version wrote in another form.
    pub unsupported: usize,
    /// The machines that have a name, present or not.
    pub names: BTreeMap<String, NameHolder>,
}

/// A message of the batch.
struct Entry {
    subject: String,
    renewed_at: Timestamp,
    payload: Vec<u8>,
}

impl NatsStore {
    /// Returns the machines that are present, at most 1,024 with those that left within ten minutes. A hint: a replica may lag
    /// behind the leader.
    ///
    /// # Errors
    /// [`BrokerError::NoStream`] if the cluster does not exist, or see [`BrokerError`].
    pub async fn present_machines(&self) -> Result<PresentMachines, BrokerError> {
        let deadline = self.connection().deadline();
        timeout(deadline, self.read_machines()).await.unwrap_or_else(|_| Err(no_response(deadline)))
    }

    async fn read_machines(&self) -> Result<PresentMachines, BrokerError> {
        #[derive(Deserialize)]
        struct Info {
            /// The broker's time.
            ts: String,
        }
        let stream = self.streams().stream("leases");
        let entries = self.last_messages(&self.streams().subject("lease", "machine.*")).await?;
        let names = self.read_names().await?;
        let info: Info = self.connection().api(&format!("STREAM.INFO.{stream}"), &json!({})).await?;
        let now: Timestamp = info.ts.parse().map_err(|_| BrokerError::Invalid(info.ts))?;
        let (mut machines, mut unsupported) = (Vec::new(), 0);
        // The marker of a released or expired lease is empty.
        for entry in entries.into_iter().filter(|entry| !entry.payload.is_empty()) {
            let age = now.duration_since(entry.renewed_at);
            let lease_age = Duration::try_from(age).unwrap_or_default();
            match decode::<LeaseMessage>(&entry.payload) {
                Ok(LeaseMessage { holder, presence }) => {
                    machines.push(PresentMachine { holder, presence, lease_age });
                }
                Err(_) => unsupported += 1,
            }
        }
        machines.sort_by_key(|machine| machine.holder.machine);
        Ok(PresentMachines { machines, unsupported, names })
    }

    /// Returns the names that machines have, at most 1,024 with those that became free within ten minutes. Leaves out those that a later
    /// version wrote in another form.
    async fn read_names(&self) -> Result<BTreeMap<String, NameHolder>, BrokerError> {
        let prefix = self.name_subject("");
        let holder = |entry: Entry| {
            Some((entry.subject.strip_prefix(&prefix)?.to_string(), decode(&entry.payload).ok()?))
        };
        Ok(self.last_messages(&self.name_subject("*")).await?.into_iter().filter_map(holder).collect())
    }

    /// Reads the last message of each subject that matches, from the stream of the leases.
    async fn last_messages(&self, subjects: &str) -> Result<Vec<Entry>, BrokerError> {
        let stream = self.streams().stream("leases");
        let query = json!({ "multi_last": [subjects] });
        let function = format!("$JS.API.DIRECT.GET.{stream}");
        let mut responses = self.connection().request_many(function, query.to_string().into_bytes()).await?;
        let (mut entries, mut last) = (Vec::new(), 0);
        while let Some(message) = responses.next().await {
            match message.status.map(|status| status.as_u16()) {
                None => {
                    check_predecessor(&message, last)?;
                    last = number(&message, "Nats-Sequence")?;
                    let renewed_at = header(&message, "Nats-Time-Stamp")?;
                    let renewed_at = renewed_at.parse().map_err(|_| invalid("Nats-Time-Stamp"))?;
                    let subject = header(&message, "Nats-Subject")?.to_string();
                    entries.push(Entry { subject, renewed_at, payload: message.payload.to_vec() });
                }
                Some(END_OF_BATCH) => return check_predecessor(&message, last).map(|()| entries),
                Some(NO_MESSAGE) => return Ok(Vec::new()),
                Some(NO_RESPONDERS) => return Err(BrokerError::NoStream(stream)),
                Some(status) => {
                    let description = match status {
                        TOO_MANY => "too many machines".to_string(),
                        _ => message.description.unwrap_or_default(),
                    };
                    return Err(BrokerError::Refused { code: status.into(), description });
                }
            }
        }
        Err(BrokerError::Unavailable("the connection was closed".to_string()))
    }
}

/// Fails if a message between the last one and this one was lost.
fn check_predecessor(message: &Message, last: u64) -> Result<(), BrokerError> {
    match number(message, "Nats-Last-Sequence")? == last {
        true => Ok(()),
        false => Err(BrokerError::Unavailable("a part of the response was lost".to_string())),
    }
}

fn number(message: &Message, name: &'static str) -> Result<u64, BrokerError> {
    header(message, name)?.parse().map_err(|_| invalid(name))
}

fn header<'a>(message: &'a Message, name: &'static str) -> Result<&'a str, BrokerError> {
    let value = message.headers.as_ref().and_then(|headers| headers.get(name));
    value.map(|value| value.as_str()).ok_or_else(|| invalid(name))
}

fn invalid(header: &str) -> BrokerError {
    BrokerError::Invalid(format!("no valid header {header}"))
}
