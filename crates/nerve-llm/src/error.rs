//! Errors of requests to a model's API.

use std::fmt;
use std::time::Duration;

use nerve_types::text::{one_line, shorten};
use serde_json::Value;

use super::retry;

/// Maximum number of characters of an API's message in an error.
const MAX_MESSAGE_CHARS: usize = 500;

/// Error of a request. Its text is the predicate of a sentence whose subject is the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// The status is not a success.
    Status {
        /// The HTTP status.
        status: u16,
        /// The API's message.
        message: String,
        /// The pause that the API requests.
        wait: Option<Duration>,
    },
    /// The API reported an error in the middle of an answer.
    Reported {
        /// The API's name for the kind of error.
        kind: String,
        /// The API's message.
        message: String,
    },
    /// The answer does not follow the API's format.
    Malformed(String),
    /// The connection was closed before the end of the answer.
    ClosedEarly,
    /// The connection could not be made, or broke.
    Network(String),
    /// The answer exceeds this many bytes.
    TooLarge(usize),
}

impl ApiError {
    /// Creates the error from an `error` object, or from a string in its place.
    pub fn reported(error: &Value) -> ApiError {
        let (kind, message) = parse_error_object(error);
        ApiError::Reported { kind, message }
    }

    /// Creates the error from an error response. `body` may be anything.
    pub fn of_status(status: u16, body: &[u8], wait: Option<Duration>) -> ApiError {
        let message = match serde_json::from_slice::<Value>(body) {
            Ok(json) => parse_error_object(json.get("error").unwrap_or(&json)).1,
            Err(_) => one_line(&String::from_utf8_lossy(body)),
        };
        ApiError::Status { status, message, wait }
    }

    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            ApiError::Status { status, .. } => retry::is_transient(*status),
            ApiError::Reported { kind, .. } => {
                matches!(
                    kind.as_str(),
                    "overloaded_error" | "api_error" | "rate_limit_error" | "server_error"
                )
            }
            ApiError::ClosedEarly | ApiError::Network(_) => true,
            ApiError::Malformed(_) | ApiError::TooLarge(_) => false,
        }
    }

    /// Returns the pause that the API requests.
    pub fn wait(&self) -> Option<Duration> {
        match self {
            ApiError::Status { wait, .. } => *wait,
            _ => None,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Status { status, message, .. } => {
                write!(f, "answered with HTTP status {status}")?;
                match message.trim() {
                    "" => Ok(()),
                    message => write!(f, ": {}", shorten(message, MAX_MESSAGE_CHARS)),
                }
            }
            ApiError::Reported { kind, message } => {
                write!(f, "aborted its answer: {} ({kind})", shorten(message, MAX_MESSAGE_CHARS))
            }
            ApiError::Malformed(what) => {
                write!(f, "sent an invalid answer: {}", shorten(what, MAX_MESSAGE_CHARS))
            }
            ApiError::ClosedEarly => f.write_str("closed the connection before the end of its answer"),
            ApiError::Network(what) => write!(f, "cannot be reached: {}", shorten(what, MAX_MESSAGE_CHARS)),
            ApiError::TooLarge(limit) => write!(f, "sent an answer of more than {limit} bytes"),
        }
    }
}

impl std::error::Error for ApiError {}

/// Returns kind and message of an `error` object.
fn parse_error_object(error: &Value) -> (String, String) {
    let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_string);
    let message = text("message").or_else(|| error.as_str().map(str::to_string));
    (text("type").unwrap_or_else(|| "error".to_string()), message.unwrap_or_else(|| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_faults_are_retried() {
        assert!(ApiError::of_status(429, b"", None).is_transient() && ApiError::ClosedEarly.is_transient());
        assert!(
            ApiError::reported(&serde_json::json!({ "type": "overloaded_error", "message": "m" }))
                .is_transient()
        );
        assert!(
            !ApiError::of_status(400, b"", None).is_transient()
                && !ApiError::Malformed(String::new()).is_transient()
        );
    }
}
