//! Authentication over TCP, and the effect of unauthenticated clients on others.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Client, DEADLINE, TcpServer};

/// Sends a first line and returns everything until the connection is closed.
async fn send_first_line(address: SocketAddr, line: &[u8]) -> Vec<Value> {
    let mut client = Client::tcp(address).await;
    client.send_raw(line).await;
    let mut lines = Vec::new();
    while let Some(line) = client.line().await {
        lines.push(line);
    }
    lines
}

/// Sends bytes, closes this half of the connection, and returns everything until the server closes the other one.
async fn send_and_end(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut received = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut received))
        .await
        .expect("connection was not closed")
        .unwrap();
    received
}

fn auth_line(token: &Value) -> Vec<u8> {
    json!({ "type": "command", "command_type": "AUTHENTICATE", "params": { "token": token }, "request_id": "a" })
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn invalid_token_gets_one_error_and_is_disconnected() {
    let server = TcpServer::start();
    let token = server.token();
    let longer = format!("{token}0");
    for given in [
        json!("wrong"),
        json!(token[1..]),
        json!(token[..token.len() - 1]),
        json!(longer),
        json!(""),
        json!(null),
    ] {
        let lines = send_first_line(server.tcp(), &auth_line(&given)).await;
        assert_eq!(lines.len(), 1, "{given}: {lines:?}");
        assert_eq!(lines[0]["request_id"], "a");
        assert_eq!(lines[0]["success"], false);
        assert_eq!(lines[0]["data"]["error_type"], "authentication_error", "{given}: {lines:?}");
    }
    server.client().await.request_ok("PING", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn first_line_must_be_an_authentication_request() {
    let server = TcpServer::start();
    let mut authenticated = server.client().await;
    let command = json!({ "type": "command", "command_type": "CREATE_NODE", "request_id": "c",
        "params": { "node_id": "x", "backend": "bash" } });
    let lines = send_first_line(server.tcp(), command.to_string().as_bytes()).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["data"]["error_type"], "authentication_error");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(1500), "]".repeat(1500));
    for line in
        [&b"hello"[..], b"[1]", b"{}", b"\xff\xfe", b"GET / HTTP/1.1", deep.as_bytes(), &auth_line(&json!(5))]
    {
        let lines = send_first_line(server.tcp(), line).await;
        assert_eq!(lines.len(), 1, "{}: {lines:?}", String::from_utf8_lossy(line));
        assert!(lines[0]["error"].is_string(), "{lines:?}");
    }
    // A wrong token followed by a command.
    let both = [auth_line(&json!("wrong")), b"\n".to_vec(), command.to_string().into_bytes()].concat();
    assert_eq!(send_first_line(server.tcp(), &both).await.len(), 1);
    assert_eq!(authenticated.request_ok("LIST_NODES", json!({})).await["nodes"], json!([]));
    // Unauthenticated clients receive no events.
    let mut unauthenticated = Client::tcp(server.tcp()).await;
    authenticated.request_ok("CREATE_NODE", json!({ "node_id": "y", "backend": "bash" })).await;
    unauthenticated.send_raw(auth_line(&json!(server.token()))).await;
    assert_eq!(unauthenticated.line().await.unwrap()["data"]["authenticated"], true);
    server.stop().await;
}

#[tokio::test]
async fn oversized_first_line_is_not_read_completely() {
    let server = TcpServer::start();
    for size in [4097, 17 * 1024 * 1024] {
        let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
        // The server may close before all of it is sent.
        let _ = stream.write_all(&vec![b'x'; size]).await;
        let mut received = Vec::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut received))
            .await
            .expect("server kept reading");
        if size < 10_000 {
            read.unwrap();
            assert!(String::from_utf8_lossy(&received).contains("4096"), "{received:?}");
        }
    }
    server.client().await.request_ok("PING", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn incomplete_first_line_times_out_after_ten_seconds() {
    let server = TcpServer::start();
    let mut partial = TcpStream::connect(server.tcp()).await.unwrap();
    partial.write_all(b"{\"command_type\":\"AUTH").await.unwrap();
    let mut silent = Client::tcp(server.tcp()).await;
    server.client().await.request_ok("PING", json!({})).await;
    let start = Instant::now();
    let mut received = String::new();
    partial.read_to_string(&mut received).await.unwrap();
    assert!(received.contains("no AUTHENTICATE within 10 s"), "{received}");
    assert!(start.elapsed() > Duration::from_secs(8), "{:?}", start.elapsed());
    assert!(silent.line().await.unwrap()["error"].as_str().unwrap().contains("10 s"));
    assert_eq!(silent.line().await, None);
    server.stop().await;
}

#[tokio::test]
async fn first_line_may_lack_its_newline() {
    let server = TcpServer::start();
    let right = json!({ "command_type": "AUTHENTICATE", "params": { "token": server.token() } });
    let wrong = json!({ "command_type": "AUTHENTICATE", "params": { "token": "wrong" } });
    for (line, word) in
        [(right.to_string(), "authenticated"), (wrong.to_string(), "wrong"), ("{".into(), "error")]
    {
        let received = send_and_end(server.tcp(), line.as_bytes()).await;
        assert!(received.contains(word) && received.lines().count() == 1, "{received:?}");
    }
    // A client that sends nothing gets no answer.
    assert_eq!(send_and_end(server.tcp(), b"\r\n").await, "");
    server.stop().await;
}

#[tokio::test]
async fn token_change_disconnects_old_clients() {
    let server = TcpServer::start();
    let mut authenticated = server.client().await;
    let old = server.token();
    let new = server.rotate_token();
    let lines = send_first_line(server.tcp(), &auth_line(&json!(old))).await;
    assert_eq!(lines[0]["data"]["error_type"], "authentication_error");
    let mut client = Client::tcp(server.tcp()).await;
    client.request_ok("AUTHENTICATE", json!({ "token": new })).await;
    client.request_ok("PING", json!({})).await;
    let reply = authenticated.reply().await;
    assert!(reply["error"].as_str().unwrap().contains("token was changed"), "{reply}");
    assert_eq!(authenticated.line().await, None);
    // The Unix socket needs no token.
    Client::connect(&server.socket).await.request_ok("PING", json!({})).await;
    client.request_ok("PING", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn token_change_is_noticed_without_a_new_client() {
    let server = TcpServer::start();
    let mut authenticated = server.client().await;
    authenticated.request_ok("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    let (go, marker) = (server.home.path().join("go"), server.home.path().join("done"));
    let text = format!("until [ -e {} ]; do sleep 0.02; done; touch {}", go.display(), marker.display());
    authenticated.send("EXECUTE_INPUT", json!({ "node_id": "b", "text": text })).await;
    authenticated.send("WAIT_NODE", json!({ "node_id": "b", "until": "stopped" })).await;
    server.rotate_token();
    let reply = authenticated.reply().await;
    assert!(reply["error"].as_str().unwrap().contains("token was changed"), "{reply}");
    assert_eq!(authenticated.line().await, None);
    assert!(!marker.exists(), "error arrived only after the turn");
    std::fs::write(go, "").unwrap();
    let mut other = Client::connect(&server.socket).await;
    other.request_ok("WAIT_NODE", json!({ "node_id": "b", "timeout": 20 })).await;
    assert!(marker.exists(), "turn did not finish");
    server.stop().await;
}

#[tokio::test]
async fn token_change_disconnects_pure_listeners() {
    let server = TcpServer::start();
    let mut listener = server.client().await;
    listener.request_ok("SUBSCRIBE", json!({ "types": ["NODE_CREATED"] })).await;
    listener.half_close();
    // A half-closed client still receives events.
    let mut other = Client::connect(&server.socket).await;
    other.request_ok("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    assert_eq!(listener.wait_for_event("NODE_CREATED").await["node_id"], "b");
    server.rotate_token();
    let reply = listener.reply().await;
    assert!(reply["error"].as_str().unwrap().contains("token was changed"), "{reply}");
    assert_eq!(listener.line().await, None);
    server.stop().await;
}

#[tokio::test]
async fn client_that_keeps_sending_still_gets_the_error() {
    let server = TcpServer::start();
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
        // Twelve megabytes, more than the limit of four kilobytes.
        stream.write_all(&vec![b'x'; 12 << 20]).await.unwrap();
        let mut received = String::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut received)).await;
        read.expect("server kept reading").unwrap();
        assert!(received.contains("4096"), "{received:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn wrong_tokens_do_not_delay_the_right_one() {
    let server = TcpServer::start();
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..200 {
        guesses.spawn(first_line_or_reset(server.tcp(), auth_line(&json!("a wrong token"))));
    }
    // Some answers are delayed by up to five seconds; the other connections are closed at once.
    let mut closed = 0;
    while closed < 100 {
        closed += usize::from(guesses.join_next().await.unwrap().unwrap().is_empty());
    }
    server.client().await.request_ok("PING", json!({})).await;
    while guesses.try_join_next().is_some() {}
    assert!(!guesses.is_empty(), "all guesses were answered first");
    guesses.abort_all();
    server.stop().await;
}

async fn first_line_or_reset(address: SocketAddr, line: Vec<u8>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(&[line, b"\n".to_vec()].concat()).await;
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    String::from_utf8(received).unwrap()
}

#[tokio::test]
async fn unauthenticated_connections_do_not_block_clients() {
    let count = available_connections(10_000);
    eprintln!("{count} connections");
    let server = TcpServer::start_with(|config| config.max_connections = 8);
    let mut authenticated = server.client().await;
    let mut opened = Vec::new();
    for number in 0..count {
        opened.push(TcpStream::connect(server.tcp()).await.unwrap());
        if number % 1000 == 999 {
            authenticated.request_ok("PING", json!({})).await;
            server.client().await.request_ok("PING", json!({})).await;
        }
    }
    let mut late = server.client().await;
    late.request_ok("PING", json!({})).await;
    // None of the others had to time out first.
    let end = opened.last().unwrap().try_read(&mut [0]);
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // The first one was evicted.
    let mut byte = [0];
    let first =
        tokio::time::timeout(DEADLINE, opened[0].read(&mut byte)).await.expect("connection was not closed");
    assert!(matches!(first, Ok(0) | Err(_)));
    drop(opened);
    authenticated.request_ok("PING", json!({})).await;
    server.stop().await;
}

/// Returns the number of connections that this process may open, at most `wanted`. Leaves descriptors for the
/// server's ends.
fn available_connections(wanted: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where raising the limit is not allowed, it stays.
    let _ = setrlimit(Resource::Nofile, limit);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(700).min(wanted);
    assert!(count > 300, "only {descriptors} descriptors: raise 'ulimit -n'");
    count
}

#[tokio::test]
async fn client_limit_covers_all_transports() {
    let server = TcpServer::start_with(|config| config.max_connections = 2);
    let mut first = server.client().await;
    let mut second = Client::connect(&server.socket).await;
    first.request_ok("PING", json!({})).await;
    second.request_ok("PING", json!({})).await;
    let mut unauthenticated = Vec::new();
    for _ in 0..20 {
        unauthenticated.push(Client::tcp(server.tcp()).await);
    }
    let lines = send_first_line(server.tcp(), &auth_line(&json!(server.token()))).await;
    assert_eq!(lines[0]["data"]["error_type"], "busy", "{lines:?}");
    let mut third = Client::connect(&server.socket).await;
    assert!(third.line().await.unwrap()["error"].as_str().unwrap().contains("too many connections"));
    drop(second);
    let accepted = async {
        loop {
            let lines = Client::tcp(server.tcp())
                .await
                .request("AUTHENTICATE", json!({ "token": server.token() }))
                .await;
            if lines["success"] == true {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, accepted).await.expect("slot was not freed");
    server.stop().await;
}
