//! That the list of nodes is another one now: told to the client as it happens.

use std::sync::Arc;
use std::time::Duration;

use nerve_proto::EventType;
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::link::{Link, Listening};

/// What makes the list another one.
const TYPES: [EventType; 2] = [EventType::NodeCreated, EventType::NodeStopped];
/// A server that does not run is looked for so often, unless a call finds it earlier.
const LOOK: Duration = Duration::from_secs(5);

/// Who tells of changes; many may listen.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    count: watch::Sender<u64>,
    gone: CancellationToken,
}

impl Changes {
    /// Watches the server until `gone`. Must be called within a tokio runtime.
    pub(crate) fn watch(link: Arc<Link>, gone: CancellationToken) -> Changes {
        let changes = Changes { count: watch::Sender::new(0), gone };
        let watching = changes.clone();
        tokio::spawn(async move {
            let gone = watching.gone.clone();
            gone.run_until_cancelled(watching.run(&link)).await;
        });
        changes
    }

    async fn run(&self, link: &Link) {
        let mut first = true;
        loop {
            if let Ok(Listening { client: _client, mut events }) = link.listening(&TYPES, None, None).await {
                // What happened while nobody listened is not known.
                if !first {
                    self.one_more();
                }
                while let Some(event) = events.next().await {
                    let counts = TYPES.iter().chain([&EventType::EventsDropped]);
                    if counts.into_iter().any(|kind| kind.as_str() == event.event_type) {
                        self.one_more();
                    }
                }
                self.one_more();
            }
            first = false;
            // Not before its time: the connection of a server that goes down ends at once.
            tokio::select! {
                () = link.reached() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn one_more(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Tells a client that began with `initialize`, until it is gone.
    pub(crate) async fn tell(&self, peer: Peer<RoleServer>) {
        let mut count = self.count.subscribe();
        let telling = async {
            while count.changed().await.is_ok() && peer.notify_resource_list_changed().await.is_ok() {}
        };
        self.gone.run_until_cancelled(telling).await;
    }

    /// Tells one that listens by a request, until that is cancelled.
    pub(crate) async fn tell_listener(&self, sink: &SubscriptionSink) {
        let mut count = self.count.subscribe();
        let telling = async {
            while count.changed().await.is_ok() && sink.notify_resource_list_changed().await.is_ok() {}
        };
        self.gone.run_until_cancelled(telling).await;
    }
}
