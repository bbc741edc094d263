//! Events on their way to subscribers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::clock::Clock;
use crate::command::{EngineEvent, EventKind, NodeRef};
use crate::metrics::{Metrics, TurnTimer};

/// Events kept for a subscriber that is slow; the oldest go first, and it is told how many.
const BACKLOG: usize = 4096;

/// Numbers events and hands them out. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sender: broadcast::Sender<EngineEvent>,
    /// Held while an event is numbered and sent: subscribers see numbers in order.
    order: Mutex<()>,
    seq: AtomicU64,
    clock: Clock,
    metrics: Metrics,
}

impl Publisher {
    /// A publisher without subscribers.
    pub fn new(clock: Clock) -> Publisher {
        let sender = broadcast::channel(BACKLOG).0;
        Publisher {
            shared: Arc::new(Shared {
                sender,
                order: Mutex::new(()),
                seq: AtomicU64::new(0),
                clock,
                metrics: Metrics::default(),
            }),
        }
    }

    /// Tells all subscribers. Never waits for one.
    pub fn publish(&self, node: Option<&NodeRef>, kind: EventKind) {
        let session = node.and_then(|node| node.session.as_deref());
        self.send(node.map(|node| node.node.as_str()), session, kind);
    }

    /// The same of something that is a session's, and no node's.
    pub fn publish_in(&self, session: &str, kind: EventKind) {
        self.send(None, Some(session), kind);
    }

    fn send(&self, node: Option<&str>, session: Option<&str>, kind: EventKind) {
        let shared = &self.shared;
        let _order = shared.order.lock().unwrap_or_else(PoisonError::into_inner);
        let event = EngineEvent {
            seq: shared.seq.fetch_add(1, Ordering::Relaxed) + 1,
            at: shared.clock.now(),
            node: node.map(str::to_string),
            session: session.map(str::to_string),
            kind,
        };
        // Nobody listens: that is fine.
        let _ = shared.sender.send(event);
    }

    /// What is counted beside what is told.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Counts a turn that begins now.
    pub(crate) fn begin_turn(&self, kind: &'static str) -> TurnTimer {
        self.shared.metrics.begin(kind, self.shared.clock)
    }

    /// All events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<EngineEvent> {
        self.shared.sender.subscribe()
    }
}
