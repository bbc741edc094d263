//! The wire between clients and server: one JSON object a line. The shapes are those of the first nerve, so that its clients can
//! talk to this one.
//!
//! ```text
//! → {"type":"command","command_type":"CREATE_NODE","params":{…},"request_id":"…"}
//! ← {"type":"result","success":true,"data":{…},"error":null,"request_id":"…"}
//! ← {"type":"error","error":"…","request_id":null}
//! ← {"type":"event","event_type":"NODE_READY","node_id":"…","data":{…},"timestamp":1764500000.123,"seq":7}
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`command`] | the names of commands, old ones too |
//! | [`params`] | what goes with each command |
//! | [`message`] | the objects themselves: request, result, error, event |
//! | [`event`] | the names of events, old ones too |
//! | [`data`] | what results carry |
//! | [`decode`] | bytes to a request, or an error that says what and where |
//! | [`framing`] | lines of at most [`framing::MAX_LINE_BYTES`] |
//!
//! Nothing here does anything: mapping to and from the engine is the server's.
#![warn(missing_docs)]

pub mod command;
pub mod data;
pub mod decode;
pub mod event;
pub mod framing;
pub mod message;
pub mod params;

pub use command::CommandType;
pub use decode::{DecodeError, decode_request};
pub use event::EventType;
pub use message::{ErrorMessage, EventMessage, Message, Request, RequestId, ResultMessage};
