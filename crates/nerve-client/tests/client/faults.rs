use std::time::Duration;

use nerve_api::RequestName;
use nerve_api::framing::MAX_LINE_BYTES;
use nerve_api::value::NodeState;
use nerve_client::{ClientError, NerveClient};
use serde_json::json;
use tokio::net::UnixListener;

use super::{connected_client, socket, wait_until};

#[tokio::test]
async fn missing_server_is_reported_with_path_and_hint() {
    let (_folder, path) = socket();
    // First without a socket, then with one that a server has left behind.
    for _ in 0..2 {
        let error = NerveClient::connect(&path).await.unwrap_err();
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains(path.to_str().unwrap()) && message.contains("nerve server start"),
            "{message}"
        );
        if !path.exists() {
            drop(UnixListener::bind(&path).unwrap());
        }
    }
}

#[tokio::test]
async fn invalid_socket_path_is_an_io_error() {
    let (folder, _) = socket();
    let error = NerveClient::connect(&folder.path().join("x".repeat(200))).await.unwrap_err();
    assert!(matches!(error, ClientError::Io { .. }), "{error}");
}

#[tokio::test]
async fn lost_server_fails_all_pending_requests() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        for _ in 0..3 {
            peer.request().await;
        }
        // In the middle of an answer.
        peer.send_raw(b"{\"type\":\"result\",\"succ").await;
        drop(peer);
    };
    let (a, b, c, ()) = tokio::join!(client.ping(), client.ping(), client.sessions(), server);
    for error in [a.unwrap_err(), b.unwrap_err(), c.unwrap_err()] {
        assert!(matches!(error, ClientError::Closed(_)), "{error}");
    }
    assert_eq!(client.in_flight(), 0);
    // Later requests fail too.
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, ClientError::Closed(_)), "{error}");
    assert!(client.events().next().await.is_none());
}

#[tokio::test]
async fn invalid_data_ends_the_connection() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\n"[..],
        b"[1]\n",
        b"\xff\xfe\n",
        b"{\"type\":\"result\",\"success\":\"maybe\"}\n",
    ] {
        let (client, mut peer) = connected_client().await;
        let server = async {
            peer.request().await;
            peer.send_raw(garbage).await;
        };
        let (answer, ()) = tokio::join!(client.ping(), server);
        let error = answer.unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{garbage:?}: {error}");
        assert!(matches!(client.ping().await.unwrap_err(), ClientError::Protocol(_)));
    }
}

#[tokio::test]
async fn unknown_messages_and_answers_are_ignored() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        let request = peer.request().await;
        peer.send(json!({"type": "progress", "percent": 5})).await;
        peer.send(json!({"type": "result", "success": true, "data": null, "request_id": "not ours"})).await;
        peer.send(json!({"type": "result", "success": true, "data": null, "request_id": 99})).await;
        peer.send(json!({"type": "result", "success": true, "data": null})).await;
        peer.send(json!({"type": "error", "error": "what?", "request_id": "77"})).await;
        peer.answer(&request, json!({"pong": true})).await;
    };
    let (answer, ()) = tokio::join!(client.ping(), server);
    assert!(answer.unwrap().pong);
    assert_eq!(client.unmatched_replies(), 4);
}

#[tokio::test]
async fn error_without_request_id_fails_all_pending_requests() {
    let (client, mut peer) = connected_client().await;
    let server = async {
        peer.request().await;
        peer.request().await;
        let refusal = json!({
            "type": "error", "error": "line of 17000000 bytes refused", "error_type": "too_large", "request_id": null,
        });
        peer.send(refusal).await;
        let request = peer.request().await;
        peer.answer(&request, json!({"pong": true})).await;
    };
    let client_side = async {
        let (a, b) = tokio::join!(client.ping(), client.ping());
        assert!(a.unwrap_err().to_string().contains("refused"));
        assert_eq!(b.unwrap_err().server().unwrap().details.error_type.as_str(), "too_large");
        assert!(client.ping().await.unwrap().pong);
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn oversized_request_is_not_sent() {
    let (client, mut peer) = connected_client().await;
    let huge = json!({"text": "x".repeat(MAX_LINE_BYTES)});
    let error = client.request_by_name(RequestName::ExecuteInput, huge).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Protocol(_)) && error.to_string().contains("EXECUTE_INPUT"),
        "{error}"
    );
    assert_eq!(client.in_flight(), 0);
    let (answer, ()) = tokio::join!(client.ping(), async {
        peer.expect("PING", json!({}), json!({"pong": true})).await;
    });
    assert!(answer.unwrap().pong);
}

