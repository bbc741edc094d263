//! Performs the core's requests.

use std::sync::Arc;
use std::time::Duration;

use nerve_cluster::{Instance, Key, Record, Request, Response, RunId, Sequence};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use crate::connection::{Connection, no_response};
use crate::error::BrokerError;
use crate::jetstream::Write;
use crate::streams::{MARKER_TTL, Streams};

/// The store of one process. Clones share its connection.
#[derive(Debug, Clone)]
pub struct NatsStore {
    connection: Connection,
    streams: Streams,
    presence: Arc<Mutex<Value>>,
}

/// The message of a held lease.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LeaseMessage {
    #[serde(flatten)]
    pub(crate) holder: Instance,
    /// Description of a machine that is present.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) presence: Value,
}

impl NatsStore {
    /// Creates the store of a cluster.
    pub fn new(connection: Connection, streams: Streams) -> NatsStore {
        NatsStore { connection, streams, presence: Arc::default() }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Sets the description of this machine, which each renewal of its identity carries.
    pub fn set_presence(&self, presence: Value) {
        *self.presence.lock() = presence;
    }

    /// Performs a request within the deadline of the connection. The deadline of a read holds for each of its parts, because a journal has
    /// any length.
    ///
    /// # Errors
    /// [`BrokerError`] unless the response is one of the store's. The core must read then: a write may have taken effect.
    pub async fn try_perform(&self, request: &Request) -> Result<Response, BrokerError> {
        let deadline = self.connection.deadline();
        let performed = self.perform_now(request);
        match request {
            Request::Read { .. } => performed.await,
            _ => timeout(deadline, performed).await.unwrap_or_else(|_| Err(no_response(deadline))),
        }
    }

    /// Performs a request as the core expects it: every error is [`Response::Unavailable`].
    pub async fn perform(&self, request: &Request) -> Response {
        self.try_perform(request).await.unwrap_or(Response::Unavailable)
    }

    async fn perform_now(&self, request: &Request) -> Result<Response, BrokerError> {
        match request {
            Request::Get { key } => self.get(key).await,
            Request::Put { key, holder, expected, ttl } => self.put(key, *holder, *expected, *ttl).await,
            Request::Delete { key, expected } => {
                // A message without a holder. It is removed after a while, as the marker of an expired lease is.
                let write = Write { expected: Some(expected.0), ttl: Some(MARKER_TTL) };
                self.write_lease(key, &write, Vec::new()).await
            }
            Request::Read { run, after } => self.read(run, *after).await,
            Request::Append { run, record, expected } => self.append(run, record, *expected).await,
        }
    }

    async fn get(&self, key: &Key) -> Result<Response, BrokerError> {
        let (stream, subject) = (self.streams.stream("leases"), self.streams.subject("lease", key));
        let Some(message) = self.connection.last_message(&stream, &subject).await? else {
            return Ok(Response::Entry { sequence: Sequence(0), holder: None });
        };
        let holder = match message.payload.as_slice() {
            [] => None,
            payload => Some(decode::<LeaseMessage>(payload)?.holder),
        };
        Ok(Response::Entry { sequence: Sequence(message.sequence), holder })
    }

    async fn put(
        &self,
        key: &Key,
        holder: Instance,
        expected: Sequence,
        ttl: Duration,
    ) -> Result<Response, BrokerError> {
        let presence = match key {
            Key::Machine(_) => self.presence.lock().clone(),
            Key::Owner(_) | Key::Step(_) => Value::Null,
        };
        let payload = encode(&LeaseMessage { holder, presence })?;
        // JetStream counts whole seconds. A lease that lasts longer than its holder believes is safe.
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let write = Write { expected: Some(expected.0), ttl: Some(seconds.max(1)) };
        self.write_lease(key, &write, payload).await
    }

    async fn write_lease(&self, key: &Key, write: &Write, payload: Vec<u8>) -> Result<Response, BrokerError> {
        self.write("leases", &self.streams.subject("lease", key), write, payload).await
    }

    async fn append(
        &self,
        run: &RunId,
        record: &Record,
        expected: Sequence,
    ) -> Result<Response, BrokerError> {
        let write = Write { expected: Some(expected.0), ttl: None };
        self.write("journals", &self.streams.subject("journal", run), &write, encode(record)?).await
    }

    /// Writes by compare-and-set.
    async fn write(
        &self,
        stream: &str,
        subject: &str,
        write: &Write,
        payload: Vec<u8>,
    ) -> Result<Response, BrokerError> {
        match self.connection.write(subject, write, payload).await {
            Ok(sequence) => Ok(Response::Accepted(Sequence(sequence))),
            Err(BrokerError::WrongSequence) => {
                let last = self.connection.last_message(&self.streams.stream(stream), subject).await?;
                let last = Sequence(last.map_or(0, |message| message.sequence));
                Ok(Response::WrongSequence { last })
            }
            Err(error) => Err(error),
        }
    }

    async fn read(&self, run: &RunId, after: Sequence) -> Result<Response, BrokerError> {
        let (stream, subject) = (self.streams.stream("journals"), self.streams.subject("journal", run));
        let messages = self.connection.messages_after(&stream, &subject, after.0).await?;
        let decode = |(sequence, payload): (u64, Vec<u8>)| (Sequence(sequence), Record::decode(&payload));
        Ok(Response::Records(messages.into_iter().map(decode).collect()))
    }
}

pub(crate) fn encode(message: &impl Serialize) -> Result<Vec<u8>, BrokerError> {
    serde_json::to_vec(message).map_err(|error| BrokerError::Invalid(error.to_string()))
}

pub(crate) fn decode<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, BrokerError> {
    serde_json::from_slice(payload).map_err(|error| BrokerError::Invalid(error.to_string()))
}
