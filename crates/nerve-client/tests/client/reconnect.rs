//! Reconnecting: resent requests, and continuity of event streams.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nerve_api::EventType;
use nerve_api::framing::{Frame, LineReader};
use nerve_api::request::Subscribe;
use nerve_api::value::NodeState;
use nerve_client::{ClientError, EventStream, NerveClient, Reconnect, StreamItem, Tls, UnansweredRequest};
use rustix::net::Shutdown;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::{Peer, socket};

/// Time limit for any step; exceeded only if a test hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server that can stop and start.
struct Server {
    _folder: TempDir,
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl Server {
    fn start() -> Server {
        let (folder, path) = socket();
        let listener = Some(UnixListener::bind(&path).unwrap());
        Server { _folder: folder, path, listener }
    }

    async fn client(&mut self) -> (NerveClient, Peer) {
        let path = self.path.clone();
        let (client, peer) = tokio::join!(NerveClient::connect(&path), self.accept());
        (client.unwrap(), peer)
    }

    async fn accept(&mut self) -> Peer {
        let accepted = self.listener.as_ref().unwrap().accept();
        let (input, output) = tokio::time::timeout(DEADLINE, accepted)
            .await
            .expect("client did not connect")
            .unwrap()
            .0
            .into_split();
        Peer { lines: LineReader::new(input), output, _folder: None }
    }

    /// Checks that the client does not connect. Each round leaves time for an unwanted attempt.
    async fn expect_no_connection(&mut self) {
        for _ in 0..5 {
            let mut own = UnixStream::connect(&self.path).await.unwrap();
            own.write_all(b"own\n").await.unwrap();
            let mut peer = self.accept().await;
            let frame =
                tokio::time::timeout(DEADLINE, peer.lines.next()).await.expect("unexpected connection");
            assert_eq!(frame.unwrap(), Frame::Line(b"own".to_vec()), "unexpected connection");
        }
    }

    /// Stops listening but leaves the socket, as a killed server does.
    fn kill(&mut self) {
        self.listener = None;
    }

    fn restart(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        self.listener = Some(UnixListener::bind(&self.path).unwrap());
    }
}

fn unanswered(error: ClientError) -> UnansweredRequest {
    match error {
        ClientError::Closed(unanswered) => unanswered,
        error => panic!("{error}"),
    }
}

async fn next_event(events: &mut EventStream) -> (Option<EventType>, u64) {
    let event = tokio::time::timeout(DEADLINE, events.next()).await.expect("no event").expect("stream ended");
    (event.kind(), event.seq)
}

const READY: Option<EventType> = Some(EventType::NodeReady);
const DROPPED: Option<EventType> = Some(EventType::EventsDropped);

#[tokio::test]
async fn read_only_request_is_resent_once() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let server_side = async {
        let first = peer.request().await;
        drop(peer);
        let mut peer = server.accept().await;
        let again = peer.request().await;
        assert_eq!(again, first);
        peer.answer(&again, json!({"pong": true})).await;
        peer.request().await;
        drop(peer);
        let mut peer = server.accept().await;
        peer.request().await;
        drop(peer);
        // The next request on the new connection.
        let mut peer = server.accept().await;
        peer.expect("PING", json!({}), json!({"pong": true})).await;
        peer
    };
    let client_side = async {
        assert!(client.ping().await.unwrap().pong);
        let error = unanswered(client.sessions().await.unwrap_err());
        assert!(error.sent && error.request_id.as_deref() == Some("2"), "{error:?}");
        assert!(client.ping().await.unwrap().pong);
    };
    let (mut peer, ()) = tokio::join!(server_side, client_side);
    drop(client);
    peer.wait_closed().await;
}

