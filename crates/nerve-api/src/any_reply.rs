//! Encodes replies whose type only the handler of the request knows.

use std::any::Any;

use serde::Serialize;
use serde::ser::{Error, Serializer};

use crate::framing::{self, MAX_LINE_BYTES, TooLarge};
use crate::legacy_names;
use crate::message::{RequestId, ResultLine};
use crate::params::Params;
use crate::reply::{ErrorDetails, Reply, RunEnded};
use crate::request::RequestName;

/// A reply of any type.
pub trait AnyReply: Any + Send {
    /// Encodes the reply as the line of a result message.
    ///
    /// # Errors
    /// The line exceeds the limit of the protocol.
    fn line(&self, envelope: &Envelope<'_>) -> Result<Vec<u8>, TooLarge>;

    /// Encodes the reply and the warnings as the body of an HTTP response.
    ///
    /// # Errors
    /// The body is longer than a line may be.
    fn body(&self, envelope: &Envelope<'_>) -> Result<Vec<u8>, TooLarge>;

    /// Returns the id of the item that the reply describes, if a request can have created it.
    fn created_id(&self) -> Option<&str>;

    /// Returns the run that has ended, if the reply is one.
    fn run_mut(&mut self) -> Option<&mut RunEnded>;
}

impl<T: Reply> AnyReply for T {
    fn line(&self, envelope: &Envelope<'_>) -> Result<Vec<u8>, TooLarge> {
        envelope.line(self, None)
    }

    fn body(&self, envelope: &Envelope<'_>) -> Result<Vec<u8>, TooLarge> {
        let body = Body { reply: &envelope.data(self), warnings: envelope.warnings };
        // Replies are maps with text keys, lists and plain values, so this cannot fail.
        let bytes = serde_json::to_vec(&body).unwrap_or_default();
        if bytes.len() > MAX_LINE_BYTES { Err(TooLarge { bytes: bytes.len() as u64 }) } else { Ok(bytes) }
    }

    fn created_id(&self) -> Option<&str> {
        Reply::created_id(self)
    }

    fn run_mut(&mut self) -> Option<&mut RunEnded> {
        Reply::run_mut(self)
    }
}

/// The body of an HTTP response: one JSON object.
#[derive(Serialize)]
struct Body<'a, T> {
    #[serde(flatten)]
    reply: &'a T,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// The parts of an encoded reply that depend on its request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Envelope<'a> {
    /// The request, if it used older names: its reply has the older names of fields too.
    pub old_names: Option<RequestName>,
    /// Id of the request.
    pub request_id: Option<&'a RequestId>,
    /// Warnings about the request.
    pub warnings: &'a [String],
}

impl Envelope<'_> {
    /// Encodes the line of a failed request.
    ///
    /// # Errors
    /// The line exceeds the limit of the protocol.
    pub fn error_line(&self, message: &str, details: &ErrorDetails) -> Result<Vec<u8>, TooLarge> {
        self.line(details, Some(message))
    }

    /// Returns the data of a reply in the form in which it is encoded.
    pub fn data<'a, T: Serialize>(&self, data: &'a T) -> impl Serialize + use<'a, T> {
        ReplyData { data, old_names: self.old_names }
    }

    fn line(&self, data: &impl Serialize, error: Option<&str>) -> Result<Vec<u8>, TooLarge> {
        let Envelope { request_id, warnings, .. } = *self;
        let data = &self.data(data);
        framing::encode(&ResultLine { success: error.is_none(), data, error, request_id, warnings })
    }
}

/// The data of a reply, with the older names of its fields if the request used older names.
struct ReplyData<'a, T> {
    data: &'a T,
    old_names: Option<RequestName>,
}

impl<T: Serialize> Serialize for ReplyData<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(request) = self.old_names else { return self.data.serialize(serializer) };
        let json = serde_json::to_string(self.data).map_err(Error::custom)?;
        let mut fields = Params::parse_valid(&json).map_err(Error::custom)?;
        legacy_names::add_old_fields(request, &mut fields);
        fields.serialize(serializer)
    }
}
