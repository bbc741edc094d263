//! Authentication over TCP, and what unauthenticated clients can do to others.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Client, DEADLINE, TcpServer};

/// Sends a first line and returns everything until the connection is closed.
async fn first_line(address: SocketAddr, line: &[u8]) -> Vec<Value> {
    let mut client = Client::tcp(address).await;
    client.send_raw(line).await;
    let mut lines = Vec::new();
    while let Some(line) = client.line().await {
        lines.push(line);
    }
    lines
}

fn hello(token: &Value) -> Vec<u8> {
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
        let lines = first_line(server.tcp(), &hello(&given)).await;
        assert_eq!(lines.len(), 1, "{given}: {lines:?}");
        assert_eq!(lines[0]["request_id"], "a");
        assert_eq!(lines[0]["success"], false);
        assert_eq!(lines[0]["data"]["error_type"], "authentication_error", "{given}: {lines:?}");
    }
    server.client().await.done("PING", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_answered_before_authentication() {
    let server = TcpServer::start();
    let mut inside = server.client().await;
    let command = json!({ "type": "command", "command_type": "CREATE_NODE", "request_id": "c",
        "params": { "node_id": "x", "backend": "bash" } });
    let lines = first_line(server.tcp(), command.to_string().as_bytes()).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["data"]["error_type"], "authentication_error");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(1500), "]".repeat(1500));
    for line in
        [&b"hello"[..], b"[1]", b"{}", b"\xff\xfe", b"GET / HTTP/1.1", deep.as_bytes(), &hello(&json!(5))]
    {
        let lines = first_line(server.tcp(), line).await;
        assert_eq!(lines.len(), 1, "{}: {lines:?}", String::from_utf8_lossy(line));
        assert!(lines[0]["error"].is_string(), "{lines:?}");
    }
    // A wrong token followed by a command.
    let both = [hello(&json!("wrong")), b"\n".to_vec(), command.to_string().into_bytes()].concat();
    assert_eq!(first_line(server.tcp(), &both).await.len(), 1);
    assert_eq!(inside.done("LIST_NODES", json!({})).await["nodes"], json!([]));
    // Unauthenticated clients receive no events.
    let mut outside = Client::tcp(server.tcp()).await;
    inside.done("CREATE_NODE", json!({ "node_id": "y", "backend": "bash" })).await;
    outside.send_raw(hello(&json!(server.token()))).await;
    assert_eq!(outside.line().await.unwrap()["data"]["authenticated"], true);
    server.stop().await;
}

