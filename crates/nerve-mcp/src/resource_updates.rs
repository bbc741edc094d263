//! Notifies clients when the list of nodes changes.

use std::sync::Arc;
use std::time::Duration;

use nerve_api::EventType;
use parking_lot::Mutex;
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::link::{Link, Subscription};

/// Events that change the list.
const EVENT_TYPES: [EventType; 2] = [EventType::NodeCreated, EventType::NodeStopped];
/// Interval of attempts to reach a server, unless a call reaches it earlier.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Publishes changes of the list to subscribers. Watches the server only while there are subscribers.
#[derive(Debug, Clone)]
pub(crate) struct ResourceUpdates {
    link: Arc<Link>,
    version: watch::Sender<u64>,
    is_watching: Arc<Mutex<bool>>,
    disconnected: CancellationToken,
}

impl ResourceUpdates {
    /// Creates the publisher. It stops when `disconnected` is cancelled.
    pub(crate) fn new(link: Arc<Link>, disconnected: CancellationToken) -> ResourceUpdates {
        ResourceUpdates { link, version: watch::Sender::new(0), is_watching: Arc::default(), disconnected }
    }

    /// Subscribes to changes from now on. Must be called within a tokio runtime.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        let mut is_watching = self.is_watching.lock();
        let receiver = self.version.subscribe();
        if !std::mem::replace(&mut *is_watching, true) {
            let (changes, connect_count) = (self.clone(), self.link.connect_count());
            tokio::spawn(async move { changes.watch(connect_count).await });
        }
        receiver
    }

    /// Watches the server while there are subscribers. `connect_count`: number of connections made before the
    /// first client subscribed.
    async fn watch(&self, mut connect_count: u64) {
        loop {
            tokio::select! {
                () = self.disconnected.cancelled() => return,
                () = self.version.closed() => {}
                () = self.run(&self.link, connect_count) => {}
            }
            connect_count = self.link.connect_count();
            let mut is_watching = self.is_watching.lock();
            if self.version.receiver_count() == 0 {
                *is_watching = false;
                return;
            }
        }
    }

    async fn run(&self, link: &Link, connect_count: u64) {
        // The list may have changed before this subscription. That matters only if a call connected first and may have read it.
        let (mut was_unreachable, own_connection) = (false, connect_count + 1);
        loop {
            if let Ok(Subscription { client: _client, mut events }) =
                link.subscribe(&EVENT_TYPES, None, None).await
            {
                if was_unreachable || link.connect_count() > own_connection {
                    self.increment_version();
                }
                while let Some(event) = events.next().await {
                    let relevant_types = EVENT_TYPES.iter().chain([&EventType::EventsDropped]);
                    if relevant_types.into_iter().any(|kind| kind.as_str() == event.event_type) {
                        self.increment_version();
                    }
                }
                self.increment_version();
            }
            was_unreachable = true;
            // Always pause: connections to a server that is shutting down end at once.
            tokio::select! {
                () = link.wait_connected() => {}
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
            }
        }
    }

    fn increment_version(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Notifies a client that has sent `initialize`, until it disconnects.
    pub(crate) async fn notify_peer(&self, peer: Peer<RoleServer>, client_disconnected: &CancellationToken) {
        let mut version = self.subscribe();
        let notify_loop = async {
            while version.changed().await.is_ok() && peer.notify_resource_list_changed().await.is_ok() {}
        };
        client_disconnected.run_until_cancelled(notify_loop).await;
    }

    /// Notifies a client that has subscribed with a request, until no client is served any more.
    pub(crate) async fn notify_subscriber(&self, sink: &SubscriptionSink) {
        let mut version = self.subscribe();
        let notify_loop = async {
            while version.changed().await.is_ok() && sink.notify_resource_list_changed().await.is_ok() {}
        };
        self.disconnected.run_until_cancelled(notify_loop).await;
    }
}
