//! Reads journals: in batches from any replica, up to the last record that the leader has.

use async_nats::{HeaderMap, Message};
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::timeout;

use crate::connection::{Connection, no_response};
use crate::error::BrokerError;

/// Maximum number of messages in a batch, and of their bytes: other responses wait for the end of a batch.
const BATCH: u32 = 1000;
const BATCH_BYTES: u32 = 256 * 1024;

impl Connection {
    /// Returns the messages of a subject after a sequence, with their sequences, in order. Linearizable: a message that was
    /// acknowledged before the call is in the result.
    pub(crate) async fn messages_after(
        &self,
        stream: &str,
        subject: &str,
        after: u64,
    ) -> Result<Vec<(u64, Vec<u8>)>, BrokerError> {
        let Some(last) = self.last_message(stream, subject).await? else { return Ok(Vec::new()) };
        let mut messages: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut known = after;
        while known < last.sequence {
            let read = messages.len();
            self.append_batch(stream, subject, known + 1, &mut messages).await?;
            if messages.len() == read {
                // The replica lags behind the leader.
                let next = self.next_message(stream, subject, known + 1).await?;
                messages.extend(next.map(|message| (message.sequence, message.payload)));
            }
            match messages.last() {
                Some((sequence, _)) if *sequence > known => known = *sequence,
                // A person has removed the messages.
                _ => break,
            }
        }
        Ok(messages)
    }

    /// Reads the next messages from a replica.
    async fn append_batch(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        messages: &mut Vec<(u64, Vec<u8>)>,
    ) -> Result<(), BrokerError> {
        let query = json!({ "seq": from, "next_by_subj": subject, "batch": BATCH, "max_bytes": BATCH_BYTES });
        let function = format!("$JS.API.DIRECT.GET.{stream}");
        let requested = timeout(self.deadline(), self.request_many(function, query.to_string().into_bytes()));
        let mut responses = requested.await.unwrap_or_else(|_| Err(no_response(self.deadline())))?;
        // The first message of a batch has no predecessor.
        let mut previous = 0;
        loop {
            let response = timeout(self.deadline(), responses.next()).await;
            let response = response.map_err(|_| no_response(self.deadline()))?;
            // A status ends the batch: end of batch, or no message.
            let Some(message) = response.filter(|message| message.status.is_none()) else { return Ok(()) };
            let (sequence, predecessor) = positions(&message)?;
            if predecessor != Some(previous) {
                // A message of the batch was lost. The rest is read again.
                return Ok(());
            }
            previous = sequence;
            messages.push((sequence, message.payload.to_vec()));
        }
    }
}

/// Returns the sequence of a message, and that of the one before it in the batch.
fn positions(message: &Message) -> Result<(u64, Option<u64>), BrokerError> {
    let number = |headers: &HeaderMap, name: &str| headers.get(name)?.as_str().parse().ok();
    let headers = message.headers.as_ref();
    let sequence = headers.and_then(|headers| number(headers, "Nats-Sequence"));
    let predecessor = headers.and_then(|headers| number(headers, "Nats-Last-Sequence"));
    let sequence = sequence.ok_or_else(|| BrokerError::Invalid("a message lacks its sequence".into()))?;
    Ok((sequence, predecessor))
}
