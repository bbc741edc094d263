//! JetStream's API: JSON over requests.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::BrokerError;

/// Errors of JetStream for a sequence that is not the last: with its number, and without.
const WRONG_SEQUENCE: [u32; 2] = [10071, 10164];
/// Errors of JetStream for a lack of space: resources of the server, of the account, of the stream; and a failed write.
const FULL: [u32; 5] = [10023, 10028, 10047, 10077, 10112];
/// Error of JetStream: no message has the subject.
const NO_MESSAGE: u32 = 10037;
/// Error of JetStream: no such stream.
const NO_STREAM: u32 = 10059;

/// A message of a stream.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) sequence: u64,
    /// Empty in a marker.
    pub(crate) payload: Vec<u8>,
}

#[derive(Deserialize)]
struct EncodedMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

/// Headers of a write.
#[derive(Debug, Default)]
pub(crate) struct Write {
    /// Sequence of the subject's last message. `None`: any.
    pub(crate) expected: Option<u64>,
    /// Time to live, in seconds, from 1. `None`: unlimited.
    pub(crate) ttl: Option<u64>,
}

impl Connection {
    /// Writes a message to the stream of its subject, and returns its sequence.
    pub(crate) async fn write(
        &self,
        subject: &str,
        write: &Write,
        payload: Vec<u8>,
    ) -> Result<u64, BrokerError> {
        let mut headers = HeaderMap::new();
        if let Some(expected) = write.expected {
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        }
        if let Some(ttl) = write.ttl {
            headers.insert("Nats-TTL", format!("{ttl}s"));
        }
        let response = self.request(subject.to_string(), headers, payload).await?;
        let ack = decode(&response.payload)?;
        ack["seq"]
            .as_u64()
            .ok_or_else(|| BrokerError::Invalid("an acknowledgement lacks its sequence".into()))
    }

    /// Reads the last message of a subject from the stream's leader.
    pub(crate) async fn last_message(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, BrokerError> {
        self.message(stream, &json!({ "last_by_subj": subject })).await
    }

    /// Reads the first message of a subject from a sequence on, from the stream's leader.
    pub(crate) async fn next_message(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StoredMessage>, BrokerError> {
        self.message(stream, &json!({ "seq": from, "next_by_subj": subject })).await
    }

    async fn message(&self, stream: &str, query: &Value) -> Result<Option<StoredMessage>, BrokerError> {
        #[derive(Deserialize)]
        struct Reply {
            message: EncodedMessage,
        }
        let reply: Reply = match self.api(&format!("STREAM.MSG.GET.{stream}"), query).await {
            Err(BrokerError::Refused { code: NO_MESSAGE, .. }) => return Ok(None),
            reply => reply?,
        };
        let EncodedMessage { seq: sequence, data } = reply.message;
        let payload = STANDARD.decode(data).map_err(|error| BrokerError::Invalid(error.to_string()))?;
        Ok(Some(StoredMessage { sequence, payload }))
    }

    /// Calls a function of the API.
    pub(crate) async fn api<T: DeserializeOwned>(
        &self,
        function: &str,
        arguments: &impl Serialize,
    ) -> Result<T, BrokerError> {
        let invalid = |error: serde_json::Error| BrokerError::Invalid(error.to_string());
        let payload = serde_json::to_vec(arguments).map_err(invalid)?;
        let response = self.request(format!("$JS.API.{function}"), HeaderMap::new(), payload).await?;
        serde_json::from_value(decode(&response.payload)?).map_err(invalid)
    }
}

/// Decodes a response of JetStream.
fn decode(payload: &[u8]) -> Result<Value, BrokerError> {
    let mut response: Value =
        serde_json::from_slice(payload).map_err(|error| BrokerError::Invalid(error.to_string()))?;
    match response.get_mut("error").map(Value::take) {
        None => Ok(response),
        Some(error) => Err(match serde_json::from_value::<ApiError>(error) {
            Ok(error) => refusal(error),
            Err(error) => BrokerError::Invalid(error.to_string()),
        }),
    }
}

fn refusal(ApiError { err_code, description }: ApiError) -> BrokerError {
    match err_code {
        code if WRONG_SEQUENCE.contains(&code) => BrokerError::WrongSequence,
        code if FULL.contains(&code) => BrokerError::Full(description),
        NO_STREAM => BrokerError::NoStream(description),
        code => BrokerError::Refused { code, description },
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerError, decode};

    #[test]
    fn refusals_have_kinds() {
        let kind = |code: u32| {
            let text = format!(r#"{{"error":{{"code":400,"err_code":{code},"description":"x"}},"seq":0}}"#);
            decode(text.as_bytes()).unwrap_err()
        };
        assert_eq!(kind(10071), BrokerError::WrongSequence);
        assert_eq!(kind(10164), BrokerError::WrongSequence);
        assert_eq!(kind(10077), BrokerError::Full("x".into()));
        assert_eq!(kind(10059), BrokerError::NoStream("x".into()));
        assert_eq!(kind(10003), BrokerError::Refused { code: 10003, description: "x".into() });
        assert!(matches!(decode(b"no"), Err(BrokerError::Invalid(_))));
    }
}
