//! Encodes replies whose type only the handler of the request knows.

use serde::Serialize;
use serde_json::Value;

use crate::framing::{self, TooLarge};
use crate::message::{RequestId, ResultLine};
use crate::reply::{Reply, RunEnded};

/// A reply of any type.
pub trait AnyReply: Send {
    /// Encodes the reply as the line of a result message.
    ///
    /// # Errors
    /// The line exceeds the limit of the protocol.
    fn line(&self, request_id: Option<&RequestId>, warnings: &[String]) -> Result<Vec<u8>, TooLarge>;

    /// Encodes the reply as the body of an HTTP response.
    fn body(&self, warnings: &[String]) -> Vec<u8>;

    /// Returns the reply as JSON.
    fn value(&self) -> Value;

    /// Returns the id of the item that the reply describes, if a request can have created it.
    fn created_id(&self) -> Option<&str>;

    /// Returns the run that has ended, if the reply is one.
    fn run_mut(&mut self) -> Option<&mut RunEnded>;
}

impl<T: Reply> AnyReply for T {
    fn line(&self, request_id: Option<&RequestId>, warnings: &[String]) -> Result<Vec<u8>, TooLarge> {
        framing::encode(&ResultLine { success: true, data: self, error: None, request_id, warnings })
    }

    fn body(&self, warnings: &[String]) -> Vec<u8> {
        encode_body(self, warnings)
    }

    fn created_id(&self) -> Option<&str> {
        Reply::created_id(self)
    }

    fn value(&self) -> Value {
        // Replies are maps with text keys, lists and plain values, so this cannot fail.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    fn run_mut(&mut self) -> Option<&mut RunEnded> {
        Reply::run_mut(self)
    }
}

/// Encodes a reply and the warnings about its request as one JSON object.
pub fn encode_body(reply: &impl Serialize, warnings: &[String]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a, T> {
        #[serde(flatten)]
        reply: &'a T,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        warnings: &'a [String],
    }
    // Replies are maps with text keys, lists and plain values, so this cannot fail.
    serde_json::to_vec(&Body { reply, warnings }).unwrap_or_default()
}
