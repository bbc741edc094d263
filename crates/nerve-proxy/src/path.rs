//! Checks the paths of requests: rejects ambiguous ones and determines which are billable.

use http::{Method, Uri};

use crate::api_error::ApiError;

const MESSAGES: &str = "/v1/messages";
const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
/// Paths that cost nothing: token counts and an agent's own telemetry. They are exact, because a prefix would match
/// other paths too.
const FREE: [&str; 5] = [
    COUNT_TOKENS,
    "/api/event_logging/batch",
    "/api/event_logging/v2/batch",
    "/api/claude_code/metrics",
    "/api/claude_cli_feedback",
];

/// Rejects a path that servers could interpret differently.
///
/// # Errors
/// 400 for empty segments, `.`, `..`, the escapes `%2f`, `%5c` and `%2e`, and for a target that is not a path.
pub(crate) fn check(uri: &Uri) -> Result<(), ApiError> {
    let path = uri.path();
    let lower = path.to_ascii_lowercase();
    let is_ambiguous = ["%2e", "%2f", "%5c", "\\"].into_iter().any(|part| lower.contains(part));
    let is_plain = match path.strip_prefix('/') {
        Some("") => true,
        Some(rest) => rest.split('/').all(|segment| !matches!(segment, "" | "." | "..")),
        // `*`, or the authority of a CONNECT.
        None => false,
    };
    if is_plain && !is_ambiguous {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the path is ambiguous: write it without //, a trailing slash, ., .., %2e, %2f and %5c",
    ))
}

/// Returns true if a request may cost something: every writing request does, except on the few paths known to be free.
pub(crate) fn is_billable(method: &Method, path: &str) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE) && !FREE.contains(&path)
}

/// Returns true if the body of a request to this path has a `model` field.
pub(crate) fn has_model(path: &str) -> bool {
    matches!(path, MESSAGES | COUNT_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_paths_are_rejected() {
        for plain in ["/", "/v1/messages?beta=true", "/v1/files/a.b%20c", "/v1/...", "/v1/x?y=//../%2e"] {
            assert_eq!(check(&Uri::from_static(plain)), Ok(()), "{plain}");
        }
        for veiled in [
            "/api/../v1/messages",
            "/v1//messages",
            "//v1/messages",
            "/v1/./messages",
            "/v1/messages/",
            "/v1/messages/..",
            "/api/%2e%2E/v1/messages",
            "/api/.%2e/v1/messages",
            "/v1%2fmessages",
            "/v1%2Fmessages",
            "/api/..%5Cv1/messages",
            "/api/..\\v1\\messages",
            "*",
            "localhost:80",
        ] {
            assert!(check(&Uri::from_static(veiled)).is_err(), "{veiled}");
        }
    }

    #[test]
    fn only_known_paths_are_free() {
        assert!(!is_billable(&Method::GET, "/v1/models") && !is_billable(&Method::POST, COUNT_TOKENS));
        assert!(!is_billable(&Method::POST, "/api/event_logging/batch"));
        for path in [
            MESSAGES,
            "/v1/messages/batches",
            "/v1/%6dessages",
            "/v1/complete",
            "/api/",
            "/api/other",
            "/V1/messages/count_tokens",
        ] {
            assert!(is_billable(&Method::POST, path), "{path}");
        }
        assert!(is_billable(&Method::from_bytes(b"get").unwrap(), MESSAGES), "unknown method");
    }
}
