//! Requests, replies and events of a nerve server, and how they travel: one JSON object per line. The names and shapes are those of the
//! first nerve, so that its clients can talk to this server.
//!
//! ```text
//! → {"type":"command","command_type":"CREATE_NODE","params":{…},"request_id":"…"}
//! ← {"type":"result","success":true,"data":{…},"error":null,"request_id":"…"}
//! ← {"type":"error","error":"…","request_id":null}
//! ← {"type":"event","event_type":"NODE_READY","node_id":"…","data":{…},"timestamp":1764500000.123,"seq":7}
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`request`] | a struct per request, and the list of all requests |
//! | [`reply`] | a struct per reply; errors |
//! | [`message`] | the objects on the wire: request, result, error, event |
//! | [`value`] | closed sets of values: states, kinds, sources |
//! | [`event`] | names of events |
//! | [`name`] | names of requests: parsing and suggestions |
//! | [`legacy`] | names that the first nerve used |
//! | [`decode`] | bytes to a request, or an error with its cause and place |
//! | [`framing`] | lines of at most [`framing::MAX_LINE_BYTES`] |
//!
//! The crate has no behaviour: the engine handles requests, the server and the clients transport them.
#![warn(missing_docs)]

pub mod decode;
pub mod event;
pub mod framing;
pub mod legacy;
pub mod message;
pub mod name;
pub mod reply;
pub mod request;
pub mod value;

pub use decode::{DecodeError, decode_request};
pub use event::EventType;
pub use message::{
    ErrorMessage, EventMessage, Message, RequestId, RequestMessage, ResultLine, ResultMessage,
};
pub use nerve_types::ErrorKind;
pub use reply::Reply;
pub use request::{Request, RequestName};

/// Name of the session that every server has.
pub const DEFAULT_SESSION: &str = "default";

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
