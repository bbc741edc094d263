//! The client over HTTP, against a nerve server, a server that refuses, and anything else.

use futures_util::{SinkExt, StreamExt};
use nerve_api::framing::MAX_LINE_BYTES;
use nerve_client::{ClientError, NerveClient, Reconnect, Tls};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

const TOKEN: &str = "t0ken";

type Socket = WebSocketStream<TcpStream>;

async fn bind_listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Accepts a WebSocket as the server.
async fn accept_websocket(listener: &TcpListener) -> Socket {
    let (stream, _) = listener.accept().await.unwrap();
    #[expect(clippy::result_large_err, reason = "the callback is the library's")]
    let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        assert_eq!(request.uri().path(), "/api/events");
        assert_eq!(request.headers()["authorization"], format!("Bearer {TOKEN}"));
        let host = request.headers()["host"].to_str().unwrap();
        assert!(host.starts_with("127.0.0.1:"), "{host}");
        Ok(response)
    };
    accept_hdr_async(stream, check).await.unwrap()
}

async fn read_request(socket: &mut Socket) -> Value {
    match socket.next().await.unwrap().unwrap() {
        Message::Text(text) => serde_json::from_str(text.as_str()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn answer(request: &Value, data: Value) -> Message {
    let answer =
        json!({"type": "result", "success": true, "data": data, "request_id": request["request_id"]});
    Message::text(answer.to_string())
}

/// Returns the client's error for this response to the upgrade.
async fn connect_error(answer: &str) -> ClientError {
    let (listener, url) = bind_listener().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let (client, ()) = tokio::join!(NerveClient::connect_http(&url, TOKEN, &Tls::Off), server);
    client.unwrap_err()
}

#[tokio::test]
async fn one_websocket_carries_requests_answers_and_events() {
    let (listener, url) = bind_listener().await;
    let url = format!("{url}/");
    let (client, mut socket) =
        tokio::join!(NerveClient::connect_http(&url, TOKEN, &Tls::Off), accept_websocket(&listener));
    let client = client.unwrap();
    let mut events = client.events();
    let text = "ü".repeat(1 << 20);
    let server = async {
        let subscribe = read_request(&mut socket).await;
        assert_eq!(subscribe["command_type"], "SUBSCRIBE");
        socket.send(answer(&subscribe, json!({"subscribed": true, "seq": 0}))).await.unwrap();
        let first = read_request(&mut socket).await;
        assert_eq!(first["params"]["text"].as_str().map(str::len), Some(2 << 20));
        let second = read_request(&mut socket).await;
        socket.send(Message::Ping(b"there?".as_slice().into())).await.unwrap();
        let event =
            json!({"type": "event", "event_type": "NODE_READY", "node_id": "a", "data": {}, "seq": 3});
        socket.send(Message::text(event.to_string())).await.unwrap();
        socket.send(answer(&second, json!({"pong": true}))).await.unwrap();
        socket.send(answer(&first, json!("done"))).await.unwrap();
        // The client answers pings even when idle.
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(b"there?".as_slice().into()));
        socket
    };
    let client_side = async {
        let first = client.request_by_name(nerve_api::RequestName::WriteData, json!({ "text": text }));
        let (first, second) = tokio::join!(first, client.ping());
        assert_eq!((first.unwrap(), second.unwrap().pong), (json!("done"), true));
        assert_eq!(events.next().await.unwrap().seq, 3);
    };
    let (mut socket, ()) = tokio::join!(server, client_side);
    drop((client, events));
    assert!(socket.next().await.is_none_or(|message| message.is_err()));
}

#[tokio::test]
async fn longest_answer_is_accepted_and_longer_one_ends_connection() {
    let (listener, url) = bind_listener().await;
    let (client, mut socket) =
        tokio::join!(NerveClient::connect_http(&url, TOKEN, &Tls::Off), accept_websocket(&listener));
    let client = client.unwrap();
    let server = async {
        for longer in [0, 1] {
            let request = read_request(&mut socket).await;
            let short = answer(&request, json!("")).len();
            let filled = answer(&request, json!("x".repeat(MAX_LINE_BYTES - short + longer)));
            assert_eq!(filled.len(), MAX_LINE_BYTES + longer);
            // The client may close before all of it is sent.
            let _ = socket.send(filled).await;
        }
    };
    let client_side = async {
        let get_buffer = || client.request_by_name(nerve_api::RequestName::GetBuffer, json!({}));
        assert!(get_buffer().await.unwrap().as_str().unwrap().len() > MAX_LINE_BYTES - 1000);
        let error = get_buffer().await.unwrap_err();
        assert!(matches!(&error, ClientError::Protocol(what) if what.contains("over 16777216")), "{error}");
        // The peer is no nerve server: the client does not reconnect.
        assert!(matches!(get_buffer().await.unwrap_err(), ClientError::Protocol(_)));
    };
    tokio::join!(server, client_side);
}

#[tokio::test]
async fn refusal_is_reported_by_kind_and_message() {
    let problem = |status: &str, detail: &str| {
        let body = json!({"title": "No", "detail": detail, "hint": "do this"}).to_string();
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    for (status, kind) in [
        ("401 Unauthorized", "authentication_error"),
        ("403 Forbidden", "permission_error"),
        ("404 Not Found", "not_found_error"),
        ("503 Service Unavailable", "busy"),
    ] {
        let bare = connect_error(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).await;
        assert_eq!(bare.server().unwrap().details.error_type.as_str(), kind, "{bare}");
        let detailed = connect_error(&problem(status, "not you")).await;
        let server = detailed.server().unwrap();
        assert_eq!(server.details.error_type.as_str(), kind);
        assert!(!detailed.to_string().contains(TOKEN));
    }
}

#[tokio::test]
async fn other_servers_are_reported() {
    for (answer, reason) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP 200"),
        ("HTTP/1.1 301 Moved\r\nLocation: http://elsewhere\r\n\r\n", "HTTP 301"),
        ("HTTP/1.1 500 Oh\r\n\r\n", "HTTP 500"),
        ("220 mail.example.com ESMTP\r\n\r\n", "not a nerve server"),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            "not a nerve server",
        ),
    ] {
        let error = connect_error(answer).await;
        assert!(
            matches!(&error, ClientError::Protocol(what) if what.contains(reason)),
            "{answer:?}: {error}"
        );
    }
    // A response that ends early may come from a server that is shutting down.
    for answer in ["", "HTTP/1.1 101 Switching"] {
        let error = connect_error(answer).await;
        assert!(matches!(error, ClientError::Io { .. }), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn missing_server_and_invalid_url_are_reported() {
    let (listener, url) = bind_listener().await;
    drop(listener);
    let error = NerveClient::connect_http(&url, TOKEN, &Tls::Off).await.unwrap_err();
    let ClientError::Io { action, source } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(url.ends_with(action.strip_prefix("cannot connect to ").unwrap()), "{action}");
    for (url, tls, token) in [
        ("localhost:1", &Tls::Off, TOKEN),
        ("http://localhost/x", &Tls::Off, TOKEN),
        ("https://localhost", &Tls::Off, TOKEN),
        ("http://localhost", &Tls::Public, TOKEN),
    ] {
        let error = NerveClient::connect_http(url, token, tls).await.unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{url}: {error}");
    }
    let (_listener, url) = bind_listener().await;
    let error = NerveClient::connect_http(&url, "a\r\nb", &Tls::Off).await.unwrap_err();
    assert!(matches!(&error, ClientError::Protocol(what) if what.contains("token")), "{error}");
}

#[tokio::test]
async fn client_reconnects_and_authenticates_again() {
    let (listener, url) = bind_listener().await;
    let (client, mut socket) =
        tokio::join!(NerveClient::connect_http(&url, TOKEN, &Tls::Off), accept_websocket(&listener));
    let client = client.unwrap();
    let server = async {
        let request = read_request(&mut socket).await;
        socket.send(answer(&request, json!({"pong": true}))).await.unwrap();
        // A server that shuts down sends a close frame; one that is killed does not.
        socket.close(None).await.unwrap();
        drop(socket);
        let mut socket = accept_websocket(&listener).await;
        read_request(&mut socket).await;
        drop(socket);
        let mut socket = accept_websocket(&listener).await;
        let request = read_request(&mut socket).await;
        socket.send(answer(&request, json!({"pong": true}))).await.unwrap();
        socket
    };
    let client_side = async {
        assert!(client.ping().await.unwrap().pong);
        assert!(client.ping().await.unwrap().pong);
    };
    let (socket, ()) = tokio::join!(server, client_side);
    let client = client.reconnect(Reconnect::Never);
    drop(socket);
    let error = client.ping().await.unwrap_err();
    assert!(matches!(error, ClientError::Closed(_)), "{error}");
}
