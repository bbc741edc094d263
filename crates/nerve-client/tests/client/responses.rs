use std::time::Duration;

use nerve_api::RequestName;
use nerve_api::request::{CreateNode, CreateSession, ExecuteInput, GetHistory, NodeChoice};
use nerve_api::value::{Delivery, NodeState, ParserKind};
use nerve_client::ClientError;
use serde_json::{Value, json};

use super::connected_client;

#[tokio::test]
async fn answers_arrive_in_any_order_and_in_pieces() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let mut requests = Vec::new();
        for _ in 0..50 {
            requests.push(peer.request().await);
        }
        requests.reverse();
        let mut bytes = Vec::new();
        for request in requests {
            let reply = json!({"type": "result", "success": true, "data": request["params"]["number"], "request_id": request["request_id"]});
            bytes.extend_from_slice(format!("{reply}\r\n\n").as_bytes());
        }
        for piece in bytes.chunks(7) {
            peer.send_raw(piece).await;
            tokio::task::yield_now().await;
        }
        peer
    };
    let client_side = async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..50 {
            let client = client.clone();
            tasks.spawn(async move {
                let answer =
                    client.request_by_name(RequestName::Ping, json!({ "number": number })).await.unwrap();
                assert_eq!(answer, json!(number));
            });
        }
        tasks.join_all().await;
    };
    let (_peer, ()) = tokio::join!(server, client_side);
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test]
async fn failure_carries_all_details() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        peer.send(json!({"type": "result", "success": false, "error": "node 'a' asks something first", "request_id": request["request_id"],
            "data": {"error_type": "blocked", "hint": "nerve answer", "screen": "1. Yes", "choices": ["Yes", "No"], "delivery": "unknown"}}))
            .await;
        let request = peer.request().await;
        peer.send(
            json!({"type": "result", "success": false, "data": null, "request_id": request["request_id"]}),
        )
        .await;
        let request = peer.request().await;
        peer.send(json!({"type": "error", "error": "bad request", "request_id": request["request_id"]}))
            .await;
    };
    let client_side = async {
        let node = client.node("a", None);
        let error = node.execute("hi").await.unwrap_err();
        assert_eq!(error.to_string(), "node 'a' asks something first (nerve answer)");
        let server = &error.server().unwrap().details;
        assert_eq!((server.error_type.as_str(), server.screen.as_deref()), ("blocked", Some("1. Yes")));
        assert_eq!((server.choices.len(), server.delivery), (2, Some(Delivery::Unknown)));
        assert_eq!(
            (error.request_id(), error.server().unwrap().request_id.as_deref()),
            (Some("1"), Some("1"))
        );
        let error = client.ping().await.unwrap_err();
        assert_eq!(error.to_string(), "the server gave no reason");
        let error = client.ping().await.unwrap_err();
        assert_eq!(error.server().unwrap().message, "bad request");
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn helpers_send_expected_commands() {
    let (client, mut peer) = connected_client().await;
    let at = |more: Value| {
        let mut params = json!({"node_id": "a", "session_id": "work"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let info = json!({"node_id": "a", "type": "pty", "state": "ready", "persistent": true, "metadata": {"pid": "7"}});
    let data = json!({"node_id": "a", "type": "pty", "state": "ready", "persistent": true, "metadata": {"pid": "7"}});
    let server = async {
        peer.expect("PING", json!({}), json!({"pong": true, "nodes": 2, "version": "1"})).await;
        peer.expect(
            "CREATE_NODE",
            at(json!({"backend": "pty", "history": true, "record": true, "ready_timeout": 60.0, "response_timeout": 1800.0})),
            json!({"node_id": "a"}),
        )
        .await;
        peer.expect("GET_NODE", at(json!({})), data.clone()).await;
        peer.expect("LIST_NODES", json!({}), json!({"nodes": ["a"], "nodes_info": [info]})).await;
        peer.expect(
            "EXECUTE_INPUT",
            at(json!({"text": "hi", "parser": "none", "stream": false, "timeout": 2.5, "fail_if_busy": true, "detach_on_timeout": true})),
            json!({"response": {"text": "hello"}, "node_id": "a", "turn": 3}),
        )
        .await;
        peer.expect("WRITE_DATA", at(json!({"data": "\u{1b}[A"})), json!({"written": 3})).await;
        peer.expect("RUN_COMMAND", at(json!({"command": "ls"})), json!({"executed": true})).await;
        peer.expect("GET_BUFFER", at(json!({"lines": 5})), json!({"buffer": "text"})).await;
        peer.expect("CLEAR_BUFFER", at(json!({})), json!({})).await;
        peer.expect("SEND_INTERRUPT", at(json!({})), json!({"interrupted": true})).await;
        peer.expect("RESIZE_NODE", at(json!({"cols": 80, "rows": 24})), json!(null)).await;
        peer.expect(
            "WAIT_NODE",
            at(json!({"until": ["ready", "blocked"], "timeout": 1.0})),
            json!({"state": "blocked"}),
        )
        .await;
        peer.expect(
            "GET_HISTORY",
            at(json!({"last": 1, "inputs_only": false})),
            json!({"node_id": "a", "entries": [{"seq": 1}], "total": 1}),
        )
        .await;
        peer.expect(
            "EXPLAIN_NODE",
            at(json!({})),
            json!({"node_id": "a", "state": "busy", "evidence": "spinner", "source": "screen", "offset": 9, "turn": {"turn": 3, "delivery": "started"}}),
        )
        .await;
        peer.expect("ANSWER_NODE", at(json!({"choice": 2, "cancel": false, "wait": false})), json!(null))
            .await;
        peer.expect("ANSWER_NODE", at(json!({"cancel": true, "wait": false})), json!(null)).await;
        peer.expect("STOP_NODE", at(json!({})), json!({"stopped": true})).await;
        peer.expect(
            "CREATE_SESSION",
            json!({"name": "work", "description": "", "tags": []}),
            json!({"name": "work"}),
        )
        .await;
        peer.expect("GET_SESSION", json!({"name": "work"}), json!({"name": "work", "nodes": ["a"]})).await;
        peer.expect("LIST_SESSIONS", json!({}), json!({"sessions": [{"name": "work"}]})).await;
        peer.expect("DELETE_SESSION", json!({"name": "work"}), json!({})).await;
        peer.expect("SHUTDOWN", json!({"keep_nodes": true}), json!({"stopped": true})).await;
    };
    let client_side = async {
        let pong = client.ping().await.unwrap();
        assert_eq!((pong.nodes, pong.version.as_str()), (2, "1"));
        let mut params = CreateNode::new("a");
        params.session_id = Some("work".into());
        let node = client.create_node(&params).await.unwrap();
        assert_eq!((node.id(), node.session()), ("a", Some("work")));
        assert_eq!(node.info().await.unwrap().metadata.display("pid"), "7");
        assert_eq!(client.list_nodes(None).await.unwrap()[0].node_id, "a");
        let input = ExecuteInput {
            parser: Some(ParserKind::None),
            timeout: Some(Duration::from_millis(2_500).into()),
            fail_if_busy: true,
            detach_on_timeout: true,
            ..ExecuteInput::new("not looked at", "hi")
        };
        let answer = node.execute(input).await.unwrap();
        assert_eq!((answer.response.text.as_str(), answer.turn), ("hello", 3));
        assert_eq!(node.write("\u{1b}[A").await.unwrap(), 3);
        node.run("ls").await.unwrap();
        assert_eq!(node.read(Some(5)).await.unwrap(), "text");
        node.clear_buffer().await.unwrap();
        node.interrupt().await.unwrap();
        node.resize(80, 24).await.unwrap();
        let state =
            node.wait(&[NodeState::Ready, NodeState::Blocked], Some(Duration::from_secs(1))).await.unwrap();
        assert_eq!(state, NodeState::Blocked);
        let filter = GetHistory { node_id: "not looked at".into(), last: Some(1), ..GetHistory::default() };
        assert_eq!(node.history(&filter).await.unwrap().total, 1);
        assert_eq!(node.explain().await.unwrap().turn.unwrap().delivery, Delivery::Started);
        node.answer(NodeChoice::Number(2)).await.unwrap();
        node.cancel_dialog().await.unwrap();
        node.stop().await.unwrap();
        let params = CreateSession { name: "work".into(), ..CreateSession::default() };
        assert_eq!(client.create_session(&params).await.unwrap().name, "work");
        assert_eq!(client.session(Some("work")).await.unwrap().nodes, ["a"]);
        assert_eq!(client.sessions().await.unwrap().len(), 1);
        client.delete_session("work").await.unwrap();
        client.shutdown(true).await.unwrap();
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn missing_node_is_an_error() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        peer.send(json!({"type": "result", "success": false, "error": "no node 'x'", "data": {"error_type": "not_found_error"}, "request_id": request["request_id"]}))
            .await;
    };
    let (error, ()) = tokio::join!(client.get_node("x", None), server);
    assert_eq!(error.unwrap_err().server().unwrap().details.error_type.as_str(), "not_found_error");
}

#[tokio::test]
async fn each_warning_is_collected_once() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        for _ in 0..3 {
            let request = peer.request().await;
            peer.send(json!({"type": "result", "success": true, "data": {"pong": true}, "request_id": request["request_id"], "warnings": ["STOP is deprecated, use SHUTDOWN"]}))
                .await;
        }
    };
    let client_side = async {
        client.ping().await.unwrap();
        client.ping().await.unwrap();
        assert_eq!(client.take_warnings(), ["STOP is deprecated, use SHUTDOWN"]);
        assert!(client.take_warnings().is_empty());
        client.ping().await.unwrap();
        assert_eq!(client.take_warnings().len(), 1);
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn unexpected_result_type_and_invalid_params_are_errors() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        peer.answer(&request, json!({"pong": "yes"})).await;
    };
    let (error, ()) = tokio::join!(client.ping(), server);
    let error = error.unwrap_err();
    assert!(
        matches!(error, ClientError::Protocol(_)) && error.to_string().contains("pong")
            || error.to_string().contains("boolean"),
        "{error}"
    );
    let error = client.request_by_name(RequestName::Ping, json!([1])).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
}
