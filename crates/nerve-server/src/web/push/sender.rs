//! Sends notifications to the browsers that subscribed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, Uri, header};
use nerve_api::EventMessage;
use nerve_api::value::Occasion;
use nerve_engine::notification_tracker::{Notification, NotificationTracker, OpenDialog};
use nerve_llm::http_client;
use nerve_llm::retry;
use nerve_types::{TsNs, files};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::encryption::encrypt;
use super::subscription::PushSubscription;
use super::vapid::VapidKey;
use crate::events::{Filter, Hub};
use crate::web::{SessionStore, now};

/// Time that a turn or graph must take for its end to be notified, in seconds.
const MIN_TURN: u64 = 30;
/// Maximum number of messages that are being sent to one browser. Further ones are dropped.
const MAX_PENDING: usize = 8;
/// Time for which a push service keeps a message, in seconds: an older one is of no use.
const TIME_TO_LIVE: u64 = 4 * 60 * 60;
/// Maximum size of the file of open dialogs in bytes.
const MAX_DIALOG_BYTES: u64 = 1 << 20;
const ATTEMPTS: u32 = 4;
const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a response that are read; its content is ignored.
const MAX_RESPONSE: usize = 64 << 10;

/// Sends a server's notifications.
#[derive(Debug)]
pub(crate) struct PushSender {
    key: Arc<VapidKey>,
    sessions: Arc<SessionStore>,
    /// File with the open dialogs that were notified, so that the next server does not notify them again.
    dialogs: PathBuf,
    /// Limits the messages to each browser, by the digest of its session: one that does not answer delays no other.
    permits: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Outcome of a delivery to a push service.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryOutcome {
    Accepted,
    /// The browser has unsubscribed.
    Gone,
    Failed(String),
}

impl PushSender {
    /// Creates a sender that keeps its file in `folder`.
    pub(crate) fn new(key: Arc<VapidKey>, sessions: Arc<SessionStore>, folder: &Path) -> PushSender {
        PushSender { key, sessions, dialogs: folder.join("open-dialogs.json"), permits: Mutex::default() }
    }

    /// Follows the server's events. Never completes.
    pub(crate) async fn follow(&self, hub: &Hub) {
        let filter = Filter { types: Some(NotificationTracker::EVENT_TYPES.to_vec()), ..Filter::default() };
        let queue = hub.subscribe(filter, None);
        let mut tracker = NotificationTracker::new(MIN_TURN);
        let mut stored = self.read_dialogs();
        tracker.restore(stored.clone());
        loop {
            for event in queue.next_events().await {
                if let Ok(event) = EventMessage::of(&event.event)
                    && let Some(notification) = tracker.observe(&event)
                {
                    self.send_to_all(&event, notification);
                }
            }
            let open = tracker.open_dialogs();
            if open != stored {
                self.write_dialogs(&open);
                stored = open;
            }
        }
    }

    fn read_dialogs(&self) -> Vec<OpenDialog> {
        files::read_json(&self.dialogs, MAX_DIALOG_BYTES).unwrap_or_default()
    }

    fn write_dialogs(&self, dialogs: &[OpenDialog]) {
        let bytes = serde_json::to_vec(dialogs).unwrap_or_default();
        if let Err(error) = files::replace_unsynced(&self.dialogs, &bytes) {
            tracing::warn!(%error, "open dialogs cannot be stored: the next server notifies them again");
        }
    }