#[tokio::test]
async fn oversized_first_line_is_not_read_completely() {
    let server = TcpServer::start();
    for size in [4097, 17 * 1024 * 1024] {
        let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
        // The server may close before all of it is sent.
        let _ = stream.write_all(&vec![b'x'; size]).await;
        let mut said = Vec::new();
        let read =
            tokio::time::timeout(DEADLINE, stream.read_to_end(&mut said)).await.expect("it reads on and on");
        if size < 10_000 {
            read.unwrap();
            assert!(String::from_utf8_lossy(&said).contains("4096"), "{said:?}");
        }
    }
    server.client().await.done("PING", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn incomplete_first_line_times_out_after_ten_seconds() {
    let server = TcpServer::start();
    let mut half = TcpStream::connect(server.tcp()).await.unwrap();
    half.write_all(b"{\"command_type\":\"AUTH").await.unwrap();
    let mut silent = Client::tcp(server.tcp()).await;
    server.client().await.done("PING", json!({})).await;
    let start = Instant::now();
    let mut said = String::new();
    half.read_to_string(&mut said).await.unwrap();
    assert!(said.contains("no AUTHENTICATE within 10 s"), "{said}");
    assert!((Duration::from_secs(8)..DEADLINE).contains(&start.elapsed()), "{:?}", start.elapsed());
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
        let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
        stream.write_all(line.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = String::new();
        tokio::time::timeout(DEADLINE, stream.read_to_string(&mut said)).await.expect("no end").unwrap();
        assert!(said.contains(word) && said.lines().count() == 1, "{said:?}");
    }
    // A client that sends nothing gets no answer.
    let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
    stream.write_all(b"\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    tokio::time::timeout(DEADLINE, stream.read_to_string(&mut said)).await.expect("no end").unwrap();
    assert_eq!(said, "");
    server.stop().await;
}

#[tokio::test]
async fn token_change_disconnects_old_clients() {
    let server = TcpServer::start();
    let mut inside = server.client().await;
    let old = server.token();
    let new = server.rotate_token();
    let lines = first_line(server.tcp(), &hello(&json!(old))).await;
    assert_eq!(lines[0]["data"]["error_type"], "authentication_error");
    let mut client = Client::tcp(server.tcp()).await;
    client.done("AUTHENTICATE", json!({ "token": new })).await;
    client.done("PING", json!({})).await;
    let told = inside.reply().await;
    assert!(told["error"].as_str().unwrap().contains("token was changed"), "{told}");
    assert_eq!(inside.line().await, None);
    // The Unix socket needs no token.
    Client::connect(&server.socket).await.done("PING", json!({})).await;
    client.done("PING", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn token_change_is_noticed_without_a_new_client() {
    let server = TcpServer::start();
    let mut inside = server.client().await;
    inside.done("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    let (go, marker) = (server.home.path().join("go"), server.home.path().join("done"));
    let text = format!("until [ -e {} ]; do sleep 0.02; done; touch {}", go.display(), marker.display());
    inside.send("EXECUTE_INPUT", json!({ "node_id": "b", "text": text })).await;
    inside.send("WAIT_NODE", json!({ "node_id": "b", "until": "stopped" })).await;
    server.rotate_token();
    let told = inside.reply().await;
    assert!(told["error"].as_str().unwrap().contains("token was changed"), "{told}");
    assert_eq!(inside.line().await, None);
    assert!(!marker.exists(), "it is told while its turn goes on");
    std::fs::write(go, "").unwrap();
    let mut other = Client::connect(&server.socket).await;
    other.done("WAIT_NODE", json!({ "node_id": "b", "timeout": 20 })).await;
    assert!(marker.exists(), "its turn goes on");
    server.stop().await;
}

#[tokio::test]
async fn token_change_disconnects_pure_listeners() {
    let server = TcpServer::start();
    let mut listener = server.client().await;
    listener.done("SUBSCRIBE", json!({ "types": ["NODE_CREATED"] })).await;
    listener.half_close();
    // It has finished sending and still receives events.
    let mut other = Client::connect(&server.socket).await;
    other.done("CREATE_NODE", json!({ "node_id": "b", "backend": "bash" })).await;
    assert_eq!(listener.event("NODE_CREATED").await["node_id"], "b");
    server.rotate_token();
    let told = listener.reply().await;
    assert!(told["error"].as_str().unwrap().contains("token was changed"), "{told}");
    assert_eq!(listener.line().await, None);
    server.stop().await;
}

#[tokio::test]
async fn client_that_keeps_sending_sees_why_it_was_refused() {
    let server = TcpServer::start();
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.tcp()).await.unwrap();
        // Twelve megabytes, more than the limit of four kilobytes.
        stream.write_all(&vec![b'x'; 12 << 20]).await.unwrap();
        let mut said = String::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_string(&mut said)).await;
        read.expect("it reads on and on").unwrap();
        assert!(said.contains("4096"), "{said:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn wrong_tokens_do_not_delay_the_right_one() {
    let server = TcpServer::start();
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..200 {
        guesses
            .spawn(first_line_or_reset(server.tcp(), hello(&json!("a wrong one, and as long as it likes"))));
    }
    // Some answers are delayed by up to five seconds; the other connections are closed at once.
    let mut closed = 0;
    while closed < 100 {
        closed += usize::from(guesses.join_next().await.unwrap().unwrap().is_empty());
    }
    let start = Instant::now();
    server.client().await.done("PING", json!({})).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    guesses.abort_all();
    server.stop().await;
}

async fn first_line_or_reset(address: SocketAddr, line: Vec<u8>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(&[line, b"\n".to_vec()].concat()).await;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn ten_thousand_unauthenticated_connections_block_nobody() {
    let many = room_for(10_000);
    eprintln!("{many} connections");
    let server = TcpServer::start_with(|config| config.max_connections = 8);
    let mut inside = server.client().await;
    let mut opened = Vec::new();
    for number in 0..many {
        opened.push(TcpStream::connect(server.tcp()).await.unwrap());
        if number % 1000 == 999 {
            inside.done("PING", json!({})).await;
            server.client().await.done("PING", json!({})).await;
        }
    }
    let start = Instant::now();
    let mut late = server.client().await;
    late.done("PING", json!({})).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    // The first one was evicted.
    let mut byte = [0];
    let first = tokio::time::timeout(DEADLINE, opened[0].read(&mut byte)).await.expect("it was kept");
    assert!(matches!(first, Ok(0) | Err(_)));
    drop(opened);
    inside.done("PING", json!({})).await;
    server.stop().await;
}

/// Returns the number of connections that this process may open, at most `wanted`. A few descriptors are
/// needed for the server's ends.
fn room_for(wanted: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where raising the limit is not allowed, it stays.
    let _ = setrlimit(Resource::Nofile, limit);
    let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let many = usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(700).min(wanted);
    assert!(many > 300, "only {room} descriptors: raise 'ulimit -n'");
    many
}

#[tokio::test]
async fn client_limit_covers_all_transports() {
    let server = TcpServer::start_with(|config| config.max_connections = 2);
    let mut first = server.client().await;
    let mut second = Client::connect(&server.socket).await;
    first.done("PING", json!({})).await;
    second.done("PING", json!({})).await;
    let mut strangers = Vec::new();
    for _ in 0..20 {
        strangers.push(Client::tcp(server.tcp()).await);
    }
    let lines = first_line(server.tcp(), &hello(&json!(server.token()))).await;
    assert!(lines[0]["error"].as_str().unwrap().contains("too many connections"), "{lines:?}");
    assert_eq!(lines[0]["data"]["error_type"], "busy");
    let mut third = Client::connect(&server.socket).await;
    assert!(third.line().await.unwrap()["error"].as_str().unwrap().contains("too many connections"));
    drop(second);
    let served = async {
        loop {
            let lines =
                Client::tcp(server.tcp()).await.ask("AUTHENTICATE", json!({ "token": server.token() })).await;
            if lines["success"] == true {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, served).await.expect("its place was kept");
    server.stop().await;
}
