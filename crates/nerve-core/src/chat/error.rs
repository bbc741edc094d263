//! Errors of requests to a model's API.

use std::time::Duration;

use serde_json::Value;

use super::retry;
use crate::error::{EngineError, ErrorKind};

/// Maximum number of characters of an API's message in an error.
const MAX_MESSAGE_CHARS: usize = 500;

/// Error of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The status is not a success.
    Status {
        status: u16,
        /// The API's message.
        message: String,
        /// The pause that the API requests.
        wait: Option<Duration>,
    },
    /// The API reported an error in the middle of an answer.
    Reported { kind: String, message: String },
    /// The answer does not follow the API's format.
    Malformed(String),
    /// The connection was closed before the end of the answer.
    ClosedEarly,
    /// The connection could not be made, or broke.
    Network(String),
    /// The answer exceeds this many bytes.
    TooLarge(usize),
}

impl Fault {
    /// Creates the fault from an `error` object, or from a string in its place.
    pub(super) fn reported(error: &Value) -> Fault {
        let (kind, message) = parse_error_object(error);
        Fault::Reported { kind, message }
    }

    /// Creates the fault from an error response. `body` may be anything.
    pub(super) fn of_status(status: u16, body: &[u8], wait: Option<Duration>) -> Fault {
        let message = match serde_json::from_slice::<Value>(body) {
            Ok(json) => parse_error_object(json.get("error").unwrap_or(&json)).1,
            Err(_) => String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" "),
        };
        Fault::Status { status, message, wait }
    }

    /// Returns true if a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Fault::Status { status, .. } => retry::is_transient(*status),
            Fault::Reported { kind, .. } => {
                matches!(
                    kind.as_str(),
                    "overloaded_error" | "api_error" | "rate_limit_error" | "server_error"
                )
            }
            Fault::ClosedEarly | Fault::Network(_) => true,
            Fault::Malformed(_) | Fault::TooLarge(_) => false,
        }
    }

    /// Returns the pause that the API requests.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Fault::Status { wait, .. } => *wait,
            _ => None,
        }
    }

    /// Converts the fault to an error after this many attempts.
    pub(super) fn into_error(self, host: &str, tries: u32) -> EngineError {
        let (kind, what, hint) = match self {
            Fault::Status { status, message, wait } => of_status(status, &message, wait),
            Fault::Reported { kind, message } => {
                let error_kind = match kind.as_str() {
                    "rate_limit_error" => ErrorKind::RateLimit,
                    "invalid_request_error" => ErrorKind::InvalidRequest,
                    _ => ErrorKind::Api,
                };
                (error_kind, format!("aborted its answer: {} ({kind})", truncate(&message)), None)
            }
            Fault::Malformed(what) => {
                let hint = "check that base_url points to an API of this provider";
                (
                    ErrorKind::Api,
                    format!("sent an invalid answer: {}", truncate(&what)),
                    Some(hint.to_string()),
                )
            }
            Fault::ClosedEarly => {
                let hint = "no part of the answer was kept: try again".to_string();
                (
                    ErrorKind::Network,
                    "closed the connection before the end of its answer".to_string(),
                    Some(hint),
                )
            }
            Fault::Network(what) => {
                let hint = "check base_url and the network".to_string();
                (ErrorKind::Network, format!("cannot be reached: {}", truncate(&what)), Some(hint))
            }
            Fault::TooLarge(limit) => {
                (ErrorKind::Api, format!("sent an answer of more than {limit} bytes"), None)
            }
        };
        let tries = if tries > 1 { format!(", after {tries} tries") } else { String::new() };
        let error = EngineError::new(kind, format!("{host} {what}{tries}"));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

fn of_status(status: u16, message: &str, wait: Option<Duration>) -> (ErrorKind, String, Option<String>) {
    let kind = match status {
        400 | 413 | 422 => ErrorKind::InvalidRequest,
        401 => ErrorKind::Authentication,
        403 => ErrorKind::Permission,
        404 => ErrorKind::NotFound,
        429 => ErrorKind::RateLimit,
        _ => ErrorKind::Api,
    };
    let hint = match (status, wait) {
        (300..=399, _) => Some("redirects are not followed: set base_url to the final address".to_string()),
        (401 | 403, _) => Some("check the key in the variable that api_key_env names".to_string()),
        (404, _) => Some("check the model's name and base_url".to_string()),
        (429, Some(wait)) => Some(format!("retry after {} seconds", wait.as_secs())),
        _ => None,
    };
    let what = match message.trim() {
        "" => format!("answered with HTTP status {status}"),
        message => format!("answered with HTTP status {status}: {}", truncate(message)),
    };
    (kind, what, hint)
}

/// Returns kind and message of an `error` object.
fn parse_error_object(error: &Value) -> (String, String) {
    let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_string);
    let message = text("message").or_else(|| error.as_str().map(str::to_string));
    (text("type").unwrap_or_else(|| "error".to_string()), message.unwrap_or_else(|| error.to_string()))
}

fn truncate(words: &str) -> String {
    match words.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_map_to_kinds_with_the_apis_message() {
        let body = br#"{"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}}"#;
        for (status, kind) in [
            (400, ErrorKind::InvalidRequest),
            (401, ErrorKind::Authentication),
            (403, ErrorKind::Permission),
            (404, ErrorKind::NotFound),
            (429, ErrorKind::RateLimit),
            (500, ErrorKind::Api),
            (529, ErrorKind::Api),
        ] {
            let error = Fault::of_status(status, body, None).into_error("h", 1);
            assert_eq!(error.kind, kind);
            assert_eq!(error.message, format!("h answered with HTTP status {status}: max_tokens: too large"));
        }
        let page = Fault::of_status(502, b"<html>\n  Bad   Gateway</html>", None).into_error("h", 4);
        assert_eq!(page.message, "h answered with HTTP status 502: <html> Bad Gateway</html>, after 4 tries");
        let text = Fault::of_status(500, br#"{"error": "just words"}"#, None).into_error("h", 1);
        assert!(text.message.ends_with("just words"));
        let long = Fault::of_status(500, "ä".repeat(10_000).as_bytes(), None).into_error("h", 1);
        assert!(long.message.chars().count() < 600);
    }

    #[test]
    fn only_transient_faults_are_retried() {
        assert!(Fault::of_status(429, b"", None).is_transient() && Fault::ClosedEarly.is_transient());
        assert!(
            Fault::reported(&serde_json::json!({ "type": "overloaded_error", "message": "m" }))
                .is_transient()
        );
        assert!(
            !Fault::of_status(400, b"", None).is_transient()
                && !Fault::Malformed(String::new()).is_transient()
        );
    }
}