#[tokio::test]
async fn changing_request_is_never_resent() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let server_side = async {
        assert_eq!(peer.request().await["command_type"], "EXECUTE_INPUT");
        assert_eq!(peer.request().await["command_type"], "EXECUTE_INPUT");
        assert_eq!(peer.request().await["command_type"], "STOP_NODE");
        // In the middle of an answer.
        peer.send_raw(b"{\"type\":\"result\",\"succ").await;
        drop(peer);
        let mut peer = server.accept().await;
        let request = peer.request().await;
        assert_eq!(request["command_type"], "RUN_COMMAND");
        peer.answer(&request, json!({"executed": true})).await;
        peer
    };
    let client_side = async {
        let node = client.node("a", None);
        let mut stream = node.execute_stream("x").await.unwrap();
        let (turn, item, stop) = tokio::join!(node.execute("y"), stream.next(), node.stop());
        for error in [turn.unwrap_err(), item.unwrap().unwrap_err(), stop.unwrap_err()] {
            assert!(error.request_id().is_some());
            assert!(unanswered(error).sent);
        }
        assert!(stream.next().await.is_none());
        node.run("ls").await.unwrap();
    };
    let (mut peer, ()) = tokio::join!(server_side, client_side);
    drop(client);
    peer.wait_closed().await;
}

#[tokio::test]
async fn unsent_prompt_of_stream_is_sent_over_next_connection() {
    let mut server = Server::start();
    let (client, peer) = server.client().await;
    let node = client.node("a", None);
    // More than a socket holds, so that later requests wait.
    let pending_write = tokio::spawn({
        let node = node.clone();
        async move { node.write(&"x".repeat(4 << 20)).await }
    });
    super::wait_until("request in flight", || client.in_flight() == 1).await;
    let mut stream = node.execute_stream("hi").await.unwrap();
    drop(peer);
    assert!(unanswered(pending_write.await.unwrap().unwrap_err()).sent);
    let server_side = async {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        assert_eq!(
            (&request["command_type"], &request["request_id"]),
            (&json!("EXECUTE_INPUT"), &json!("2"))
        );
        peer.send_chunk("a", json!({"chunk": "one", "request_id": "2"})).await;
        peer.answer(&request, json!({"response": {"text": "one"}, "node_id": "a", "turn": 1})).await;
        peer
    };
    let client_side = async {
        // Dropped repeatedly: no request is lost or sent twice.
        let first = loop {
            if let Ok(item) = tokio::time::timeout(Duration::ZERO, stream.next()).await {
                break item;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(first.unwrap().unwrap(), StreamItem::Chunk("one".to_string()));
        assert!(matches!(stream.next().await, Some(Ok(StreamItem::Response(_)))));
        assert!(stream.next().await.is_none());
    };
    let (mut peer, ()) =
        tokio::time::timeout(DEADLINE, async { tokio::join!(server_side, client_side) }).await.unwrap();
    drop((client, node, stream));
    peer.wait_closed().await;
}

#[tokio::test]
async fn request_waits_while_last_output_is_drained() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let node = client.node("a", None);
    let pending_write = tokio::spawn(async move { node.write("x").await });
    let write = peer.request().await;
    // Writing fails from now on.
    rustix::net::shutdown(peer.output.as_ref(), Shutdown::Read).unwrap();
    let spawn_ping = || {
        let client = client.clone();
        tokio::spawn(async move { client.ping().await })
    };
    let first = spawn_ping();
    super::wait_until("first request in flight", || client.in_flight() == 2).await;
    // The connection's task notices before the second request.
    tokio::task::yield_now().await;
    let second = spawn_ping();
    tokio::task::yield_now().await;
    peer.answer(&write, json!({"written": 1})).await;
    assert_eq!(pending_write.await.unwrap().unwrap(), 1);
    drop(peer);
    let mut peer = server.accept().await;
    for _ in 0..2 {
        peer.expect("PING", json!({}), json!({"pong": true})).await;
    }
    assert!(first.await.unwrap().unwrap().pong && second.await.unwrap().unwrap().pong);
}

#[tokio::test]
async fn idle_client_reconnects_on_next_request() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let node = client.node("a", None);
    let (error, ()) = tokio::join!(node.write("x"), async {
        peer.request().await;
        drop(peer);
    });
    // The client has noticed the end of the connection.
    assert!(unanswered(error.unwrap_err()).sent);
    server.expect_no_connection().await;
    let (written, _peer) = tokio::join!(node.write("x"), async {
        let mut peer = server.accept().await;
        peer.expect("WRITE_DATA", json!({"node_id": "a", "data": "x"}), json!({"written": 1})).await;
        peer
    });
    assert_eq!(written.unwrap(), 1);
    assert_eq!(client.unmatched_replies(), 0);
}