#[tokio::test]
async fn dropped_request_leaves_no_state() {
    let (client, mut peer) = connected_client().await;
    let timed_out = tokio::time::timeout(Duration::from_millis(10), client.ping()).await;
    assert!(timed_out.is_err());
    assert_eq!(client.in_flight(), 0);
    let server = async {
        let dropped_request = peer.request().await;
        peer.answer(&dropped_request, json!({"pong": false})).await;
        let request = peer.request().await;
        peer.answer(&request, json!({"pong": true})).await;
    };
    let (answer, ()) = tokio::join!(client.ping(), server);
    assert!(answer.unwrap().pong);
    // A late answer to a dropped request is not unmatched.
    assert_eq!(client.unmatched_replies(), 0);
}

#[tokio::test]
async fn requests_dropped_during_stall_leave_lines_complete() {
    let (client, mut peer) = connected_client().await;
    // More than socket and queue hold; the requests are dropped halfway.
    let text = "x".repeat(100_000);
    let many = async {
        for number in 0..200 {
            let params = json!({"number": number, "text": text});
            let _ = tokio::time::timeout(
                Duration::from_micros(200),
                client.request_by_name(RequestName::Ping, params),
            )
            .await;
        }
    };
    many.await;
    assert_eq!(client.in_flight(), 0);
    let server = async {
        loop {
            // Parsing fails unless each line is a complete request.
            let request = peer.request().await;
            if request["command_type"] == "LIST_SESSIONS" {
                peer.answer(&request, json!({"sessions": []})).await;
                break;
            }
            assert_eq!(request["params"]["text"].as_str().unwrap().len(), 100_000);
        }
    };
    let (answer, ()) = tokio::join!(client.sessions(), server);
    assert!(answer.unwrap().is_empty());
}

#[tokio::test]
async fn dropped_client_closes_its_connection() {
    let (client, mut peer) = connected_client().await;
    let copy = client.clone();
    let node = client.node("a", None);
    drop((client, copy));
    let (state, ()) = tokio::join!(node.wait(&[NodeState::Ready], None), async {
        peer.expect("WAIT_NODE", json!({"node_id": "a", "until": ["ready"]}), json!({"state": "ready"}))
            .await;
    });
    assert_eq!(state.unwrap(), NodeState::Ready);
    drop(node);
    let frame = peer.lines.next().await.unwrap();
    assert_eq!(frame, nerve_api::framing::Frame::Eof { partial: vec![] });
}

#[tokio::test]
async fn stalled_server_blocks_only_the_caller() {
    let (client, mut peer) = connected_client().await;
    let blocked_request = {
        let client = client.clone();
        tokio::spawn(async move {
            let text = "x".repeat(8 << 20);
            client.request_by_name(RequestName::Ping, json!({ "text": text })).await
        })
    };
    wait_until("request in flight", || client.in_flight() == 1).await;
    peer.send_chunk("a", json!({"chunk": "first"})).await;
    let mut events = client.events();
    peer.send_chunk("a", json!({"chunk": "second"})).await;
    let event = tokio::time::timeout(Duration::from_secs(60), events.next()).await.unwrap().unwrap();
    assert_eq!(event.node_id.as_deref(), Some("a"));
    blocked_request.abort();
    assert!(blocked_request.await.unwrap_err().is_cancelled());
    assert_eq!(client.in_flight(), 0);
}
