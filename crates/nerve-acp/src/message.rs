//! JSON-RPC 2.0 messages of the client, one per line.

use serde_json::{Map, Value};

use crate::rpc_error::{INVALID_REQUEST, PARSE_ERROR, RpcError};

/// A message from the client.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: Value, outcome: Result<Value, RpcError> },
}

/// A line that is not a message. `id`: that of the request as far as it can be read, otherwise null.
#[derive(Debug, PartialEq)]
pub(crate) struct InvalidMessage {
    pub(crate) id: Value,
    pub(crate) error: RpcError,
}

impl InvalidMessage {
    fn new(id: Value, code: i64, message: impl Into<String>) -> Box<InvalidMessage> {
        Box::new(InvalidMessage { id, error: RpcError::new(code, message) })
    }
}

/// Decodes a line.
///
/// # Errors
/// The line is not JSON, or not a message of JSON-RPC 2.0. Batches, which ACP does not have, are none.
pub(crate) fn decode(line: &[u8]) -> Result<Incoming, Box<InvalidMessage>> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| InvalidMessage::new(Value::Null, PARSE_ERROR, format!("not JSON: {error}")))?;
    let Value::Object(mut message) = value else {
        return Err(InvalidMessage::new(Value::Null, INVALID_REQUEST, "a message must be an object"));
    };
    let id = message.remove("id");
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(InvalidMessage::new(Value::Null, INVALID_REQUEST, "id must be a string or an integer"));
    }
    let invalid = |why: &str| Err(InvalidMessage::new(id.clone().unwrap_or_default(), INVALID_REQUEST, why));
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("jsonrpc must be \"2.0\"");
    }
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), id.clone()) {
        (Some(Value::String(method)), Some(id)) => Ok(Incoming::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Incoming::Notification { method, params }),
        (Some(_), _) => invalid("method must be a string"),
        (None, Some(id)) => match outcome(message) {
            Some(outcome) => Ok(Incoming::Response { id, outcome }),
            None => invalid("a message needs method, result or error"),
        },
        (None, None) => invalid("a message needs method or id"),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_null() || id.is_string() || id.is_i64()
}

/// Returns the outcome of a response; `None` if it has neither result nor error.
fn outcome(mut message: Map<String, Value>) -> Option<Result<Value, RpcError>> {
    if let Some(error) = message.remove("error").filter(|error| !error.is_null()) {
        let error = serde_json::from_value(error);
        return Some(Err(error.unwrap_or_else(|_| RpcError::new(INVALID_REQUEST, "unreadable error"))));
    }
    message.remove("result").map(Ok)
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
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":1}"#), Err((INVALID_REQUEST, json!(1))));
        assert_eq!(code(br#"{"jsonrpc":"2.0"}"#), Err((INVALID_REQUEST, Value::Null)));
    }
}
