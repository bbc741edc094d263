//! Notifications that reach a push service, and those that it refuses.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use nerve_api::value::BlockKind;
use nerve_api::{Event, EventKind};
use nerve_types::activity::TsMs;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey};
use ring::rand::SystemRandom;
use serde_json::Value;
use tokio::sync::broadcast;

use super::*;
use crate::access::token::TokenFile;
use crate::web::Role;
use nerve_web_push::encryption::decrypt;

const AUTH: [u8; 16] = [9; 16];

/// A push service on loopback.
struct PushService {
    endpoint: String,
    /// Returns the last request.
    request: JoinHandle<Vec<u8>>,
}

impl PushService {
    /// Returns the content of the last request.
    fn message(self, private: EphemeralPrivateKey) -> Value {
        let request = self.request.join().unwrap();
        let head = request.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        serde_json::from_slice(&decrypt(private, &AUTH, &request[head + 4..])).unwrap()
    }
}

/// Starts a push service that answers one request with each status.
fn push_service(statuses: &'static [&'static str]) -> PushService {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/send/1", listener.local_addr().unwrap());
    let request = std::thread::spawn(move || {
        let mut last = Vec::new();
        for status in statuses {
            last = answer(&listener, status);
        }
        last
    });
    PushService { endpoint, request }
}

/// Answers a request, and returns it.
fn answer(listener: &TcpListener, status: &str) -> Vec<u8> {
    let (mut stream, _) = listener.accept().unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        received.extend_from_slice(&buffer[..count]);
        let Some(head) = received.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&received[..head]).to_lowercase();
        let length = text.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        if count == 0 || received.len() >= head + 4 + length.parse::<usize>().unwrap() {
            break;
        }
    }
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    received
}

fn key(folder: &tempfile::TempDir) -> VapidKey {
    VapidKey::obtain(&folder.path().join("vapid"), None).unwrap()
}

fn browser() -> (EphemeralPrivateKey, Vec<u8>) {
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
    let public = private.compute_public_key().unwrap().as_ref().to_vec();
    (private, public)
}

#[tokio::test]
async fn browser_can_decrypt_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let (private, public) = browser();
    let service = push_service(&["201 Created"]);
    let subscription = PushSubscription::with_keys(service.endpoint.clone(), &public, &AUTH);
    assert_eq!(send(&key(&folder), &subscription, b"{\"text\":\"me\"}").await, DeliveryOutcome::Accepted);
    let request = service.request.join().unwrap();
    let head = request.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
    for line in ["post /send/1 ", "content-encoding: aes128gcm", "ttl: ", "authorization: vapid t="] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(decrypt(private, &AUTH, &request[head + 4..]), b"{\"text\":\"me\"}");
}

/// A server's sessions with one browser that is logged in, and the events of its engine.
struct Server {
    folder: tempfile::TempDir,
    sessions: Arc<SessionStore>,
    cookie: String,
    state: NotificationState,
}

impl Server {
    fn new() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Arc::new(SessionStore::for_test(folder.path()));
        let token = TokenFile::new(folder.path().join("token")).obtain().unwrap();
        let cookie = sessions.begin(Role::View, None, "browser", &token).unwrap();
        Server { folder, sessions, cookie, state: NotificationState::default() }
    }

    /// Subscribes the browser at a push service. Returns its private key.
    fn subscribe(&self, service: &PushService) -> EphemeralPrivateKey {
        let (private, public) = browser();
        let subscription = PushSubscription::with_keys(service.endpoint.clone(), &public, &AUTH);
        self.sessions.subscribe(&self.cookie, &subscription).unwrap();
        private
    }

    /// Publishes events of the nodes of a new start of the server, until the condition is met.
    async fn publish_until(&self, published: &[(&str, EventKind)], is_done: impl Fn() -> bool) {
        let sender = PushSender::new(Arc::new(key(&self.folder)), self.sessions.clone(), self.folder.path());
        let (events, receiver) = broadcast::channel(8);
        let hub = Hub::new(receiver);
        let done = async {
            for (node, kind) in published {
                let (kind, node_id) = (kind.clone(), Some(node.to_string()));
                events.send(Event { kind, node_id, session_id: None, emitted_at: TsMs(1), seq: 1 }).unwrap();
            }
            hub.publish_pending();
            while !is_done() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            // First: only later events reach it.
            biased;
            () = sender.follow(&hub, || std::future::ready(self.state.clone())) => unreachable!(),
            outcome = timeout(Duration::from_secs(30), done) => outcome.expect("not done"),
        }
    }
}

