//! Errors with their JSON-RPC codes.

use nerve_types::ErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The line is not JSON (JSON-RPC 2.0, section 5.1).
pub const PARSE_ERROR: i64 = -32700;
/// The message is not a valid request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid.
pub const INVALID_PARAMS: i64 = -32602;
/// The request failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// The agent requires a login (ACP, version 1).
pub const AUTH_REQUIRED: i64 = -32000;
/// The session does not exist (ACP, version 1).
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// The request was cancelled before it had an effect (ACP, version 2).
pub const REQUEST_CANCELLED: i64 = -32800;

/// The error of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The code of JSON-RPC or ACP.
    pub code: i64,
    /// Message for people.
    #[serde(default)]
    pub message: String,
    /// `error_type`, `hint`, `screen`, `choices` and `text`, as far as they are known.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: Value::Null }
    }

    /// Creates the error of invalid parameters.
    pub fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(INVALID_PARAMS, message)
    }

    /// Creates an error of a kind of nerve.
    pub fn of_kind(kind: ErrorKind, message: impl Into<String>) -> RpcError {
        let code = match kind {
            ErrorKind::InvalidRequest => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        RpcError::new(code, message).with("error_type", kind.as_str())
    }

    /// Creates an error that the agent reported. Only here does an authentication error mean that the agent requires a login.
    pub fn of_agent(kind: ErrorKind, message: impl Into<String>) -> RpcError {
        let error = RpcError::of_kind(kind, message);
        let code = if kind == ErrorKind::Authentication { AUTH_REQUIRED } else { error.code };
        RpcError { code, ..error }
    }

    /// Creates the error of a request that the end of the connection interrupts.
    pub fn disconnected() -> RpcError {
        RpcError::new(INTERNAL_ERROR, "the client has disconnected")
            .with("hint", "session/load opens the session again")
    }

    /// Creates the error for a session that does not exist.
    pub fn unknown_session(id: &str) -> RpcError {
        RpcError::new(RESOURCE_NOT_FOUND, format!("no session '{id}'"))
            .with("error_type", ErrorKind::NotFound.as_str())
            .with("sessionId", id)
            .with("hint", "session/list lists the sessions, session/load opens one")
    }

    /// Adds a detail to the data.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> RpcError {
        let details = match &mut self.data {
            Value::Object(details) => details,
            other => {
                *other = Value::Object(Map::new());
                return self.with(name, value);
            }
        };
        details.insert(name.to_string(), value.into());
        self
    }

    /// Adds a detail to the data, if there is one.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> RpcError {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agent_requires_a_login() {
        let code = |error: RpcError| error.code;
        assert_eq!(code(RpcError::of_agent(ErrorKind::Authentication, "")), AUTH_REQUIRED);
        assert_eq!(code(RpcError::of_kind(ErrorKind::Authentication, "")), INTERNAL_ERROR);
        assert_eq!(code(RpcError::of_kind(ErrorKind::NotFound, "")), INTERNAL_ERROR);
        assert_eq!(code(RpcError::of_agent(ErrorKind::InvalidRequest, "")), INVALID_PARAMS);
    }
}
