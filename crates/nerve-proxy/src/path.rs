//! Paths of Anthropic's API: those that can be read in one way only, and which of them cost something.

use http::{Method, Uri};

use crate::api_error::Fault;

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";
/// What may be sent for nothing: counting, and what an agent tells of itself. Exact paths: behind a prefix anything could stand.
const FREE: [&str; 5] = [
    COUNT,
    "/api/event_logging/batch",
    "/api/event_logging/v2/batch",
    "/api/claude_code/metrics",
    "/api/claude_cli_feedback",
];

/// Takes only a path that no server can take for another one.
///
/// # Errors
/// 400 for empty segments, `.`, `..`, slashes and dots that are written as `%2f`, `%5c` or `%2e`, and for what is no path.
pub(crate) fn check(uri: &Uri) -> Result<(), Fault> {
    let path = uri.path();
    let lower = path.to_ascii_lowercase();
    let is_veiled = ["%2e", "%2f", "%5c", "\\"].into_iter().any(|part| lower.contains(part));
    let is_plain = match path.strip_prefix('/') {
        Some("") => true,
        Some(rest) => rest.split('/').all(|segment| !matches!(segment, "" | "." | "..")),
        // `*`, or the authority of a CONNECT.
        None => false,
    };
    if is_plain && !is_veiled {
        return Ok(());
    }
    Err(Fault::bad_request(
        "the path can be read in more than one way: write it without //, a slash at its end, ., .., %2e, %2f and %5c",
    ))
}

/// Whether a request may cost something: all that is sent there does, but for the few paths that are known not to.
pub(crate) fn spends(method: &Method, path: &str) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE) && !FREE.contains(&path)
}

/// Whether the body there names its model.
pub(crate) fn names_a_model(path: &str) -> bool {
    matches!(path, MESSAGES | COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_meaning() {
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
    fn only_what_is_known_costs_nothing() {
        assert!(!spends(&Method::GET, "/v1/models") && !spends(&Method::POST, COUNT));
        assert!(!spends(&Method::POST, "/api/event_logging/batch"));
        for path in [
            MESSAGES,
            "/v1/messages/batches",
            "/v1/%6dessages",
            "/v1/complete",
            "/api/",
            "/api/other",
            "/V1/messages/count_tokens",
        ] {
            assert!(spends(&Method::POST, path), "{path}");
        }
        assert!(spends(&Method::from_bytes(b"get").unwrap(), MESSAGES), "no method that is known");
    }
}
