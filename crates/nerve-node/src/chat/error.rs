//! Converts errors of a model's API.

use nerve_llm::error::ApiError;

use crate::error::{EngineError, ErrorKind};

/// Converts an error of the API at `host` after `tries` attempts.
pub(super) fn engine_error(error: &ApiError, host: &str, tries: u32) -> EngineError {
    let tries = if tries > 1 { format!(", after {tries} tries") } else { String::new() };
    EngineError::new(error_kind(error), format!("{host} {error}{tries}")).hint(error_hint(error))
}

fn error_kind(error: &ApiError) -> ErrorKind {
    match error {
        ApiError::Status { status, .. } => match status {
            400 | 413 | 422 => ErrorKind::InvalidRequest,
            401 => ErrorKind::Authentication,
            403 => ErrorKind::Permission,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::RateLimit,
            _ => ErrorKind::Api,
        },
        ApiError::Reported { kind, .. } => match kind.as_str() {
            "rate_limit_error" => ErrorKind::RateLimit,
            "invalid_request_error" => ErrorKind::InvalidRequest,
            _ => ErrorKind::Api,
        },
        ApiError::Malformed(_) | ApiError::TooLarge(_) => ErrorKind::Api,
        ApiError::ClosedEarly | ApiError::Network(_) => ErrorKind::Network,
    }
}

fn error_hint(error: &ApiError) -> String {
    let hint = match error {
        ApiError::Status { status, wait, .. } => match (status, wait) {
            (300..=399, _) => "redirects are not followed: set base_url to the final address",
            (401 | 403, _) => "check the key in the variable that api_key_env names",
            (404, _) => "check the model's name and base_url",
            (429, Some(wait)) => return format!("retry after {} seconds", wait.as_secs()),
            (429, None) => "retry later, or raise the limit at the provider",
            (400..=499, _) => "check the options of the node, and the length of its conversation",
            _ => "the API failed: retry later",
        },
        ApiError::Malformed(_) => "check that base_url points to an API of this provider",
        ApiError::ClosedEarly => "no part of the answer was kept: try again",
        ApiError::Network(_) => "check base_url and the network",
        ApiError::Reported { .. } => "the API ended the answer with this error: retry later",
        ApiError::TooLarge(_) => "give the node a smaller max_tokens",
    };
    hint.to_string()
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
            let error = engine_error(&ApiError::of_status(status, body, None), "h", 1);
            assert_eq!(error.kind, kind);
            assert!(error.hint.is_some(), "{error} has no hint");
            for fact in ["h ", &status.to_string(), "max_tokens: too large"] {
                assert!(error.message.contains(fact), "{error} lacks {fact:?}");
            }
        }
        let page = engine_error(&ApiError::of_status(502, b"<html>\n  Bad   Gateway</html>", None), "h", 4);
        for fact in ["502", "<html> Bad Gateway</html>", "4 tries"] {
            assert!(page.message.contains(fact), "{page} lacks {fact:?}");
        }
        let text = engine_error(&ApiError::of_status(500, br#"{"error": "just words"}"#, None), "h", 1);
        assert!(text.message.ends_with("just words"));
        let long = engine_error(&ApiError::of_status(500, "ä".repeat(10_000).as_bytes(), None), "h", 1);
        assert!(long.message.chars().count() < 600);
    }
}
