//! That the list of nodes is another one now: told to the client as it happens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nerve_api::EventType;
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::link::{Link, Listening};

/// What makes the list another one.
const TYPES: [EventType; 2] = [EventType::NodeCreated, EventType::NodeStopped];
/// A server that does not run is looked for so often, unless a call finds it earlier.
const LOOK: Duration = Duration::from_secs(5);

/// Who tells of changes; many may listen. The server is watched while somebody does.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    link: Arc<Link>,
    count: watch::Sender<u64>,
    watching: Arc<Mutex<bool>>,
    gone: CancellationToken,
}

impl Changes {
    /// `gone`: nobody is told any more.
    pub(crate) fn new(link: Arc<Link>, gone: CancellationToken) -> Changes {
        Changes { link, count: watch::Sender::new(0), watching: Arc::default(), gone }
    }

    /// Listens: what changes from now on is told. Must be called within a tokio runtime.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.count.subscribe();
        if !std::mem::replace(&mut *watching, true) {
            let (changes, times) = (self.clone(), self.link.times());
            tokio::spawn(async move { changes.watch(times).await });
        }
        receiver
    }

    /// Watches the server until nobody listens. `times`: how often it had been reached when somebody began to.
    async fn watch(&self, mut times: u64) {
        loop {
            tokio::select! {
                () = self.gone.cancelled() => return,
                () = self.count.closed() => {}
                () = self.run(&self.link, times) => {}
            }
            times = self.link.times();
            let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
            if self.count.receiver_count() == 0 {
                *watching = false;
                return;
            }
        }
    }

    async fn run(&self, link: &Link, times: u64) {
        // What happened while nobody listened is not known. At first that is nothing, unless somebody has called meanwhile.
        let (mut was_away, only_this) = (false, times + 1);
        loop {
            if let Ok(Listening { client: _client, mut events }) = link.listening(&TYPES, None, None).await {
                if was_away || link.times() > only_this {
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
            was_away = true;
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
    pub(crate) async fn tell(&self, peer: Peer<RoleServer>, client_gone: &CancellationToken) {
        let mut count = self.listen();
        let telling = async {
            while count.changed().await.is_ok() && peer.notify_resource_list_changed().await.is_ok() {}
        };
        client_gone.run_until_cancelled(telling).await;
    }

    /// Tells one that listens by a request, until that is cancelled.
    pub(crate) async fn tell_listener(&self, sink: &SubscriptionSink) {
        let mut count = self.listen();
        let telling = async {
            while count.changed().await.is_ok() && sink.notify_resource_list_changed().await.is_ok() {}
        };
        self.gone.run_until_cancelled(telling).await;
    }
}
