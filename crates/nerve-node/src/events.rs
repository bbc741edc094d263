//! Publishes engine events to subscribers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nerve_api::event::{Event, EventKind};
use nerve_api::request::NodeRef;
use nerve_host::clock::Clock;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::metrics::{Metrics, TurnTimer};

/// Events buffered for a slow subscriber. On overflow the oldest are dropped, and the subscriber learns how many.
const BACKLOG: usize = 4096;

/// Numbers events and sends them to the subscribers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sender: broadcast::Sender<Event>,
    /// Held while an event is numbered and sent, so that subscribers see the numbers in order.
    order: Mutex<()>,
    seq: AtomicU64,
    clock: Clock,
    metrics: Metrics,
}

impl Publisher {
    /// Creates a publisher without subscribers. It keeps an event only until all subscribers have received it.
    pub fn new(clock: Clock) -> Publisher {
        Publisher {
            shared: Arc::new(Shared {
                sender: broadcast::Sender::new(BACKLOG),
                order: Mutex::new(()),
                seq: AtomicU64::new(0),
                clock,
                metrics: Metrics::default(),
            }),
        }
    }

    /// Publishes an event of a node, or of the engine. Never blocks.
    pub fn publish(&self, node: Option<&NodeRef>, kind: EventKind) {
        // Events of a node without a session belong to the default session.
        let session = node.map(NodeRef::session_or_default);
        self.send(node.map(|node| node.node.as_str()), session, kind);
    }

    /// Publishes an event of a session.
    pub fn publish_in(&self, session: &str, kind: EventKind) {
        self.send(None, Some(session), kind);
    }

    fn send(&self, node: Option<&str>, session: Option<&str>, kind: EventKind) {
        let shared = &self.shared;
        // An event of a step also belongs to the step's node.
        let node_id = node.or(kind.step_node()).map(str::to_string);
        let _order = shared.order.lock();
        let event = Event {
            kind,
            node_id,
            session_id: session.map(str::to_string),
            emitted_at: shared.clock.now().into(),
            seq: shared.seq.fetch_add(1, Ordering::Relaxed) + 1,
        };
        // Fails if there are no subscribers.
        let _ = shared.sender.send(event);
    }

    /// Returns the metrics, which are updated along with the events.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Counts a turn that starts now.
    pub fn begin_turn(&self, kind: &'static str) -> TurnTimer {
        self.shared.metrics.begin(kind, self.shared.clock)
    }

    /// Subscribes to all events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.shared.sender.subscribe()
    }
}

/// Waits for an event of such a kind, or for lost events, which may include one. Returns false when the events end.
pub async fn wait_for(
    events: &mut broadcast::Receiver<Event>,
    is_wanted: impl Fn(&EventKind) -> bool,
) -> bool {
    loop {
        match events.recv().await {
            Ok(event) if !is_wanted(&event.kind) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_subscribers_are_not_kept() {
        let publisher = Publisher::new(Clock::start());
        let publish = || publisher.publish(None, EventKind::ServerShutdown { keep_nodes: false });
        publish();
        assert_eq!(publisher.shared.sender.len(), 0);
        let subscriber = publisher.subscribe();
        publish();
        assert_eq!(publisher.shared.sender.len(), 1);
        drop(subscriber);
        assert_eq!(publisher.shared.sender.len(), 0);
    }
}
