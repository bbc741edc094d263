//! Messages on the wire.

use nerve_types::activity::TsMs;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ErrorKind;
use crate::event::{Event, EventKind, EventType};
use crate::framing::MAX_LINE_BYTES;
use crate::legacy_names;
use crate::reply::ErrorDetails;

/// A client's id for its request: a string or an integer. The reply repeats it unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A string.
    Text(String),
    /// An integer.
    Number(i64),
}

impl From<&str> for RequestId {
    fn from(text: &str) -> RequestId {
        RequestId::Text(text.to_string())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Text(text) => f.write_str(text),
            RequestId::Number(number) => write!(f, "{number}"),
        }
    }
}

/// An input that is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// Description of the error and its place.
    pub message: String,
    /// Id of the request, if it could be read.
    pub request_id: Option<RequestId>,
}

impl DecodeError {
    /// Creates the error for a line that was skipped because it is too long.
    pub fn too_long(bytes: u64) -> DecodeError {
        DecodeError::new(format!("line of {bytes} bytes refused: at most {MAX_LINE_BYTES} are read"))
    }

    pub(crate) fn new(message: impl Into<String>) -> DecodeError {
        DecodeError { message: message.into(), request_id: None }
    }

    /// Returns the reply: a failed result if the request id is known, otherwise an error message.
    pub fn reply(&self) -> Message {
        match &self.request_id {
            Some(_) => {
                let data = ErrorDetails::of(ErrorKind::InvalidRequest);
                Message::Result(ResultMessage::failed(self.request_id.clone(), self.message.clone(), &data))
            }
            None => Message::Error(ErrorMessage {
                error: self.message.clone(),
                error_type: ErrorKind::InvalidRequest,
                request_id: None,
            }),
        }
    }
}

/// A command as a client encodes it, with typed parameters.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename = "command")]
pub struct RequestLine<'a, P> {
    /// Name of the command.
    pub command_type: &'a str,
    /// Parameters: an object.
    pub params: &'a P,
    /// Id that the reply repeats.
    pub request_id: &'a RequestId,
}

/// A message from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Message {
    /// The reply to a request.
    Result(ResultMessage),
    /// The reply to input that is not a valid request.
    Error(ErrorMessage),
    /// An event.
    Event(EventMessage),
}

/// The reply to a request, as it is decoded. A client decodes the data later: it keeps their text as `D`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage<D = Value> {
    /// True if the request succeeded.
    pub success: bool,
    /// The reply's data, one of [`crate::reply`]; [`ErrorDetails`] if the request failed.
    #[serde(default)]
    pub data: D,
    /// Error message.
    #[serde(default)]
    pub error: Option<String>,
    /// Id of the request.
    #[serde(default)]
    pub request_id: Option<RequestId>,
    /// Warnings, for example about older names in the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A [`ResultMessage`] with typed data, which is encoded directly.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename = "result")]
pub struct ResultLine<'a, T> {
    /// True if the request succeeded.
    pub success: bool,
    /// The reply, or [`ErrorDetails`].
    pub data: &'a T,
    /// Error message.
    pub error: Option<&'a str>,
    /// Id of the request.
    pub request_id: Option<&'a RequestId>,
    /// Warnings, for example about older names.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub warnings: &'a [String],
}

impl ResultMessage {
    /// Creates the reply to a request that succeeded.
    pub fn ok(request_id: Option<RequestId>, data: Value) -> ResultMessage {
        ResultMessage { success: true, data, error: None, request_id, warnings: Vec::new() }
    }

    /// Creates the reply to a request that failed.
    pub fn failed(
        request_id: Option<RequestId>,
        error: impl Into<String>,
        data: &ErrorDetails,
    ) -> ResultMessage {
        // ErrorDetails contains only strings, numbers, lists and maps with string keys: encoding cannot fail.
        let data = serde_json::to_value(data).unwrap_or(Value::Null);
        ResultMessage { success: false, data, error: Some(error.into()), request_id, warnings: Vec::new() }
    }

    /// Returns the message in the form in which it is encoded.
    pub fn as_line(&self) -> ResultLine<'_, Value> {
        ResultLine {
            success: self.success,
            data: &self.data,
            error: self.error.as_deref(),
            request_id: self.request_id.as_ref(),
            warnings: &self.warnings,
        }
    }

    /// Adds warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> ResultMessage {
        self.warnings = warnings;
        self
    }
}

/// The reply to input that is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorMessage {
    /// Description of the error and its place.
    pub error: String,
    /// Kind of error.
    #[serde(default)]
    pub error_type: ErrorKind,
    /// Id of the request, if it could be read.
    #[serde(default)]
    pub request_id: Option<RequestId>,
}

/// An event as a client reads it, also of a type that this version does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventMessage {
    /// Type of the event: the name of an [`EventType`], or an unknown name from a newer server.
    pub event_type: String,
    /// Id of the node, if the event concerns one.
    #[serde(default)]
    pub node_id: Option<String>,
    /// Older name of `node_id`; only in events under an older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    /// Session of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Details of the event; `{}` if there are none.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, Value>"))]
    pub data: Value,
    /// Time of the event.
    #[serde(default)]
    pub emitted_at: TsMs,
    /// The time in seconds since the Unix epoch; only in events under an older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<f64>,
    /// Sequence number of the event on this server, from 1; 0 if the server does not count events.
    #[serde(default)]
    pub seq: u64,
}

impl EventMessage {
    /// Creates the message of an event.
    ///
    /// # Errors
    /// None in practice: an event contains only strings, numbers, lists and maps with string keys.
    pub fn of(event: &Event) -> Result<EventMessage, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(event)?)
    }

    /// Creates an EVENTS_DROPPED of the time `at`. `dropped`: the number of lost events, if known.
    pub fn events_dropped(dropped: Option<u64>, at: TsMs) -> EventMessage {
        EventMessage {
            event_type: EventType::EventsDropped.to_string(),
            node_id: None,
            channel_id: None,
            session_id: None,
            data: json!({ "dropped": dropped }),
            emitted_at: at,
            timestamp: None,
            seq: 0,
        }
    }

    /// Returns type and details; `None` if this version does not know the event.
    pub fn details(&self) -> Option<EventKind> {
        let event_type = self.kind()?.as_str();
        serde_json::from_value(json!({ "event_type": event_type, "data": self.data })).ok()
    }

    /// Returns the type; `None` if this version does not know the event.
    pub fn kind(&self) -> Option<EventType> {
        EventType::parse(&self.event_type)
    }

    /// Returns the event and its fields under their older names; `None` if the event has no older name.
    pub fn under_old_name(&self) -> Option<EventMessage> {
        let old = self.kind()?.old_name()?;
        let mut event = EventMessage {
            event_type: old.to_string(),
            channel_id: self.node_id.clone(),
            timestamp: Some(self.emitted_at.seconds()),
            ..self.clone()
        };
        if let Value::Object(data) = &mut event.data {
            for (new, old) in legacy_names::EVENT_FIELDS {
                if let Some(value) = data.get(new).cloned() {
                    data.insert(old.to_string(), value);
                }
            }
        }
        Some(event)
    }
}