#[tokio::test]
async fn missing_server_is_given_up_in_time() {
    let mut server = Server::start();
    let (client, peer) = server.client().await;
    let client = client.reconnect(Reconnect::Within(Duration::from_millis(400)));
    let mut events = client.events();
    server.kill();
    drop(peer);
    let start = Instant::now();
    let node = client.node("a", None);
    let requests = async { tokio::join!(client.ping(), node.run("ls"), client.sessions()) };
    let (one, two, three) = tokio::time::timeout(DEADLINE, requests).await.expect("not given up");
    let elapsed = start.elapsed();
    for error in [one.unwrap_err(), two.unwrap_err(), three.unwrap_err()] {
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
    }
    assert!(elapsed > Duration::from_millis(300), "{elapsed:?}");
    let end = tokio::time::timeout(DEADLINE, events.next()).await.expect("stream did not end");
    assert_eq!(end, None);
    // Later requests try again.
    server.restart();
    let (mut later, server_side) = (client.events(), async {
        let mut peer = server.accept().await;
        peer.expect("SUBSCRIBE", json!({}), json!({"subscribed": true, "seq": 9, "server": "x"})).await;
        peer.expect("PING", json!({}), json!({"pong": true})).await;
        peer.send_event("NODE_READY", 10).await;
        peer
    });
    let (pong, _peer) = tokio::join!(client.ping(), server_side);
    assert!(pong.unwrap().pong);
    assert_eq!(next_event(&mut later).await.0, DROPPED);
    assert_eq!(next_event(&mut later).await, (READY, 10));
}

#[tokio::test]
async fn events_resume_after_last_one_received() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let filter = Subscribe { node_id: Some("a".into()), ..Subscribe::default() };
    let subscribed = |seq: u64, server: &str| json!({"subscribed": true, "seq": seq, "server": server});
    let subscribe_params = |since: Option<u64>| {
        let mut params = json!({"node_id": "a", "aliases": false});
        if let Some(since) = since {
            params["since"] = since.into();
        }
        params
    };
    let (events, ()) = tokio::join!(
        client.subscribe(&filter),
        peer.expect("SUBSCRIBE", subscribe_params(None), subscribed(4, "x"))
    );
    let mut events = events.unwrap();
    peer.send_event("NODE_READY", 5).await;
    drop(peer);
    // The stream alone triggers the reconnect.
    let mut peer = server.accept().await;
    // Events before the subscription is restored: they will be sent again.
    peer.send_event("NODE_READY", 7).await;
    peer.send_event("NODE_BUSY", 8).await;
    peer.expect("SUBSCRIBE", subscribe_params(Some(5)), subscribed(8, "x")).await;
    peer.send_event("NODE_READY", 6).await;
    peer.send_event("NODE_READY", 8).await;
    for seq in [5, 6, 8] {
        assert_eq!(next_event(&mut events).await, (READY, seq));
    }
    drop(peer);
    // A different server with similar numbers: none of its events were seen.
    let mut peer = server.accept().await;
    peer.expect("SUBSCRIBE", subscribe_params(Some(8)), subscribed(20, "y")).await;
    peer.send_event("NODE_READY", 20).await;
    peer.expect("SUBSCRIBE", subscribe_params(Some(0)), subscribed(20, "y")).await;
    peer.send_event("NODE_READY", 1).await;
    let missing = events.next().await.unwrap();
    assert_eq!((missing.kind(), missing.data), (DROPPED, json!({"dropped": null})));
    assert_eq!(next_event(&mut events).await, (READY, 1));
    drop(peer);
    // The same server reports by itself what it no longer has.
    let mut peer = server.accept().await;
    peer.expect("SUBSCRIBE", subscribe_params(Some(1)), subscribed(9000, "y")).await;
    peer.send(
        json!({"type": "event", "event_type": "EVENTS_DROPPED", "data": {"dropped": 4000}, "seq": 4001}),
    )
    .await;
    peer.send_event("NODE_READY", 4002).await;
    assert_eq!(next_event(&mut events).await, (DROPPED, 4001));
    assert_eq!(next_event(&mut events).await, (READY, 4002));
    client.close();
    assert_eq!(events.next().await, None);
    peer.wait_closed().await;
}

