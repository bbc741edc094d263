//! Errors in the form of Anthropic's API.

use http::StatusCode;
use serde_json::{Value, json};

/// An error response for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status of the response.
    pub status: StatusCode,
    /// Anthropic's error type, like `invalid_request_error`.
    pub kind: &'static str,
    /// Description of the error and its solution.
    pub message: String,
}

impl ApiError {
    /// Creates an error with the type that belongs to its status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, kind: kind_of(status), message: message.into() }
    }

    /// Creates an error for an invalid request.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// Creates an error for an upstream that cannot be reached or understood.
    pub fn bad_gateway(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, message)
    }

    /// Returns the body of the response.
    pub fn body(&self) -> Value {
        json!({ "type": "error", "error": { "type": self.kind, "message": self.message } })
    }
}

/// Returns Anthropic's error type for a status.
fn kind_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_determines_the_type() {
        let kind = |status| ApiError::new(StatusCode::from_u16(status).unwrap(), "x").kind;
        let known = [
            (400, "invalid_request_error"),
            (402, "billing_error"),
            (422, "invalid_request_error"),
            (500, "api_error"),
            (502, "api_error"),
            (529, "overloaded_error"),
        ];
        known.into_iter().for_each(|(status, word)| assert_eq!(kind(status), word));
        let body = ApiError::bad_request("no").body();
        assert_eq!(
            body,
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no" } })
        );
    }
}
