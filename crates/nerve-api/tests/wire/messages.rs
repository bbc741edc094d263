use nerve_api::reply::NodeMetadata;
use nerve_api::reply::{
    ErrorDetails, NodeHistory, NodeInfo, NodeProgress, Section, Tokens, Turn, TurnResponse,
};
use nerve_api::value::{NodeState, SectionKind};
use nerve_api::{
    ErrorKind, EventMessage, EventType, Message, RequestId, RequestName, ResultMessage, legacy_names,
};
use nerve_types::ExitStatus;
use nerve_types::activity::TsMs;
use serde_json::{Value, json};

fn round_trip(message: &Message, wire: &str) {
    assert_eq!(serde_json::to_string(message).unwrap(), wire);
    assert_eq!(&serde_json::from_str::<Message>(wire).unwrap(), message);
}

#[test]
fn results_serialize_as_documented() {
    let ok = ResultMessage::ok(Some("1".into()), json!({"node_id": "a"}));
    round_trip(
        &Message::Result(ok.clone()),
        r#"{"type":"result","success":true,"data":{"node_id":"a"},"error":null,"request_id":"1"}"#,
    );
    round_trip(
        &Message::Result(ok.with_warnings(vec!["STOP is deprecated, use SHUTDOWN".into()])),
        r#"{"type":"result","success":true,"data":{"node_id":"a"},"error":null,"request_id":"1","warnings":["STOP is deprecated, use SHUTDOWN"]}"#,
    );
    let data = ErrorDetails {
        hint: Some("wait".into()),
        choices: vec!["Yes".into()],
        ..ErrorDetails::of(ErrorKind::Blocked)
    };
    round_trip(
        &Message::Result(ResultMessage::failed(Some(RequestId::Number(2)), "it asks", &data)),
        r#"{"type":"result","success":false,"data":{"error_type":"blocked","hint":"wait","choices":["Yes"]},"error":"it asks","request_id":2}"#,
    );
}

#[test]
fn event_has_seq_and_deprecated_alias() {
    let event = EventMessage {
        event_type: EventType::NodeReady.to_string(),
        node_id: Some("a".into()),
        channel_id: None,
        session_id: None,
        data: json!({}),
        emitted_at: TsMs(1_764_500_000_123),
        timestamp: None,
        seq: 7,
    };
    round_trip(
        &Message::Event(event.clone()),
        r#"{"type":"event","event_type":"NODE_READY","node_id":"a","data":{},"emitted_at":"2025-11-30T10:53:20.123Z","seq":7}"#,
    );
    let old = event.under_old_name().unwrap();
    assert_eq!((old.event_type.as_str(), old.channel_id.as_deref()), ("CHANNEL_READY", Some("a")));
    assert_eq!(old.kind(), Some(EventType::NodeReady));
    assert_eq!(EventMessage { event_type: "OUTPUT_CHUNK".into(), ..event.clone() }.under_old_name(), None);
    let unknown = EventMessage { event_type: "NODE_DREAMS".into(), ..event };
    assert_eq!((unknown.kind(), unknown.under_old_name()), (None, None));
}

#[test]
fn event_without_seq_is_accepted() {
    let wire = r#"{"type":"event","event_type":"NODE_STOPPED","node_id":"a","data":{"reason":"x"},"emitted_at":"1970-01-01T00:00:01.500Z"}"#;
    let Message::Event(event) = serde_json::from_str(wire).unwrap() else { panic!() };
    assert_eq!((event.kind(), event.seq), (Some(EventType::NodeStopped), 0));
}

#[test]
fn response_serializes_every_documented_field() {
    let response = TurnResponse {
        raw: "$ hi".to_string(),
        sections: vec![Section::new(SectionKind::Text, "Hi")],
        tokens: Some(Tokens { output: Some(5), ..Tokens::default() }),
        ..TurnResponse::default()
    };
    let wire = serde_json::to_value(&response).unwrap();
    let fields: Vec<&str> = wire.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "raw",
            "text",
            "sections",
            "tokens",
            "is_complete",
            "is_ready",
            "source",
            "delivery",
            "interrupted",
            "success",
            "error",
            "error_type",
            "attributes"
        ]
    );
    assert_eq!(wire["sections"][0], json!({"type": "text", "content": "Hi", "metadata": {}}));
    assert_eq!(wire["tokens"], json!({"output": 5}));
    assert_eq!(serde_json::from_value::<TurnResponse>(wire).unwrap(), response);
    // Fields that a server omits get defaults.
    let sparse: Turn = serde_json::from_value(json!({"response": {"raw": "x", "later": 1}})).unwrap();
    assert_eq!(sparse.response.raw, "x");
}