#[tokio::test]
async fn server_that_closes_at_once_is_retried_with_pauses() {
    let mut server = Server::start();
    let (client, peer) = server.client().await;
    let mut events = client.events();
    let start = Instant::now();
    drop(peer);
    for _ in 0..5 {
        drop(server.accept().await);
    }
    // Pauses of at least 25, 50, 100 and 200 ms.
    assert!(start.elapsed() > Duration::from_millis(300), "{:?}", start.elapsed());
    let mut peer = server.accept().await;
    peer.expect("SUBSCRIBE", json!({}), json!({"subscribed": true, "seq": 3})).await;
    peer.send_event("NODE_READY", 4).await;
    assert_eq!(next_event(&mut events).await.0, DROPPED);
    assert_eq!(next_event(&mut events).await, (READY, 4));
}

#[tokio::test]
async fn never_reconnect_ends_at_once() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let client = client.reconnect(Reconnect::Never);
    let mut events = client.events();
    peer.expect("SUBSCRIBE", json!({}), json!({"subscribed": true, "seq": 0})).await;
    peer.send_event("NODE_READY", 1).await;
    let server_side = async {
        peer.request().await;
        drop(peer);
    };
    let (error, ()) = tokio::join!(client.ping(), server_side);
    assert!(unanswered(error.unwrap_err()).sent);
    assert_eq!(next_event(&mut events).await, (READY, 1));
    assert_eq!(events.next().await, None);
    let error = unanswered(client.ping().await.unwrap_err());
    assert!(!error.sent && error.request_id.as_deref() == Some("3"), "{error:?}");
    assert_eq!(client.events().next().await, None);
}

#[tokio::test]
async fn closed_client_ends_pending_connects() {
    let mut server = Server::start();
    let (client, mut peer) = server.client().await;
    let copy = client.clone();
    let pending = tokio::spawn(async move { copy.node("a", None).wait(&[NodeState::Ready], None).await });
    peer.request().await;
    client.close();
    let error = unanswered(pending.await.unwrap().unwrap_err());
    assert!(error.sent && error.reason().contains("closed"), "{error:?}");
    peer.wait_closed().await;

    let (client, peer) = server.client().await;
    server.kill();
    drop(peer);
    // The client notices and stops reconnecting.
    let client = client.reconnect(Reconnect::Within(Duration::from_millis(1)));
    assert!(client.ping().await.is_err());
    let client = client.reconnect(Reconnect::Within(DEADLINE));
    let (copy, mut events) = (client.clone(), client.events());
    let pending = tokio::spawn(async move { copy.node("a", None).run("ls").await });
    let closing = async {
        tokio::task::yield_now().await;
        client.close();
    };
    let (end, ()) = tokio::join!(events.next(), closing);
    assert_eq!(end, None);
    let error = unanswered(pending.await.unwrap().unwrap_err());
    assert!(!error.sent && error.reason().contains("closed"), "{error:?}");
}

#[tokio::test]
async fn last_drop_stops_reconnecting() {
    let mut server = Server::start();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let (client, peer) = server.client().await;
    let events = client.events();
    server.kill();
    drop((client, peer));
    // The stream keeps the client alive and reconnects.
    tokio::task::yield_now().await;
    assert!(tasks() > before);
    drop(events);
    let no_tasks = async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, no_tasks).await.expect("a task still reconnects");
}

