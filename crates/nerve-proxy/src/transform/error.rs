//! Translates OpenAI's errors to Anthropic's.

use http::StatusCode;
use serde_json::{Value, json};

use crate::api_error::ApiError;

/// Maximum length of the upstream's message, in characters.
const MAX_MESSAGE: usize = 2000;

/// Translates the body of an error.
pub fn api_error(status: StatusCode, body: &Value) -> ApiError {
    let error = &body["error"];
    let text =
        [&error["message"], error, &body["message"], &body["detail"]].into_iter().find_map(Value::as_str);
    let text: String = text.unwrap_or_default().chars().take(MAX_MESSAGE).collect();
    let message = match text.is_empty() {
        true => format!("the upstream answered {}", status.as_u16()),
        false => text,
    };
    match error["code"].as_str().or(error["type"].as_str()) {
        // Unlike other 429s, this one does not go away by waiting.
        Some("insufficient_quota") => ApiError::new(StatusCode::PAYMENT_REQUIRED, message),
        // Claude Code recognizes this text and shortens the conversation.
        Some("context_length_exceeded") => ApiError::bad_request(format!("prompt is too long: {message}")),
        _ => ApiError::new(status, message),
    }
}

/// Returns an error as the last event of a stream.
pub fn error_event(error: &ApiError) -> String {
    let data = json!({ "type": "error", "error": { "type": error.kind, "message": error.message } });
    format!("event: error\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_translated() {
        let of = |status, body: Value| {
            let error = api_error(StatusCode::from_u16(status).unwrap(), &body);
            (error.status.as_u16(), error.kind, error.message)
        };
        // (status, body, expected status, type and message)
        let cases = [
            (
                401,
                json!({ "error": { "message": "bad key", "type": "invalid_request_error" } }),
                401,
                "authentication_error",
                "bad key",
            ),
            (
                429,
                json!({ "error": { "message": "slow down", "code": "rate_limit_exceeded" } }),
                429,
                "rate_limit_error",
                "slow down",
            ),
            (
                429,
                json!({ "error": { "message": "no money", "code": "insufficient_quota" } }),
                402,
                "billing_error",
                "no money",
            ),
            (
                400,
                json!({ "error": { "message": "8193 tokens", "code": "context_length_exceeded" } }),
                400,
                "invalid_request_error",
                "prompt is too long: 8193 tokens",
            ),
            (500, json!({ "error": "as a text" }), 500, "api_error", "as a text"),
            (503, json!(null), 503, "overloaded_error", "the upstream answered 503"),
            (404, json!({ "detail": "Not Found" }), 404, "not_found_error", "Not Found"),
        ];
        for (status, body, new_status, kind, message) in cases {
            assert_eq!(of(status, body), (new_status, kind, message.to_string()));
        }
    }
}
