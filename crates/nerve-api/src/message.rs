//! The objects on the wire.

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

/// What a client calls its request: text, or a number where a client counts. Comes back as it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// Any text.
    Text(String),
    /// A whole number.
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

/// A command from a client. [`crate::decode_request`] reads one.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestMessage {
    /// What is asked for.
    pub command: RequestName,
    /// What goes with it, under today's names; [`RequestMessage::read`] makes a typed value of it.
    pub params: Map<String, Value>,
    /// What the answer is to carry. Without one a client cannot tell answers apart, but gets them.
    pub request_id: Option<RequestId>,
    /// Older names that were used: the answer's `warnings`.
    pub warnings: Vec<String>,
}

impl RequestMessage {
    /// Creates a message for a request.
    ///
    /// # Errors
    /// The request is no JSON object: its numbers or keys cannot be encoded.
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

    /// Makes a typed value of the parameters: one of [`crate::request`].
    ///
    /// # Errors
    /// [`DecodeError`] names the field that is missing or of the wrong type, and what was expected.
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

/// Anything a server sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Message {
    /// The answer to a request.
    Result(ResultMessage),
    /// The answer to something that could not be read as a request.
    Error(ErrorMessage),
    /// Something happened.
    Event(EventMessage),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// Was it done?
    pub success: bool,
    /// What was asked for, one of [`crate::reply`]; of a failure an [`ErrorDetails`].
    #[serde(default)]
    pub data: Value,
    /// What went wrong, in words.
    #[serde(default)]
    pub error: Option<String>,
    /// The request's.
    #[serde(default)]
    pub request_id: Option<RequestId>,
    /// What the client should know though it worked: older names it used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A [`ResultMessage`] whose data is not a JSON value yet: it is encoded once.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename = "result")]
pub struct ResultLine<'a, T> {
    /// Whether the request succeeded.
    pub success: bool,
    /// The reply, or [`ErrorDetails`].
    pub data: &'a T,
    /// Error message.
    pub error: Option<&'a str>,
    /// Id of the request.
    pub request_id: Option<&'a RequestId>,
    /// Warnings, as for older names.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub warnings: &'a [String],
}

impl ResultMessage {
    /// It was done.
    pub fn ok(request_id: Option<RequestId>, data: Value) -> ResultMessage {
        ResultMessage { success: true, data, error: None, request_id, warnings: Vec::new() }
    }

    /// It was not.
    pub fn failed(
        request_id: Option<RequestId>,
        error: impl Into<String>,
        data: &ErrorDetails,
    ) -> ResultMessage {
        // An ErrorDetails is texts, numbers, lists and maps with text keys: it has no way to fail.
        let data = serde_json::to_value(data).unwrap_or(Value::Null);
        ResultMessage { success: false, data, error: Some(error.into()), request_id, warnings: Vec::new() }
    }

    /// Returns the message as it is encoded.
    pub fn as_line(&self) -> ResultLine<'_, Value> {
        ResultLine {
            success: self.success,
            data: &self.data,
            error: self.error.as_deref(),
            request_id: self.request_id.as_ref(),
            warnings: &self.warnings,
        }
    }

    /// Adds what the client should know.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> ResultMessage {
        self.warnings = warnings;
        self
    }
}

/// The answer to something that could not be read as a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorMessage {
    /// What is wrong with it, and where.
    pub error: String,
    /// The request's, if that much could be read.
    #[serde(default)]
    pub request_id: Option<RequestId>,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventMessage {
    /// What: the name of an [`EventType`], or one of a newer server.
    pub event_type: String,
    /// The node it is about.
    #[serde(default)]
    pub node_id: Option<String>,
    /// The same under its older name; only in events under an older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    /// The node's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// More about it; `{}` if there is no more.
    #[serde(default)]
    pub data: Value,
    /// Seconds since the Unix epoch.
    #[serde(default)]
    pub timestamp: f64,
    /// Counts the events of this server from 1; 0 where a server does not count.
    #[serde(default)]
    pub seq: u64,
}

impl EventMessage {
    /// What it tells of; `None` for an event this version does not know.
    pub fn kind(&self) -> Option<EventType> {
        EventType::parse(&self.event_type)
    }

    /// The same event under its older name, its fields under theirs too, for subscribers that ask for those; `None` if it has none.
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