#[tokio::test]
async fn tcp_reconnect_authenticates_and_stops_on_invalid_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accept = async || {
        let (input, output) = listener.accept().await.unwrap().0.into_split();
        Peer { lines: LineReader::new(input), output, _folder: None }
    };
    let credentials = || json!({"token": "secret"});
    let server_side = async {
        let mut peer = accept().await;
        peer.expect("AUTHENTICATE", credentials(), json!({"authenticated": true})).await;
        drop(peer);
        let mut peer = accept().await;
        peer.expect("AUTHENTICATE", credentials(), json!({"authenticated": true})).await;
        peer.expect("PING", json!({}), json!({"pong": true})).await;
        drop(peer);
        let mut peer = accept().await;
        let request = peer.request().await;
        peer.send(json!({"type": "result", "success": false, "error": "wrong token", "request_id": request["request_id"],
            "data": {"error_type": "authentication_error"}}))
            .await;
    };
    let client_side = async {
        let client = NerveClient::connect_tcp(&address, "secret", &Tls::Off).await.unwrap();
        assert!(client.ping().await.unwrap().pong);
        assert!(!format!("{client:?}").contains("secret"));
        let mut events = client.events();
        // The stream tries once and ends.
        assert_eq!(tokio::time::timeout(DEADLINE, events.next()).await.expect("stream did not end"), None);
    };
    tokio::join!(server_side, client_side);
}

/// Drops requests at arbitrary moments while connections break. Each request reaches the server at most once, and the others
/// get a result.
#[tokio::test]
async fn requests_dropped_at_any_moment_leave_no_state() {
    let mut server = Server::start();
    let (client, peer) = server.client().await;
    let client = client.reconnect(Reconnect::Within(DEADLINE));
    let server_side = tokio::spawn(async move {
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut peer = Some(peer);
        let mut lines = 0_u32;
        loop {
            let Some(current) = &mut peer else {
                peer = Some(server.accept().await);
                continue;
            };
            let request: Value = match current.lines.next().await {
                Ok(Frame::Line(line)) => serde_json::from_slice(&line).unwrap(),
                _ => {
                    peer = None;
                    continue;
                }
            };
            lines += 1;
            if request["command_type"] == "SHUTDOWN" {
                current.answer(&request, json!({"stopped": true})).await;
                return counts;
            }
            *counts.entry(request["request_id"].to_string()).or_default() += 1;
            let line = json!({"type": "result", "success": true, "data": {"written": 1}, "request_id": request["request_id"]});
            let answered = current.output.write_all(format!("{line}\n").as_bytes()).await;
            if answered.is_err() || lines.is_multiple_of(7) {
                peer = None;
            }
        }
    });
    let node = client.node("a", None);
    let (mut succeeded, mut unanswered) = (0, 0);
    for round in 0..400_u64 {
        let limit = Duration::from_micros(round * 7919 % 500);
        let (one, two, three) = tokio::join!(
            tokio::time::timeout(limit, node.write("x")),
            tokio::time::timeout(limit / 2, async {
                let mut stream = node.execute_stream("x").await?;
                match stream.next().await {
                    Some(Ok(StreamItem::Response(_))) | None => Ok(1),
                    Some(Ok(_)) => Ok(0),
                    Some(Err(error)) => Err(error),
                }
            }),
            tokio::time::timeout(limit * 4, node.write("y")),
        );
        for outcome in [one, two, three] {
            match outcome {
                Ok(Ok(_)) => succeeded += 1,
                Ok(Err(error)) => match error {
                    ClientError::Closed(error) => unanswered += u32::from(error.sent),
                    // The fake server's response to an execute is invalid.
                    ClientError::Protocol(_) => {}
                    error => panic!("{error}"),
                },
                Err(_) => {}
            }
        }
    }
    assert_eq!(client.in_flight(), 0);
    let counts = loop {
        // The connection may end before the response.
        match client.shutdown(false).await {
            Ok(()) => break server_side.await.unwrap(),
            Err(error) => assert!(matches!(error, ClientError::Closed(_)), "{error}"),
        }
    };
    assert!(counts.values().all(|times| *times == 1), "sent twice: {counts:?}");
    assert!(
        succeeded > 0 && counts.len() > 20,
        "{succeeded} succeeded, {unanswered} unanswered, {} received",
        counts.len()
    );
    assert_eq!(client.unmatched_replies(), 0);
}
