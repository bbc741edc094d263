//! Sends notifications to the browsers that subscribed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, StatusCode, Uri, header};
use nerve_api::value::Occasion;
use nerve_api::{EventMessage, EventType};
use nerve_llm::http_client;
use nerve_llm::retry;
use nerve_notifications::{Notification, NotificationState, NotificationTracker, OpenDialog};
use nerve_types::{TsNs, files};
use nerve_web_push::encryption::encrypt;
use nerve_web_push::subscription::PushSubscription;
use nerve_web_push::vapid::VapidKey;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

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

    /// Follows the server's events. Never completes. `read_state` is called after events were dropped.
    pub(crate) async fn follow<F: Future<Output = NotificationState>>(
        &self,
        hub: &Hub,
        read_state: impl Fn() -> F,
    ) {
        let filter = Filter { types: Some(NotificationTracker::EVENT_TYPES.to_vec()), ..Filter::default() };
        let queue = hub.subscribe(filter, None);
        let mut tracker = NotificationTracker::new(MIN_TURN);
        let mut stored = self.read_dialogs();
        tracker.restore(stored.clone());
        loop {
            for event in queue.next_events().await {
                let Ok(event) = EventMessage::of(&event.event) else { continue };
                if event.kind() == Some(EventType::EventsDropped) {
                    let missed = tracker.catch_up(&read_state().await, Instant::now());
                    missed.iter().for_each(|(event, notification)| self.send_to_all(event, *notification));
                } else if let Some(notification) = tracker.observe(&event, Instant::now()) {
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
mod tests;
