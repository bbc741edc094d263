//! Requests, replies and events of a nerve server, and how they travel: one JSON object per line. The names and shapes are those of the
//! first nerve, so that its clients can talk to this server.
//!
//! ```text
//! → {"type":"command","command_type":"CREATE_NODE","params":{…},"request_id":"…"}
//! ← {"type":"result","success":true,"data":{…},"error":null,"request_id":"…"}
//! ← {"type":"error","error":"…","error_type":"invalid_request_error","request_id":null}
//! ← {"type":"event","event_type":"NODE_READY","node_id":"…","data":{…},"emitted_at":"2025-11-30T10:53:20.123Z","seq":7}
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`request`] | a struct per request, and the list of all requests |
//! | [`reply`] | a struct per reply; errors |
//! | [`message`] | the objects on the wire: request, result, error, event |
//! | [`value`] | closed sets of values: states, kinds, sources |
//! | [`event`] | an enum of all events with their details |
//! | [`name`] | names of requests: parsing and suggestions |
//! | [`legacy_names`] | names that the first nerve used |
//! | [`params`] | parameters of a request, before they are read |
//! | [`decode`] | bytes to a request, or an error with its cause and place |
//! | [`framing`] | lines of at most [`framing::MAX_LINE_BYTES`] |
//!
//! The crate has no behaviour: the engine handles requests, the server and the clients transport them.
#![warn(missing_docs)]

mod any_reply;
pub mod decode;
pub mod event;
pub mod framing;
pub mod legacy_names;
pub mod message;
pub mod name;
pub mod params;
pub mod reply;
pub mod request;
pub mod value;

pub use any_reply::{AnyReply, Envelope};
pub use decode::{RawRequest, decode_request};
pub use event::{Event, EventKind, EventType, RunIds};
pub use message::{
    DecodeError, ErrorMessage, EventMessage, Message, RequestId, RequestLine, ResultLine, ResultMessage,
};
pub use nerve_types::ErrorKind;
pub use nerve_types::name::{DEFAULT_SESSION, session_option};
pub use params::{Param, Params};
pub use reply::Reply;
pub use request::{Request, RequestName};

/// A type that has a JSON Schema if the feature `schema` is enabled.
#[cfg(feature = "schema")]
pub trait Schema: schemars::JsonSchema {}
#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> Schema for T {}

/// A type that has a JSON Schema if the feature `schema` is enabled.
#[cfg(not(feature = "schema"))]
pub trait Schema {}
#[cfg(not(feature = "schema"))]
impl<T> Schema for T {}
