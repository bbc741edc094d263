//! Parameters of the commands that concern server and connection.

use serde::{Deserialize, Serialize};

/// AUTHENTICATE: the first message over TCP. Nothing is answered before it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Authenticate {
    /// What `nerve token show` prints.
    #[serde(default)]
    pub token: Option<String>,
}

impl std::fmt::Debug for Authenticate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authenticate { token: … }")
    }
}

/// SHUTDOWN.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shutdown {
    /// Leave hosted nodes running.
    #[serde(default)]
    pub keep_nodes: bool,
}

/// SUBSCRIBE: from now on this connection gets only the events that match. Without it a connection gets all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscribe {
    /// Only of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only of this run of a graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Only of these types; all if absent, none if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Also those after this `seq`, as far as the server still has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Also each event under its older name.
    #[serde(default)]
    pub aliases: bool,
}

/// PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ping {}