fn suspended() -> EventKind {
    EventKind::NodeSuspended { until_at: None, evidence: String::new() }
}

#[tokio::test]
async fn browser_that_has_left_is_unsubscribed() {
    let server = Server::new();
    let service = push_service(&["410 Gone"]);
    server.subscribe(&service);
    assert_eq!(server.sessions.subscriptions().len(), 1);
    let is_done = || service.request.is_finished() && server.sessions.subscriptions().is_empty();
    server.publish_until(&[("me", suspended())], is_done).await;
    assert_eq!(server.sessions.list().len(), 1, "still logged in");
}

#[tokio::test]
async fn failure_is_shown_until_a_message_is_delivered() {
    let server = Server::new();
    let status = || server.sessions.list().remove(0).notifications.unwrap();
    // A second attempt would be delivered.
    let service = push_service(&["403 Forbidden", "201 Created"]);
    server.subscribe(&service);
    assert_eq!(status().to_string(), "on");
    server.publish_until(&[("me", suspended())], || status().error.is_some()).await;
    assert_eq!(status().to_string(), "failing: the push service answered 403 Forbidden");
    assert!(status().failed_at.is_some());
    // The limit of the same node would not be notified again.
    server.publish_until(&[("other", suspended())], || status().error.is_none()).await;
}

#[tokio::test]
async fn next_server_does_not_notify_open_dialogs_again() {
    let server = Server::new();
    let blocked = || EventKind::NodeBlocked {
        kind: BlockKind::Permission,
        choices: vec!["Yes".to_string()],
        evidence: String::new(),
    };
    let first = push_service(&["201 Created"]);
    server.subscribe(&first);
    server.publish_until(&[("me", blocked())], || first.request.is_finished()).await;
    let second = push_service(&["201 Created"]);
    let private = server.subscribe(&second);
    let events = [("me", blocked()), ("other", blocked())];
    server.publish_until(&events, || second.request.is_finished()).await;
    assert_eq!(second.message(private)["node_id"], "other");
}

#[tokio::test]
async fn dialog_among_dropped_events_is_notified() {
    let mut server = Server::new();
    let service = push_service(&["201 Created"]);
    let private = server.subscribe(&service);
    let node = json!({ "node_id": "lost", "type": "pty", "state": "blocked", "metadata": { "session_id": "default", "blocked": "permission" } });
    server.state.nodes = vec![serde_json::from_value(node).unwrap()];
    server.state.choices.insert(("default".into(), "lost".into()), vec!["Yes".into()]);
    // More events than the channel of the harness holds.
    let events = vec![("other", EventKind::NodeReady { evidence: String::new() }); 20];
    server.publish_until(&events, || service.request.is_finished()).await;
    let message = service.message(private);
    assert_eq!((&message["node_id"], &message["occasion"]), (&json!("lost"), &json!("blocked")));
}

#[test]
fn message_about_a_run_names_it() {
    let event: EventMessage = serde_json::from_value(json!({
        "event_type": "GATE_ASKED", "node_id": null, "session_id": "work", "data": { "run_id": "r-1", "graph_id": "review", "step_id": "ok", "question": "Ship it?" },
    }))
    .unwrap();
    let message = message(&event, Notification { occasion: Occasion::Blocked, turn_seconds: None });
    assert_eq!((&message["run_id"], &message["text"]), (&json!("r-1"), &json!("review asks a question")));
}

#[test]
fn message_names_the_node_and_no_text_of_the_agent() {
    let event: EventMessage = serde_json::from_value(json!({
        "event_type": "NODE_BLOCKED", "node_id": "me", "session_id": "work",
        "data": { "kind": "permission", "choices": ["rm -rf secret"] },
    }))
    .unwrap();
    let message: Value = message(&event, Notification { occasion: Occasion::Blocked, turn_seconds: None });
    assert_eq!(message["text"], "me is blocked (permission)");
    assert_eq!((&message["node_id"], &message["session_id"]), (&json!("me"), &json!("work")));
    assert!(!message.to_string().contains("secret"));
}
