//! The messages of the Agent Client Protocol (ACP, version 1), for both sides of a connection.
//!
//! | module | contents |
//! |---|---|
//! | `message` | JSON-RPC messages: decoding of lines |
//! | `peer` | messages to the other side: responses, notifications, requests |
//! | `types` | the types of the protocol |
//! | `rpc_error` | errors with their JSON-RPC codes |
#![warn(missing_docs)]

pub mod message;
pub mod peer;
pub mod rpc_error;
pub mod types;
