//! The WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::HttpServer;
use crate::harness::DEADLINE;

type Socket = WebSocketStream<TcpStream>;

async fn open(server: &HttpServer, headers: &[(&'static str, &str)]) -> Result<Socket, Error> {
    let mut request = format!("ws://{}/api/events", server.address).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(server.address).await.unwrap();
    tokio_tungstenite::client_async(request, stream).await.map(|(socket, _)| socket)
}

async fn with_token(server: &HttpServer) -> Socket {
    open(server, &[("authorization", &format!("Bearer {}", server.token))]).await.unwrap()
}

async fn next(socket: &mut Socket) -> Value {
    loop {
        match tokio::time::timeout(DEADLINE, socket.next()).await.expect("no message").unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn reply(socket: &mut Socket) -> Value {
    loop {
        let message = next(socket).await;
        if message["type"] != "event" {
            return message;
        }
    }
}

async fn send(socket: &mut Socket, command: &str, params: Value) {
    let line = json!({ "type": "command", "command_type": command, "params": params, "request_id": command });
    // On many lines: it is one message all the same.
    socket.send(Message::text(serde_json::to_string_pretty(&line).unwrap())).await.unwrap();
}

#[tokio::test]
async fn a_websocket_is_a_connection_of_the_wire() {
    let server = HttpServer::start();
    let mut socket = with_token(&server).await;
    send(&mut socket, "CREATE_NODE", json!({ "node_id": "sh", "backend": "bash" })).await;
    // Events that led to an answer come before it.
    let first = next(&mut socket).await;
    assert_eq!((&first["type"], &first["event_type"]), (&json!("event"), &json!("NODE_CREATED")), "{first}");
    assert_eq!(reply(&mut socket).await["request_id"], "CREATE_NODE");
    send(&mut socket, "SUBSCRIBE", json!({ "types": ["NODE_STOPPED"], "since": 0 })).await;
    assert_eq!(reply(&mut socket).await["data"]["subscribed"], true);
    // All at once, answered side by side.
    for n in 0..500 {
        let line = json!({ "command_type": "PING", "request_id": n }).to_string();
        socket.send(Message::text(line)).await.unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..500 {
        seen.push(reply(&mut socket).await["request_id"].as_u64().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<u64>>());
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(reply(&mut socket).await["type"], "error");
    server.done("DELETE", "/nodes/sh", Value::Null).await;
    assert_eq!(next(&mut socket).await["event_type"], "NODE_STOPPED");
    server.stop().await;
}

#[tokio::test]
async fn a_page_shows_the_token_as_a_protocol_and_nobody_comes_in_without() {
    let server = HttpServer::start();
    let protocols = format!("nerve, nerve.token.{}", server.token);
    let mut socket = open(&server, &[("sec-websocket-protocol", &protocols)]).await.unwrap();
    send(&mut socket, "PING", json!({})).await;
    assert_eq!(reply(&mut socket).await["data"]["pong"], true);
    let alone = format!("nerve.token.{}", server.token);
    assert!(open(&server, &[("sec-websocket-protocol", &alone)]).await.is_ok());
    let bearer = format!("Bearer {}", server.token);
    let foreign = [("authorization", bearer.as_str()), ("origin", "http://evil.example")];
    for (headers, status) in [
        (&[][..], 401),
        (&[("sec-websocket-protocol", "nerve, nerve.token.wrong")][..], 401),
        (&foreign[..], 403),
        (&[("authorization", bearer.as_str()), ("host", "evil.example")][..], 403),
    ] {
        match open(&server, headers).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), status, "{headers:?}"),
            other => panic!("{headers:?}: {other:?}"),
        }
    }
    let plain = server.get("/api/events").await.problem(400, "invalid_request_error");
    assert!(plain.contains("/events"), "{plain}");
    server.stop().await;
}

#[tokio::test]
async fn a_message_over_the_limit_ends_its_socket_and_no_other() {
    let server = HttpServer::start();
    let mut good = with_token(&server).await;
    let mut bad = with_token(&server).await;
    let big = Message::text("x".repeat(17 << 20));
    // The server may close before all of it is sent.
    let _ = tokio::time::timeout(DEADLINE, bad.send(big)).await.expect("nobody reads");
    let end = loop {
        match tokio::time::timeout(DEADLINE, bad.next()).await.expect("no end") {
            Some(Ok(Message::Close(frame))) => break frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break None,
        }
    };
    assert!(end.is_none_or(|code| code == CloseCode::Size), "{end:?}");
    send(&mut good, "PING", json!({})).await;
    assert_eq!(reply(&mut good).await["data"]["pong"], true);
    // What fits is taken.
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(15 << 20) } }).to_string();
    good.send(Message::text(line)).await.unwrap();
    assert_eq!(reply(&mut good).await["data"]["pong"], true);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_goes_down_closes_its_sockets_after_the_last_answer() {
    let server = HttpServer::start();
    let mut socket = with_token(&server).await;
    let mut other = with_token(&server).await;
    send(&mut socket, "SHUTDOWN", json!({})).await;
    assert_eq!(reply(&mut socket).await["data"]["stopped"], true);
    for socket in [&mut socket, &mut other] {
        let mut kinds = Vec::new();
        loop {
            match tokio::time::timeout(DEADLINE, socket.next()).await.expect("no end") {
                Some(Ok(Message::Text(text))) => kinds.push(text.to_string()),
                Some(Ok(Message::Close(frame))) => {
                    assert_eq!(frame.unwrap().code, CloseCode::Away);
                    break;
                }
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(kinds.iter().any(|line| line.contains("SERVER_SHUTDOWN")), "{kinds:?}");
    }
    server.ended().await;
}
