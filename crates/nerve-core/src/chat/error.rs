//! What goes wrong between us and a model's API.

use std::time::Duration;

use serde_json::Value;

use super::retry;
use crate::error::{EngineError, ErrorKind};

/// Characters of somebody else's words in an error.
const MAX_WORDS: usize = 500;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another status than success.
    Status {
        status: u16,
        /// What the API says of it.
        message: String,
        /// The pause it asks for.
        wait: Option<Duration>,
    },
    /// It said in the middle of an answer that it cannot go on.
    Said { kind: String, message: String },
    /// What came is not what the API's description says.
    Garbled(String),
    /// The connection was closed before the answer had ended.
    ClosedEarly,
    /// There is no connection, or it broke.
    Network(String),
    /// The answer is larger than it may be: so many bytes.
    TooLarge(usize),
}

impl Fault {
    /// Of an `error` object, or a text in its place.
    pub(super) fn said(error: &Value) -> Fault {
        let (kind, message) = words_of(error);
        Fault::Said { kind, message }
    }

    /// Of a response that is no success. `body` may be anything.
    pub(super) fn of_status(status: u16, body: &[u8], wait: Option<Duration>) -> Fault {
        let message = match serde_json::from_slice::<Value>(body) {
            Ok(json) => words_of(json.get("error").unwrap_or(&json)).1,
            Err(_) => String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" "),
        };
        Fault::Status { status, message, wait }
    }

    /// The same request may have an answer a little later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Fault::Status { status, .. } => retry::is_passing(*status),
            Fault::Said { kind, .. } => {
                matches!(
                    kind.as_str(),
                    "overloaded_error" | "api_error" | "rate_limit_error" | "server_error"
                )
            }
            Fault::ClosedEarly | Fault::Network(_) => true,
            Fault::Garbled(_) | Fault::TooLarge(_) => false,
        }
    }

    /// The pause that the API asks for.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Fault::Status { wait, .. } => *wait,
            _ => None,
        }
    }

    /// In words, after so many tries. `host` is whom was asked.
    pub(super) fn into_error(self, host: &str, tries: u32) -> EngineError {
        let (kind, what, hint) = match self {
            Fault::Status { status, message, wait } => of_status(status, &message, wait),
            Fault::Said { kind, message } => {
                let kind_of_ours = match kind.as_str() {
                    "rate_limit_error" => ErrorKind::RateLimit,
                    "invalid_request_error" => ErrorKind::InvalidRequest,
                    _ => ErrorKind::Api,
                };
                (kind_of_ours, format!("broke its answer off: {} ({kind})", cut(&message)), None)
            }
            Fault::Garbled(what) => {
                let hint = "does base_url speak the provider's API?";
                (ErrorKind::Api, format!("sent what is no answer: {}", cut(&what)), Some(hint.to_string()))
            }
            Fault::ClosedEarly => {
                let hint = "nothing of it is kept: ask again".to_string();
                (
                    ErrorKind::Network,
                    "closed the connection before its answer had ended".to_string(),
                    Some(hint),
                )
            }
            Fault::Network(what) => {
                let hint = "check base_url and the network".to_string();
                (ErrorKind::Network, format!("cannot be talked to: {}", cut(&what)), Some(hint))
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
        (300..=399, _) => Some("redirects are not followed: give base_url as it is".to_string()),
        (401 | 403, _) => Some("check the key in the variable that api_key_env names".to_string()),
        (404, _) => Some("check the model's name and base_url".to_string()),
        (429, Some(wait)) => Some(format!("it asks to wait {} seconds", wait.as_secs())),
        _ => None,
    };
    let what = match message.trim() {
        "" => format!("answered with HTTP status {status}"),
        message => format!("answered with HTTP status {status}: {}", cut(message)),
    };
    (kind, what, hint)
}

/// Kind and message of an `error` object.
fn words_of(error: &Value) -> (String, String) {
    let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_string);
    let message = text("message").or_else(|| error.as_str().map(str::to_string));
    (text("type").unwrap_or_else(|| "error".to_string()), message.unwrap_or_else(|| error.to_string()))
}

fn cut(words: &str) -> String {
    match words.char_indices().nth(MAX_WORDS) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_kinds_and_the_words_of_the_api() {
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
    fn what_may_be_tried_again() {
        assert!(Fault::of_status(429, b"", None).is_passing() && Fault::ClosedEarly.is_passing());
        assert!(Fault::said(&serde_json::json!({ "type": "overloaded_error", "message": "m" })).is_passing());
        assert!(
            !Fault::of_status(400, b"", None).is_passing() && !Fault::Garbled(String::new()).is_passing()
        );
    }
}
