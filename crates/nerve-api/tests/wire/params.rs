use std::fmt::Debug;

use nerve_api::request::{
    self, AnswerNode, CommandLine, CreateNode, CreateSession, ExecuteInput, GetHistory, GetSession,
    NodeChoice, ResizeNode, Seconds, StopNode, Subscribe, WaitNode, WebhookTarget,
};
use nerve_api::value::{HistoryOp, NodeState};
use nerve_api::{Params, RequestName, decode_request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads parameters from text and from values, and expects the same.
fn try_read<P: DeserializeOwned + Debug + PartialEq>(params: Value) -> Result<P, String> {
    let text = params.to_string();
    let Value::Object(values) = params else { panic!("{params}") };
    let result = request::read(RequestName::CreateNode, &Params::parse(text.as_bytes()).unwrap());
    assert_eq!(request::read(RequestName::CreateNode, &values.into()), result);
    result
}

fn read<P: DeserializeOwned + Debug + PartialEq>(params: Value) -> P {
    try_read(params).unwrap()
}

fn read_error<P: DeserializeOwned + Debug + PartialEq>(params: Value) -> String {
    try_read::<P>(params).unwrap_err()
}

/// Reads an EXECUTE_INPUT from its text.
fn read_prompt(params: &str) -> Result<ExecuteInput, String> {
    let line = format!(r#"{{"command_type":"EXECUTE_INPUT","params":{params}}}"#);
    request::read(RequestName::ExecuteInput, &decode_request(line.as_bytes()).unwrap().params)
}

#[test]
fn last_value_of_repeated_name_counts() {
    let prompt = read_prompt(
        r#"{"node_id":"a","text":"1","stream":null,"stream":true,"timeout":5,"timeout":null,"text":"2",
            "webhook":{"url":"http://1","secret":"s","url":"http://2"},"x":{"y":1,"y":2}}"#,
    )
    .unwrap();
    let webhook = WebhookTarget { url: "http://2".into(), secret: Some("s".into()) };
    let wanted = ExecuteInput { stream: true, webhook: Some(webhook), ..ExecuteInput::new("a", "2") };
    assert_eq!(prompt, wanted);
    assert_eq!(
        read_prompt(r#"{"node_id":"a","text":"1","node_id":null}"#).unwrap_err(),
        "params.node_id is missing: EXECUTE_INPUT needs it"
    );
}

#[test]
fn wrong_type_within_field_names_the_field() {
    let cases = [
        (r#"{"webhook": {"url": 5}}"#, "params.webhook: invalid type: integer `5`, expected a string"),
        (r#"{"webhook": {"url": null}}"#, "params.webhook: invalid type: null, expected a string"),
        (r#"{"webhook": {}}"#, "params.webhook: missing field `url`"),
        (
            r#"{"webhook": "http://a"}"#,
            "params.webhook: invalid type: string \"http://a\", expected struct WebhookTarget",
        ),
        (
            r#"{"conversation": {"history": [{"role": "user", "content": "a"}, {"role": "user", "content": 1}]}}"#,
            "params.conversation: history[1]: invalid type: integer `1`, expected a string",
        ),
        (
            "{\n\"conversation\":\n {\"context\": \"x at line 1 column 2\"}}",
            "params.conversation: unknown context \"x at line 1 column 2\": there are auto, always, never",
        ),
    ];
    for (params, message) in cases {
        assert_eq!(read_prompt(params).unwrap_err(), message);
    }
}

#[test]
fn node_has_documented_defaults() {
    let node: CreateNode = read(json!({"node_id": "a", "unknown": 1, "cwd": null, "history": null}));
    assert_eq!(node, CreateNode::new("a"));
    assert_eq!((node.backend.as_str(), node.history, node.record), ("pty", true, true));
    assert_eq!(node.ready_timeout.duration().as_secs(), 60);
    assert_eq!(node.response_timeout.duration().as_secs(), 1800);
}

#[test]
fn node_with_all_fields_round_trips() {
    let mut node = CreateNode::new("a");
    node.session_id = Some("work".into());
    node.command = Some(CommandLine::Argv(vec!["bash".into(), "-l".into()]));
    node.env.insert("K".into(), "V".into());
    (node.cols, node.rows) = (Some(100), Some(30));
    node.ready_timeout = Seconds::new(1.5).unwrap();
    node.history = false;
    assert_eq!(read::<CreateNode>(serde_json::to_value(&node).unwrap()), node);
    let text: CreateNode = read(json!({"node_id": "a", "command": "claude --model x"}));
    assert_eq!(text.command, Some(CommandLine::Text("claude --model x".into())));
}

#[test]
fn wrong_type_error_names_field_and_expected_type() {
    let cases = [
        (json!({}), "params.node_id is missing: CREATE_NODE needs it"),
        (json!({"node_id": null}), "params.node_id is missing: CREATE_NODE needs it"),
        (json!({"node_id": 5}), "params.node_id: invalid type: integer `5`, expected a string"),
        (
            json!({"node_id": "a", "cols": "80"}),
            "params.cols: invalid type: string \"80\", expected a whole number from 0 to 65535",
        ),
        (
            json!({"node_id": "a", "rows": 70000}),
            "params.rows: invalid value: integer `70000`, expected a whole number from 0 to 65535",
        ),
        (
            json!({"node_id": "a", "cols": -1}),
            "params.cols: invalid value: integer `-1`, expected a whole number from 0 to 65535",
        ),
        (
            json!({"node_id": "a", "history": "no"}),
            "params.history: invalid type: string \"no\", expected true or false",
        ),
        (json!({"node_id": "a", "env": []}), "params.env: invalid type: list, expected an object"),
        (
            json!({"node_id": "a", "env": {"K": 1}}),
            "params.env: invalid type: integer `1`, expected a string",
        ),
        (
            json!({"node_id": "a", "command": {"x": 1}}),
            "params.command: invalid type: object, expected a string or a list of strings",
        ),
        (
            json!({"node_id": "a", "command": ["ok", 5]}),
            "params.command: invalid type: integer `5`, expected a string",
        ),
        (
            json!({"node_id": "a", "ready_timeout": -1}),
            "params.ready_timeout: invalid value: floating point `-1.0`, expected seconds from 0 to 31536000",
        ),
        (
            json!({"node_id": "a", "ready_timeout": 1e300}),
            "params.ready_timeout: invalid value: floating point `1e+300`, expected seconds from 0 to 31536000",
        ),
        (
            json!({"node_id": "a", "ready_timeout": "60"}),
            "params.ready_timeout: invalid type: string \"60\", expected seconds from 0 to 31536000",
        ),
    ];
    for (params, message) in cases {
        assert_eq!(read_error::<CreateNode>(params), message);
    }
    assert_eq!(
        read_error::<ResizeNode>(json!({"node_id": "a", "cols": 80})),
        "params.rows is missing: CREATE_NODE needs it"
    );
    assert_eq!(
        read_error::<CreateSession>(json!({"name": "x", "tags": "t"})),
        "params.tags: invalid type: string \"t\", expected a list"
    );
}

#[test]
fn huge_wrong_value_is_truncated_in_error() {
    let message = read_error::<StopNode>(json!({"node_id": "a", "session_id": ["x".repeat(1 << 20)]}));
    assert!(message.len() < 400, "{message}");
    let message = read_error::<CreateNode>(json!({"node_id": "a", "cols": "x".repeat(1 << 20)}));
    assert!(message.len() < 700 && message.ends_with("from 0 to 65535"), "{message}");
}

#[test]
fn prompt_history_and_subscription_params() {
    let prompt: ExecuteInput = read(json!({"node_id": "a", "text": "hi", "timeout": 2}));
    assert_eq!(prompt.timeout.unwrap().duration().as_millis(), 2_000);
    assert!(!prompt.stream && !prompt.fail_if_busy);
    let history: GetHistory = read(json!({"node_id": "a", "last": 10, "op": "send", "inputs_only": true}));
    assert_eq!((history.last, history.op, history.seq), (Some(10), Some(HistoryOp::Send), None));
    assert_eq!(
        read_error::<GetHistory>(json!({"node_id": "a", "op": "sned"})),
        "params.op: unknown operation \"sned\": there are send, send_stream, write, run, interrupt, answer, cancel, unsent, read, close, delete"
    );
    assert_eq!(
        read_error::<GetHistory>(json!({"node_id": "a", "last": -3})),
        "params.last: invalid value: integer `-3`, expected a whole number, not negative"
    );
    assert_eq!(read::<Subscribe>(json!({})), Subscribe::default());
    let none: Subscribe = read(json!({"types": []}));
    assert_eq!(none.types, Some(vec![]));
}

#[test]
fn session_is_read_from_either_name() {
    assert_eq!(read::<GetSession>(json!({"name": "a"})).session(), Some("a"));
    assert_eq!(read::<GetSession>(json!({"session_id": "b"})).session(), Some("b"));
    assert_eq!(read::<GetSession>(json!({"name": "a", "session_id": "b"})).session(), Some("a"));
    assert_eq!(read::<GetSession>(json!({})).session(), None);
}

#[test]
fn wait_and_answer_params() {
    let wait: WaitNode = read(json!({"node_id": "a"}));
    assert_eq!(wait.until.0, [NodeState::Ready]);
    let wait: WaitNode = read(json!({"node_id": "a", "until": "blocked"}));
    assert_eq!(wait.until.0, [NodeState::Blocked]);
    let wait: WaitNode = read(json!({"node_id": "a", "until": ["ready", "stopped"]}));
    assert_eq!(wait.until.0, [NodeState::Ready, NodeState::Stopped]);
    let answer = |choice: Value| read::<AnswerNode>(json!({"node_id": "a", "choice": choice})).choice;
    assert_eq!(answer(json!(2)), Some(NodeChoice::Number(2)));
    assert_eq!(answer(json!("Yes")), Some(NodeChoice::Label("Yes".into())));
    assert_eq!(answer(json!(null)), None);
    assert_eq!(
        read_error::<AnswerNode>(json!({"node_id": "a", "choice": 0})),
        "params.choice: invalid value: integer `0`, expected a choice: its number, from 1, or a part of its label"
    );
}
