//! Errors of OpenAI's side in the words of Anthropic's.

use http::StatusCode;
use serde_json::{Value, json};

use crate::api_error::Fault;

/// Characters of the upstream's own words.
const WORDS: usize = 2000;

/// Translates the body of an error.
pub fn fault(status: StatusCode, body: &Value) -> Fault {
    let error = &body["error"];
    let words =
        [&error["message"], error, &body["message"], &body["detail"]].into_iter().find_map(Value::as_str);
    let words: String = words.unwrap_or_default().chars().take(WORDS).collect();
    let message = match words.is_empty() {
        true => format!("the upstream answered {}", status.as_u16()),
        false => words,
    };
    match error["code"].as_str().or(error["type"].as_str()) {
        // Waiting, as after other 429s, does not bring money.
        Some("insufficient_quota") => Fault::new(StatusCode::PAYMENT_REQUIRED, message),
        // These words make Claude Code shorten the conversation.
        Some("context_length_exceeded") => Fault::bad_request(format!("prompt is too long: {message}")),
        _ => Fault::new(status, message),
    }
}

/// An error as the last event of a stream.
pub fn failure(fault: &Fault) -> String {
    let data = json!({ "type": "error", "error": { "type": fault.kind, "message": fault.message } });
    format!("event: error\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors() {
        let of = |status, body: Value| {
            let fault = fault(StatusCode::from_u16(status).unwrap(), &body);
            (fault.status.as_u16(), fault.kind, fault.message)
        };
        // (status, body, status, word, message)
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
