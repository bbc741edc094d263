//! Parameters of the commands that concern sessions.

use serde::{Deserialize, Serialize};

/// CREATE_SESSION.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateSession {
    /// Its name, unique on the server: 1–32 of `a-z 0-9 -`.
    pub name: String,
    /// In words.
    #[serde(default)]
    pub description: String,
    /// Labels.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Declares requests that have a session as their only parameter.
macro_rules! session_requests {
    ($($(#[$doc:meta])* $request:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Without `name` and `session_id` it concerns the default session.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $request {
            /// Name of the session.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub name: Option<String>,
            /// Name of the session, as other requests call it. `name` takes precedence.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
        }

        impl $request {
            /// Names the session, `None` for the default session.
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
    /// GET_SESSION.
    GetSession;
    /// DELETE_SESSION.
    DeleteSession;
    /// START_SESSION.
    StartSession;
    /// STOP_SESSION.
    StopSession;
}

/// LIST_SESSIONS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListSessions {}
