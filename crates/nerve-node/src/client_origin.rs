//! The origin of a request, for audit logs.

use std::sync::Arc;

/// The client that sent a request, as audit logs name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOrigin {
    /// Transport of its connection: `unix`, `tcp`, `http`, `websocket`; `process` for a request of this process.
    pub transport: &'static str,
    /// User and process of a local client, address of another one, with the web session of a browser.
    pub client: Arc<str>,
}

impl ClientOrigin {
    /// Creates the origin of a client.
    pub fn new(transport: &'static str, client: impl Into<Arc<str>>) -> ClientOrigin {
        ClientOrigin { transport, client: client.into() }
    }
}

impl Default for ClientOrigin {
    /// A request of this process.
    fn default() -> ClientOrigin {
        ClientOrigin::new("process", "nerve")
    }
}
