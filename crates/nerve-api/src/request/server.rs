//! Parameters of the commands for server and connection.

use serde::{Deserialize, Serialize};

/// AUTHENTICATE: presents the token. It must be the first message over TCP; all others are rejected until it succeeds.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Authenticate {
    /// The token that `nerve token show` prints.
    #[serde(default)]
    pub token: Option<String>,
}

impl std::fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authenticate { token: … }")
    }
}

/// SHUTDOWN: stops the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shutdown {
    /// Leaves hosted nodes running.
    #[serde(default)]
    pub keep_nodes: bool,
}

/// SUBSCRIBE: sends the events that match all filters; all events without filters. A connection that never subscribes receives only
/// [`EventType::ORIGINAL`](crate::EventType::ORIGINAL).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscribe {
    /// Sends only events of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Sends only events of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Sends only events of this run of a graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Sends only events of these types. Default: all; an empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Sends earlier events too, with a greater `seq`, as far as the server still has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Sends each event under its older name too.
    #[serde(default)]
    pub aliases: bool,
}

/// PING: checks that the server is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ping {}
