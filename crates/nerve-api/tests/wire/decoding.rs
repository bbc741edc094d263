use nerve_api::{
    DecodeError, Message, Params, RawRequest, RequestId, RequestLine, RequestName, decode_request,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn decode_err(line: impl AsRef<[u8]>) -> DecodeError {
    decode_request(line.as_ref()).unwrap_err()
}

/// Returns the parameters of a request as values.
fn params(request: RawRequest<'_>) -> Value {
    Value::Object(request.params.into_map())
}

#[test]
fn full_request_round_trips() {
    let line = r#"{"type":"command","command_type":"CREATE_NODE","params":{"node_id":"a","command":"claude"},"request_id":"7f"}"#;
    let request = decode_request(line.as_bytes()).unwrap();
    assert_eq!(request.command, RequestName::CreateNode);
    assert_eq!(request.request_id, Some(RequestId::from("7f")));
    assert!(request.warnings.is_empty());
    let params = request.params.into_map();
    let request_id = &request.request_id.unwrap();
    let encoded = RequestLine { command_type: request.command.as_str(), params: &params, request_id };
    assert_eq!(serde_json::to_string(&encoded).unwrap(), line);
}

#[test]
fn optional_fields_may_be_missing_or_null() {
    for line in [
        r#"{"command_type":"PING"}"#,
        r#" {"command_type":"PING","params":null,"request_id":null,"type":null,"more":[1]} "#,
    ] {
        let request = decode_request(line.as_bytes()).unwrap();
        assert_eq!((request.command, request.request_id, request.params.len()), (RequestName::Ping, None, 0));
    }
    let request = decode_request(br#"{"command_type":"PING","request_id":42}"#).unwrap();
    assert_eq!(request.request_id, Some(RequestId::Number(42)));
}

#[test]
fn deprecated_names_are_translated_with_warnings() {
    let line = br#"{"command_type":"SEND_INPUT","params":{"channel_id":"a","input":"hi"},"request_id":"1"}"#;
    let request = decode_request(line).unwrap();
    assert_eq!(request.command, RequestName::ExecuteInput);
    assert_eq!(
        request.warnings,
        [
            "SEND_INPUT is deprecated, use EXECUTE_INPUT",
            "channel_id is deprecated, use node_id",
            "input is deprecated, use text"
        ]
    );
    assert_eq!(params(request), json!({"node_id": "a", "text": "hi"}));
    // `input` is deprecated only in prompts, not in graph commands.
    let request =
        decode_request(br#"{"command_type":"RUN_GRAPH","params":{"input":"x","dag_id":"g"}}"#).unwrap();
    assert_eq!(params(request), json!({"input": "x", "graph_id": "g"}));
    let create = br#"{"command_type":"CREATE_NODE","params":{"node_id":"a","claude_session_id":"c-1"}}"#;
    assert_eq!(params(decode_request(create).unwrap()), json!({"node_id": "a", "conversation_id": "c-1"}));
    // If both are present, the current name takes precedence unless it is null.
    let both = br#"{"command_type":"GET_NODE","params":{"node_id":"new","channel_id":"old"}}"#;
    assert_eq!(params(decode_request(both).unwrap()), json!({"node_id": "new"}));
    let null = br#"{"command_type":"GET_NODE","params":{"node_id":null,"channel_id":"old"}}"#;
    assert_eq!(params(decode_request(null).unwrap()), json!({"node_id": "old"}));
}

#[test]
fn errors_state_problem_and_position() {
    let deep = format!("{{\"params\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let cases: [(&[u8], &str); 17] = [
        (b"{\"a\":\"\xff\"}", "not UTF-8: bad byte at 6"),
        (b"hello", "not JSON: expected value at byte 1"),
        (b"{\"a\":1,}", "not JSON: trailing comma at byte 8"),
        (b"{\"a\":", "not JSON: EOF while parsing a value at byte 5"),
        (b"{} {}", "not JSON: trailing characters at byte 4"),
        (b"{\n\"a\" 1}", "not JSON: expected `:` at line 2, byte 5"),
        (deep.as_bytes(), "not JSON: nested deeper than 127 levels at byte 137"),
        (b"[1,2]", "expected a JSON object, got a list"),
        (b"\"PING\"", "expected a JSON object, got \"PING\""),
        (b"null", "expected a JSON object, got null"),
        (b"{}", "command_type is missing: it names the command"),
        (b"{\"command_type\":5}", "command_type: expected a string, got 5"),
        (
            b"{\"command_type\":\"CREAT_NODE\"}",
            "command_type: unknown command \"CREAT_NODE\", did you mean CREATE_NODE?",
        ),
        (b"{\"command_type\":\"X\\u001b[2J\"}", "command_type: unknown command \"X\\u{1b}[2J\""),
        (b"{\"command_type\":\"PING\",\"params\":[1]}", "params: expected an object, got a list"),
        (b"{\"command_type\":\"PING\",\"type\":\"event\"}", "type: expected \"command\", got \"event\""),
        (
            b"{\"command_type\":\"PING\",\"request_id\":{}}",
            "request_id: expected a string or a whole number, got an object",
        ),
    ];
    for (line, message) in cases {
        assert_eq!(decode_err(line).message, message);
    }
}

#[test]
fn error_reply_carries_known_request_id() {
    let error = decode_err(br#"{"command_type":"PIN","request_id":"r1"}"#);
    let Message::Result(result) = error.reply() else { panic!("{error:?}") };
    assert_eq!((result.success, result.request_id), (false, Some(RequestId::from("r1"))));
    assert_eq!(result.data, json!({"error_type": "invalid_request_error"}));
    assert_eq!(result.error.as_deref(), Some("command_type: unknown command \"PIN\", did you mean PING?"));

    let reply = serde_json::to_value(decode_err("[]").reply()).unwrap();
    assert_eq!(
        reply,
        json!({
            "type": "error", "error": "expected a JSON object, got a list", "error_type": "invalid_request_error",
            "request_id": null,
        })
    );
}

#[test]
fn error_does_not_repeat_huge_request() {
    let huge = "x".repeat(1 << 20);
    for line in [
        format!(r#"{{"command_type":"{huge}"}}"#),
        format!(r#"{{"command_type":"PING","request_id":"{huge}"}}"#),
        format!(r#""{huge}""#),
    ] {
        assert!(decode_err(line).message.len() < 300);
    }
    assert!(DecodeError::too_long(17_000_000).message.contains("17000000 bytes"));
}

/// Parts of JSON, some of them invalid.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"a\"",
    "\"b\"",
    "\"a\":",
    "\"b\":",
    "1",
    "-0",
    "1e999",
    "1.5",
    "null",
    "true",
    "nul",
    " ",
    "\n",
    "\"\\ud800\"",
    "\"\\u00e9\"",
    "\"\\q\"",
    "\"\u{1}\"",
    "\"",
];

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = decode_request(&bytes) {
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn params_are_parsed_like_values(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..12)) {
        let body = format!("{{\"a\":{}}}", tokens.concat());
        let map = serde_json::from_str::<Map<String, Value>>(&body).map_err(|error| error.to_string());
        let params = Params::parse(body.as_bytes()).map(Params::into_map).map_err(|error| error.to_string());
        prop_assert_eq!(params, map);
    }
}
