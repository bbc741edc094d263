//! JSON-RPC 2.0 messages of the other side, one per line.

use serde_json::{Map, Value};

use crate::rpc_error::{INVALID_REQUEST, PARSE_ERROR, RpcError};

/// A message of the other side.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// A request, which gets a response.
    Request {
        /// A string, an integer or null.
        id: Value,
        /// Name of the method.
        method: String,
        /// Its parameters; null if there are none.
        params: Value,
    },
    /// A notification, which gets none.
    Notification {
        /// Name of the method.
        method: String,
        /// Its parameters; null if there are none.
        params: Value,
    },
    /// The response to a request.
    Response {
        /// Id of the request.
        id: Value,
        /// The result, or the error.
        outcome: Result<Value, RpcError>,
    },
}

/// A line that is not a message.
#[derive(Debug, PartialEq)]
pub struct InvalidMessage {
    /// Id of the request as far as it can be read, otherwise null.
    pub id: Value,
    /// The problem.
    pub error: RpcError,
}

impl InvalidMessage {
    fn new(id: Value, code: i64, message: impl Into<String>) -> Box<InvalidMessage> {
        Box::new(InvalidMessage { id, error: RpcError::new(code, message) })
    }
}

/// Decodes a line.
///
/// # Errors
/// The line is not JSON, or it is neither a request nor a notification of JSON-RPC 2.0. ACP has no batches. A message without a method
/// is a response, so that an invalid one ends the request that it belongs to, and gets no answer.
pub fn decode(line: &[u8]) -> Result<Incoming, Box<InvalidMessage>> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| InvalidMessage::new(Value::Null, PARSE_ERROR, format!("not JSON: {error}")))?;
    let Value::Object(mut message) = value else {
        return Err(InvalidMessage::new(Value::Null, INVALID_REQUEST, "a message must be an object"));
    };
    if !message.contains_key("method") {
        let id = message.remove("id").unwrap_or_default();
        return Ok(Incoming::Response { id, outcome: read_outcome(message) });
    }
    let id = message.remove("id");
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(InvalidMessage::new(Value::Null, INVALID_REQUEST, "id must be a string or an integer"));
    }
    let invalid = |why: &str| Err(InvalidMessage::new(id.clone().unwrap_or_default(), INVALID_REQUEST, why));
    if !has_version(&message) {
        return invalid("jsonrpc must be \"2.0\"");
    }
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), id.clone()) {
        (Some(Value::String(method)), Some(id)) => Ok(Incoming::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Incoming::Notification { method, params }),
        _ => invalid("method must be a string"),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_null() || id.is_string() || id.is_i64()
}

fn has_version(message: &Map<String, Value>) -> bool {
    message.get("jsonrpc").and_then(Value::as_str) == Some("2.0")
}

/// Returns the outcome of a response; an error if the response is invalid.
fn read_outcome(mut message: Map<String, Value>) -> Result<Value, RpcError> {
    let invalid = |problem| RpcError::new(INVALID_REQUEST, format!("invalid response: {problem}"));
    if !has_version(&message) {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    if let Some(error) = message.remove("error").filter(|error| !error.is_null()) {
        return Err(serde_json::from_value(error).unwrap_or_else(|_| invalid("unreadable error")));
    }
    message.remove("result").ok_or_else(|| invalid("result or error is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode_value(value: &Value) -> Result<Incoming, Box<InvalidMessage>> {
        decode(value.to_string().as_bytes())
    }

    #[test]
    fn kinds_of_messages_are_distinguished() {
        let request = decode_value(&json!({"jsonrpc": "2.0", "id": "a", "method": "m", "params": {"x": 1}}));
        let expected = Incoming::Request { id: json!("a"), method: "m".to_string(), params: json!({"x": 1}) };
        assert_eq!(request, Ok(expected));
        let notification = decode_value(&json!({"jsonrpc": "2.0", "method": "m"}));
        assert_eq!(notification, Ok(Incoming::Notification { method: "m".to_string(), params: Value::Null }));
        let response = decode_value(&json!({"jsonrpc": "2.0", "id": 3, "result": null}));
        assert_eq!(response, Ok(Incoming::Response { id: json!(3), outcome: Ok(Value::Null) }));
        let failed = decode_value(&json!({"jsonrpc": "2.0", "id": 3, "error": {"code": 5, "message": "no"}}));
        let outcome = Err(RpcError::new(5, "no"));
        assert_eq!(failed, Ok(Incoming::Response { id: json!(3), outcome }));
    }

    #[test]
    fn invalid_messages_have_code_and_id() {
        let code = |line: &[u8]| decode(line).map_err(|invalid| (invalid.error.code, invalid.id));
        assert_eq!(code(b"{nonsense"), Err((PARSE_ERROR, Value::Null)));
        assert_eq!(code(b"\xff\xfe"), Err((PARSE_ERROR, Value::Null)));
        assert_eq!(code(b"[]"), Err((INVALID_REQUEST, Value::Null)));
        assert_eq!(code(br#"{"id":1,"method":"m"}"#), Err((INVALID_REQUEST, json!(1))));
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":1,"method":5}"#), Err((INVALID_REQUEST, json!(1))));
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#), Err((INVALID_REQUEST, Value::Null)));
    }

    #[test]
    fn invalid_responses_end_their_request() {
        for line in [
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"id": 1, "result": 5}),
            json!({"jsonrpc": "2.0", "id": 1, "error": 5}),
        ] {
            let Ok(Incoming::Response { id, outcome }) = decode_value(&line) else { panic!("{line}") };
            assert_eq!((id, outcome.unwrap_err().code), (json!(1), INVALID_REQUEST), "{line}");
        }
        let other = decode(br#"{"id":[1],"result":{}}"#);
        assert!(matches!(other, Ok(Incoming::Response { outcome: Err(_), .. })), "{other:?}");
    }
}
