//! Parameters of the commands for sessions.

use serde::{Deserialize, Serialize};

use super::{PageRequest, UsageLimits};

/// CREATE_SESSION: creates a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateSession {
    /// Name of the session, unique on the server: 1–32 of `a-z 0-9 -`.
    pub name: String,
    /// Description for users.
    #[serde(default)]
    pub description: String,
    /// Labels of the session.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Limits of the usage of all its nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<UsageLimits>,
}

/// Declares requests whose only parameter is a session.
macro_rules! session_requests {
    ($($(#[$doc:meta])* $request:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Without `name` and `session_id`, it applies to the default session.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $request {
            /// Name of the session.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub name: Option<String>,
            /// Name of the session, under the key that other requests use. `name` takes precedence.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
        }

        impl $request {
            /// Creates the request. `name`: `None` for the default session.
            pub fn new(name: Option<String>) -> $request {
                $request { name, session_id: None }
            }

            /// Returns the name of the session, `None` for the default session.
            pub fn session(&self) -> Option<&str> {
                self.name.as_deref().or(self.session_id.as_deref())
            }
        }
    )*};
}

session_requests! {
    /// GET_SESSION: returns the description of a session.
    GetSession;
    /// DELETE_SESSION: stops a session's nodes and deletes it.
    DeleteSession;
    /// STOP_SESSION: stops the nodes of a session and keeps their definitions.
    StopSession;
}

/// START_SESSION: starts the nodes of a session that were stopped by a request or lost. Agents resume their conversations.
///
/// Without `name` and `session_id`, it applies to the default session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartSession {
    /// Name of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the session, under the key that other requests use. `name` takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Also start those whose programs exited by themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

impl StartSession {
    /// Creates the request. `name`: `None` for the default session.
    pub fn new(name: Option<String>) -> StartSession {
        StartSession { name, session_id: None, all: false }
    }

    /// Returns the name of the session, `None` for the default session.
    pub fn session(&self) -> Option<&str> {
        self.name.as_deref().or(self.session_id.as_deref())
    }
}

/// RESTORE_NODES: starts the nodes of all sessions that ran when the server or the machine went down.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoreNodes {}

/// LIST_SESSIONS: lists all sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListSessions {
    /// Part of the list.
    #[serde(flatten)]
    pub page: PageRequest,
}
