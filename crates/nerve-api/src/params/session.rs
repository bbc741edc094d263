//! Parameters of the commands that concern sessions.

use serde::{Deserialize, Serialize};

/// CREATE_SESSION.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateSessionParams {
    /// Its name, unique on the server: 1–32 of `a-z 0-9 -`.
    pub name: String,
    /// In words.
    #[serde(default)]
    pub description: String,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// GET_SESSION, DELETE_SESSION, START_SESSION, STOP_SESSION. Given by `name` or by `session_id`; neither is the default session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionParams {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The session, as other commands name it; `name` counts if both are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

impl SessionParams {
    /// The session that is meant.
    pub fn session(&self) -> Option<&str> {
        self.name.as_deref().or(self.session_id.as_deref())
    }
}

/// LIST_NODES: all of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListNodesParams {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}