#[test]
fn history_entries_keep_field_order() {
    let text = r#"{"seq":1,"op":"run","ts":"2025-12-22T10:30:00.000Z","input":"claude"}"#;
    let data = NodeHistory {
        node_id: "a".into(),
        server_name: "test".into(),
        entries: vec![serde_json::from_str::<Value>(text).unwrap()],
        total: 1,
        note: None,
    };
    assert_eq!(
        serde_json::to_string(&serde_json::to_value(&data).unwrap()).unwrap(),
        format!(r#"{{"node_id":"a","server_name":"test","entries":[{text}],"total":1}}"#)
    );
    let disabled =
        NodeHistory { note: Some("History was disabled for this node".into()), ..NodeHistory::default() };
    assert_eq!(serde_json::to_value(&disabled).unwrap()["entries"], json!([]));
}

#[test]
fn node_info_is_one_object() {
    let mut metadata = NodeMetadata::new(None);
    metadata.set("pid", 1);
    metadata.set_exit(ExitStatus::Code(3));
    assert_eq!((metadata.number("pid"), metadata.exit()), (Some(1), Some(ExitStatus::Code(3))));
    assert_eq!((metadata.display("pid"), metadata.display("exit")), ("1".into(), "exit code 3".into()));
    let info = NodeInfo {
        node_id: "a".into(),
        kind: "pty".into(),
        state: NodeState::Ready,
        persistent: true,
        approximate: false,
        progress: NodeProgress::default(),
        metadata,
    };
    assert_eq!(
        serde_json::to_string(&info).unwrap(),
        r#"{"node_id":"a","type":"pty","state":"ready","persistent":true,"metadata":{"exit":{"code":3},"pid":1,"session_id":"default"}}"#
    );
    let foreign = NodeInfo { approximate: true, ..info };
    assert_eq!(serde_json::to_value(&foreign).unwrap()["approximate"], true);
}

#[test]
fn old_fields_are_added_to_replies() {
    let with_old = |request: RequestName, data: Value| {
        let mut data = data.as_object().unwrap().clone().into();
        legacy_names::add_old_fields(request, &mut data);
        Value::Object(data.into_map())
    };
    assert_eq!(
        with_old(RequestName::ListNodes, json!({"nodes": ["a"], "nodes_info": [{"node_id": "a"}]})),
        json!({
            "nodes": ["a"], "nodes_info": [{"node_id": "a"}],
            "channels": ["a"], "channels_info": [{"node_id": "a", "id": "a"}],
        })
    );
    assert_eq!(
        with_old(RequestName::CreateNode, json!({"node_id": "a"})),
        json!({"node_id": "a", "channel_id": "a", "status": "created"})
    );
    let response = json!({"text": "hi", "sections": [], "tokens": null, "attributes": {"exit_code": 0}});
    assert_eq!(
        with_old(RequestName::ExecuteInput, json!({"response": response})),
        json!({"response": {
            "text": "hi", "raw": "hi", "sections": [], "tokens": null, "output": "hi",
            "attributes": {"exit_code": 0, "sections": [], "tokens": null},
        }})
    );
    assert_eq!(
        with_old(RequestName::StopNode, json!({"stopped": true})),
        json!({"stopped": true, "closed": true})
    );
    assert_eq!(
        with_old(RequestName::ExecuteGraph, json!({"graph_id": "g", "state": "completed"})),
        json!({"graph_id": "g", "state": "completed", "status": "completed", "dag_id": "g"})
    );
}

#[test]
fn original_events_are_those_of_the_first_protocol() {
    let names: Vec<&str> = EventType::ORIGINAL.iter().map(|event| event.as_str()).collect();
    assert_eq!(
        names,
        [
            "NODE_CREATED",
            "NODE_READY",
            "NODE_BUSY",
            "NODE_STOPPED",
            "OUTPUT_CHUNK",
            "OUTPUT_PARSED",
            "GRAPH_STARTED",
            "STEP_STARTED",
            "STEP_COMPLETED",
            "STEP_FAILED",
            "GRAPH_COMPLETED",
            "ERROR",
            "SERVER_SHUTDOWN",
        ]
    );
}
