//! The WebSocket.

use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use nerve_server::access::token::TokenFile;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::HttpServer;
use crate::harness::{DEADLINE, paths};

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
    // Pretty-printed JSON is one message too.
    socket.send(Message::text(serde_json::to_string_pretty(&line).unwrap())).await.unwrap();
}

#[tokio::test]
async fn websocket_speaks_the_line_protocol() {
    let server = HttpServer::start();
    let mut socket = with_token(&server).await;
    send(&mut socket, "CREATE_NODE", json!({ "node_id": "sh", "backend": "bash" })).await;
    // Events that led to an answer precede it.
    let first = next(&mut socket).await;
    assert_eq!((&first["type"], &first["event_type"]), (&json!("event"), &json!("NODE_CREATED")), "{first}");
    assert_eq!(reply(&mut socket).await["request_id"], "CREATE_NODE");
    send(&mut socket, "SUBSCRIBE", json!({ "types": ["NODE_STOPPED"], "since": 0 })).await;
    assert_eq!(reply(&mut socket).await["data"]["subscribed"], true);
    // All at once, answered concurrently.
    for n in 0..500 {
        let line = json!({ "command_type": "PING", "request_id": n }).to_string();
        socket.send(Message::text(line)).await.unwrap();
    }
    let mut ids = Vec::new();
    for _ in 0..500 {
        ids.push(reply(&mut socket).await["request_id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..500).collect::<Vec<u64>>());
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(reply(&mut socket).await["type"], "error");
    server.request_ok("DELETE", "/nodes/sh", Value::Null).await;
    assert_eq!(next(&mut socket).await["event_type"], "NODE_STOPPED");
    server.stop().await;
}

#[tokio::test]
async fn token_may_be_sent_as_a_subprotocol() {
    let server = HttpServer::start();
    let protocols = format!("nerve, nerve.token.{}", server.token);
    let mut socket = open(&server, &[("sec-websocket-protocol", &protocols)]).await.unwrap();
    send(&mut socket, "PING", json!({})).await;
    assert_eq!(reply(&mut socket).await["data"]["pong"], true);
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
async fn token_subprotocol_is_not_echoed_or_used_elsewhere() {
    let server = HttpServer::start();
    let upgrade_request = async |path: &str, upgrade: &str, protocols: &str| {
        server
            .raw(format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 Sec-WebSocket-Protocol: {protocols}\r\n\r\n",
                server.address
            ))
            .await
    };
    let token = format!("nerve.token.{}", server.token);
    let alone = upgrade_request("/api/events", "websocket", &token).await;
    assert_eq!((alone.status, alone.header("sec-websocket-protocol")), (101, None), "{alone:?}");
    assert!(!alone.head.contains(&server.token));
    let both = upgrade_request("/api/events", "websocket", &format!("{token}, nerve")).await;
    assert_eq!((both.status, both.header("sec-websocket-protocol")), (101, Some("nerve")), "{both:?}");
    upgrade_request("/nodes", "websocket", &token).await.problem(401, "authentication_error");
    upgrade_request("/api/events", "h2c", &token).await.problem(401, "authentication_error");
    server.stop().await;
}

#[tokio::test]
async fn broken_websockets_free_their_slots() {
    const SLOTS: usize = 10;
    let server = HttpServer::start_with(|config| config.max_connections = SLOTS);
    let mut sockets = Vec::new();
    for _ in 0..SLOTS {
        let mut socket = with_token(&server).await;
        // It stays open while silent, and without events nothing is sent to it.
        send(&mut socket, "SUBSCRIBE", json!({ "types": [] })).await;
        assert_eq!(reply(&mut socket).await["data"]["subscribed"], true);
        // More than the buffers of both sides hold, for a client that reads nothing.
        let line = json!({ "command_type": "PING", "request_id": "x".repeat(4 << 20) }).to_string();
        socket.send(Message::text(line)).await.unwrap();
        sockets.push(socket);
    }
    for socket in &sockets {
        let mut byte = [0];
        let first_byte = socket.get_ref().peek(&mut byte);
        assert_eq!(tokio::time::timeout(DEADLINE, first_byte).await.expect("no bytes received").unwrap(), 1);
    }
    assert_eq!(server.get("/nodes").await.status, 503);
    drop(sockets);
    let deadline = Instant::now() + DEADLINE;
    let mut again = Vec::new();
    while again.len() < SLOTS {
        let bearer = format!("Bearer {}", server.token);
        match open(&server, &[("authorization", &bearer)]).await {
            Ok(socket) => again.push(socket),
            Err(_) => assert!(Instant::now() < deadline, "only {} slots are free", again.len()),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn oversized_message_ends_only_its_websocket() {
    let server = HttpServer::start();
    let mut good = with_token(&server).await;
    let mut bad = with_token(&server).await;
    let big = Message::text("x".repeat(17 << 20));
    tokio::time::timeout(DEADLINE, bad.send(big)).await.expect("send timed out").unwrap();
    let end = loop {
        match tokio::time::timeout(DEADLINE, bad.next()).await.expect("no end") {
            Some(Ok(Message::Close(frame))) => break frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break None,
        }
    };
    // The server reads to the end, so that the close frame is not lost.
    assert_eq!(end, Some(CloseCode::Size));
    send(&mut good, "PING", json!({})).await;
    assert_eq!(reply(&mut good).await["data"]["pong"], true);
    // A message within the limit is accepted.
    let line = json!({ "command_type": "PING", "params": { "x": "x".repeat(15 << 20) } }).to_string();
    good.send(Message::text(line)).await.unwrap();
    assert_eq!(reply(&mut good).await["data"]["pong"], true);
    server.stop().await;
}

#[tokio::test]
async fn shutdown_closes_websockets_after_last_answer() {
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
    server.wait_for_exit().await;
}

#[tokio::test]
async fn token_change_closes_websocket_with_error() {
    let server = HttpServer::start();
    let mut socket = with_token(&server).await;
    send(&mut socket, "PING", json!({})).await;
    assert_eq!(reply(&mut socket).await["data"]["pong"], true);
    let file = TokenFile::new(paths(server.home()).token());
    file.rotate().unwrap();
    let message = reply(&mut socket).await;
    assert!(message["error"].as_str().unwrap().contains("token was changed"), "{message}");
    let end = tokio::time::timeout(DEADLINE, socket.next()).await.expect("no end");
    assert!(matches!(end, Some(Ok(Message::Close(_)))), "{end:?}");
    server.stop().await;
}
