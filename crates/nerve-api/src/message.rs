//! Messages on the wire.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::decode::DecodeError;
use crate::event::EventType;
use crate::legacy;
use crate::name::RequestName;
use crate::reply::ErrorDetails;
use crate::request::{self, Request};

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

/// A command from a client, decoded by [`crate::decode_request`].
#[derive(Debug, Clone, PartialEq)]
pub struct RequestMessage {
    /// The requested command.
    pub command: RequestName,
    /// Parameters under their current names. [`RequestMessage::read`] converts them to a typed value.
    pub params: Map<String, Value>,
    /// Id that the reply repeats. Without one, the client cannot match the reply to its request.
    pub request_id: Option<RequestId>,
    /// Warnings for older names in the request; they become the reply's `warnings`.
    pub warnings: Vec<String>,
}

impl RequestMessage {
    /// Creates a message for a request.
    ///
    /// # Errors
    /// Fails if the request cannot be encoded as a JSON object.
    pub fn of<R: Request>(request: &R, request_id: RequestId) -> Result<RequestMessage, serde_json::Error> {
        match serde_json::to_value(request)? {
            Value::Object(params) => Ok(RequestMessage::new(R::NAME, params, request_id)),
            other => Err(serde::ser::Error::custom(format!("not an object: {other}"))),
        }
    }

    /// Creates a message from parameters.
    pub fn new(command: RequestName, params: Map<String, Value>, request_id: RequestId) -> RequestMessage {
        RequestMessage { command, params, request_id: Some(request_id), warnings: Vec::new() }
    }

    /// Converts the parameters to a typed value: one of [`crate::request`].
    ///
    /// # Errors
    /// [`DecodeError`] names the field that is missing or of the wrong type, and the expected type.
    pub fn read<P: DeserializeOwned>(&self) -> Result<P, DecodeError> {
        request::read(self.command, &self.params)
            .map_err(|message| DecodeError { message, request_id: self.request_id.clone() })
    }
}

impl Serialize for RequestMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("type", "command")?;
        map.serialize_entry("command_type", self.command.as_str())?;
        map.serialize_entry("params", &self.params)?;
        map.serialize_entry("request_id", &self.request_id)?;
        map.end()
    }
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

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// True if the request succeeded.
    pub success: bool,
    /// The reply's data, one of [`crate::reply`]; [`ErrorDetails`] if the request failed.
    #[serde(default)]
    pub data: Value,
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
    /// Id of the request, if it could be read.
    #[serde(default)]
    pub request_id: Option<RequestId>,
}

/// An event.
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
    /// Time of the event in seconds since the Unix epoch.
    #[serde(default)]
    pub timestamp: f64,
    /// Sequence number of the event on this server, from 1; 0 if the server does not count events.
    #[serde(default)]
    pub seq: u64,
}

impl EventMessage {
    /// Returns the type; `None` if this version does not know the event.
    pub fn kind(&self) -> Option<EventType> {
        EventType::parse(&self.event_type)
    }

    /// Returns the event and its fields under their older names; `None` if the event has no older name.
    pub fn under_old_name(&self) -> Option<EventMessage> {
        let old = self.kind()?.old_name()?;
        let mut event =
            EventMessage { event_type: old.to_string(), channel_id: self.node_id.clone(), ..self.clone() };
        if let Value::Object(data) = &mut event.data {
            for (new, old) in legacy::EVENT_FIELDS {
                if let Some(value) = data.get(new).cloned() {
                    data.insert(old.to_string(), value);
                }
            }
        }
        Some(event)
    }
}