    /// Sends a notification to all browsers, in tasks of their own.
    fn send_to_all(&self, event: &EventMessage, notification: Notification) {
        let message: Arc<[u8]> = message(event, notification).to_string().into_bytes().into();
        let subscriptions = self.sessions.subscriptions();
        let mut permits = self.permits.lock();
        permits.retain(|session, _| subscriptions.iter().any(|(live, _)| live == session));
        for (session, subscription) in subscriptions {
            let new = || Arc::new(Semaphore::new(MAX_PENDING));
            let pending = permits.entry(session.clone()).or_insert_with(new).clone();
            let Ok(permit) = pending.try_acquire_owned() else {
                tracing::warn!("a push message was dropped: its browser's service does not answer");
                continue;
            };
            let (key, sessions, message) = (self.key.clone(), self.sessions.clone(), message.clone());
            tokio::spawn(async move {
                match send(&key, &subscription, &message).await {
                    DeliveryOutcome::Accepted => sessions.record_delivery(&session, &subscription, None),
                    DeliveryOutcome::Gone => sessions.remove_subscription(&session, &subscription),
                    // The endpoint is a secret.
                    DeliveryOutcome::Failed(reason) => {
                        tracing::warn!(%reason, "a push message was not delivered");
                        sessions.record_delivery(&session, &subscription, Some(reason));
                    }
                }
                drop(permit);
            });
        }
    }
}

/// Returns the message that the browser shows: which node needs what, without text of the agent.
fn message(event: &EventMessage, notification: Notification) -> serde_json::Value {
    let node = event.node_id.as_deref();
    let graph = event.data["graph_id"].as_str();
    let subject = node.or(graph).unwrap_or("nerve");
    let kind = event.data["kind"].as_str();
    let text = match (notification.occasion, kind) {
        (Occasion::Blocked, Some(kind)) => format!("{subject} is blocked ({kind})"),
        (Occasion::Blocked, None) => format!("{subject} asks a question"),
        (Occasion::Done, _) => format!("{subject} is done"),
        (Occasion::Failed, _) => format!("{subject} has failed"),
        (Occasion::Suspended, _) => format!("{subject} has reached a usage limit"),
    };
    json!({
        "occasion": <&str>::from(notification.occasion),
        "text": text,
        "node_id": node,
        "session_id": event.session_id,
        "run_id": event.data["run_id"],
    })
}

/// Encrypts and sends a message, and repeats it if the push service is busy.
async fn send(key: &VapidKey, subscription: &PushSubscription, message: &[u8]) -> DeliveryOutcome {
    let mut outcome = DeliveryOutcome::Failed("not sent".to_string());
    for attempt in 0..ATTEMPTS {
        let (again, requested) = match timeout(TIMEOUT, post(key, subscription, message)).await {
            Ok(Ok((status, _))) if status.is_success() => return DeliveryOutcome::Accepted,
            Ok(Ok((StatusCode::NOT_FOUND | StatusCode::GONE, _))) => return DeliveryOutcome::Gone,
            Ok(Ok((status, requested))) => {
                outcome = DeliveryOutcome::Failed(format!("the push service answered {status}"));
                (retry::is_transient(status.as_u16()), requested)
            }
            Ok(Err(reason)) => {
                outcome = DeliveryOutcome::Failed(reason);
                (true, None)
            }
            Err(_) => {
                outcome = DeliveryOutcome::Failed(format!("no response within {} s", TIMEOUT.as_secs()));
                (true, None)
            }
        };
        let pause = retry::pause(attempt, requested).filter(|_| again && attempt + 1 < ATTEMPTS);
        let Some(pause) = pause else { break };
        sleep(pause).await;
    }
    outcome
}

/// Posts a message to a push service (RFC 8030). Returns the status, and the pause that the service requests.
async fn post(
    key: &VapidKey,
    subscription: &PushSubscription,
    message: &[u8],
) -> Result<(StatusCode, Option<Duration>), String> {
    let endpoint: Uri = subscription.endpoint().parse().map_err(|_| "the endpoint is invalid")?;
    let body = encrypt(subscription, message).map_err(|_| "the message cannot be encrypted")?;
    let signature = key.authorize(&endpoint, now()).ok_or("the message cannot be signed")?;
    let request = Request::post(endpoint)
        .header(header::AUTHORIZATION, signature)
        .header(header::CONTENT_ENCODING, "aes128gcm")
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header("ttl", TIME_TO_LIVE)
        .header("urgency", "high")
        .body(body.into())
        .map_err(|error| error.to_string())?;
    let response = http_client::send(request, MAX_RESPONSE).await?;
    let requested = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let requested = requested.and_then(|text| retry::parse_retry_after(text, TsNs(now().0 * 1_000_000)));
    Ok((response.status(), requested))
}

#[cfg(test)]
mod tests {
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

    use super::super::encryption::tests::decrypt;
    use super::*;
    use crate::access::token::TokenFile;
    use crate::web::Role;

    const AUTH: [u8; 16] = [9; 16];

    /// A push service on loopback.
    struct PushService {
        endpoint: String,
        /// Returns the last request.
        request: JoinHandle<Vec<u8>>,
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
        let subscription = PushSubscription::for_test(service.endpoint.clone(), &public, &AUTH);
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
    }

    impl Server {
        fn new() -> Server {
            let folder = tempfile::tempdir().unwrap();
            let sessions = Arc::new(SessionStore::for_test(folder.path()));
            let token = TokenFile::new(folder.path().join("token")).obtain().unwrap();
            let cookie = sessions.begin(Role::View, None, "browser", &token).unwrap();
            Server { folder, sessions, cookie }
        }

        /// Subscribes the browser at a push service. Returns its private key.
        fn subscribe(&self, service: &PushService) -> EphemeralPrivateKey {
            let (private, public) = browser();
            let subscription = PushSubscription::for_test(service.endpoint.clone(), &public, &AUTH);
            self.sessions.subscribe(&self.cookie, &subscription).unwrap();
            private
        }

        /// Publishes events of the nodes of a new start of the server, until the condition is met.
        async fn publish_until(&self, published: &[(&str, EventKind)], is_done: impl Fn() -> bool) {
            let sender =
                PushSender::new(Arc::new(key(&self.folder)), self.sessions.clone(), self.folder.path());
            let (events, receiver) = broadcast::channel(8);
            let hub = Hub::new(receiver);
            let done = async {
                for (node, kind) in published {
                    let (kind, node_id) = (kind.clone(), Some(node.to_string()));
                    events
                        .send(Event { kind, node_id, session_id: None, emitted_at: TsMs(1), seq: 1 })
                        .unwrap();
                }
                hub.publish_pending();
                while !is_done() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                // First: only later events reach it.
                biased;
                () = sender.follow(&hub) => unreachable!(),
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
        let request = second.request.join().unwrap();
        let head = request.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        let message = decrypt(private, &AUTH, &request[head + 4..]);
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["node_id"], "other");
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
        let message: Value =
            message(&event, Notification { occasion: Occasion::Blocked, turn_seconds: None });
        assert_eq!(message["text"], "me is blocked (permission)");
        assert_eq!((&message["node_id"], &message["session_id"]), (&json!("me"), &json!("work")));
        assert!(!message.to_string().contains("secret"));
    }
}
