//! That the list of nodes is another one now: told to the client as it happens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nerve_proto::EventType;
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::link::{Link, Subscription};

/// What makes the list another one.
const EVENT_TYPES: [EventType; 2] = [EventType::NodeCreated, EventType::NodeStopped];
/// A server that does not run is looked for so often, unless a call finds it earlier.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Who tells of changes; many may subscribe. The server is watched while somebody does.
#[derive(Debug, Clone)]
pub(crate) struct ResourceUpdates {
    link: Arc<Link>,
    version: watch::Sender<u64>,
    is_watching: Arc<Mutex<bool>>,
    disconnected: CancellationToken,
}

impl ResourceUpdates {
    /// `disconnected`: nobody is told any more.
    pub(crate) fn new(link: Arc<Link>, disconnected: CancellationToken) -> ResourceUpdates {
        ResourceUpdates { link, version: watch::Sender::new(0), is_watching: Arc::default(), disconnected }
    }

    /// Listens: what changes from now on is told. Must be called within a tokio runtime.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        let mut is_watching = self.is_watching.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.version.subscribe();
        if !std::mem::replace(&mut *is_watching, true) {
            let (changes, connect_count) = (self.clone(), self.link.connect_count());
            tokio::spawn(async move { changes.watch(connect_count).await });
        }
        receiver
    }

    /// Watches the server until nobody listens. `connect_count`: how often it had been reached when somebody began to.
    async fn watch(&self, mut connect_count: u64) {
        loop {
            tokio::select! {
                () = self.disconnected.cancelled() => return,
                () = self.version.closed() => {}
                () = self.run(&self.link, connect_count) => {}
            }
            connect_count = self.link.connect_count();
            let mut is_watching = self.is_watching.lock().unwrap_or_else(PoisonError::into_inner);
            if self.version.receiver_count() == 0 {
                *is_watching = false;
                return;
            }
        }
    }

    async fn run(&self, link: &Link, connect_count: u64) {
        // What happened while nobody listened is not known. At first that is nothing, unless somebody has called meanwhile.
        let (mut was_unreachable, own_connection) = (false, connect_count + 1);
        loop {
            if let Ok(Subscription { client: _client, mut events }) =
                link.subscribe(&EVENT_TYPES, None, None).await
            {
                if was_unreachable || link.connect_count() > own_connection {
                    self.bump();
                }
                while let Some(event) = events.next().await {
                    let counts = EVENT_TYPES.iter().chain([&EventType::EventsDropped]);
                    if counts.into_iter().any(|kind| kind.as_str() == event.event_type) {
                        self.bump();
                    }
                }
                self.bump();
            }
            was_unreachable = true;
            // Not before its time: the connection of a server that goes down ends at once.
            tokio::select! {
                () = link.wait_connected() => {}
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
            }
        }
    }

    fn bump(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    /// Tells a client that began with `initialize`, until it is disconnected.
    pub(crate) async fn notify_peer(&self, peer: Peer<RoleServer>, client_disconnected: &CancellationToken) {
        let mut version = self.subscribe();
        let notifying = async {
            while version.changed().await.is_ok() && peer.notify_resource_list_changed().await.is_ok() {}
        };
        client_disconnected.run_until_cancelled(notifying).await;
    }

    /// Tells one that listens by a request, until that is cancelled.
    pub(crate) async fn notify_subscriber(&self, sink: &SubscriptionSink) {
        let mut version = self.subscribe();
        let notifying = async {
            while version.changed().await.is_ok() && sink.notify_resource_list_changed().await.is_ok() {}
        };
        self.disconnected.run_until_cancelled(notifying).await;
    }
}
