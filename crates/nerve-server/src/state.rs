//! State shared by all connections of a server.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nerve_engine::Engine;
use nerve_engine::dispatch::{Dispatcher, dispatcher};
use tokio_util::sync::CancellationToken;

use crate::events::{Hub, Tag};

/// The engine, its events and the progress of a shutdown.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) engine: Engine,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) hub: Hub,
    /// Cancelled when a shutdown was requested.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when all nodes are stopped: connections send their queues and close.
    pub(crate) closing: CancellationToken,
    /// Random per server start. Clients that reconnect learn from it that event numbers started over.
    pub(crate) id: String,
    keep_nodes: AtomicBool,
    tags: AtomicU64,
}

impl ServerState {
    pub(crate) fn new(engine: Engine) -> ServerState {
        let hub = Hub::new(engine.subscribe_since_start());
        let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
        let id = format!("{:016x}", RandomState::new().hash_one(0));
        let dispatcher = dispatcher(engine.clone());
        ServerState {
            engine,
            dispatcher,
            hub,
            stopping,
            closing,
            id,
            keep_nodes: false.into(),
            tags: 0.into(),
        }
    }

    /// Returns a new tag for the output chunks of a turn.
    pub(crate) fn tag(&self) -> Tag {
        self.tags.fetch_add(1, Ordering::Relaxed)
    }

    /// Requests a shutdown. The first caller decides whether nodes are kept.
    pub(crate) fn shut_down(&self, keep_nodes: bool) {
        if !self.stopping.is_cancelled() {
            self.keep_nodes.store(keep_nodes, Ordering::Release);
            self.stopping.cancel();
        }
    }

    pub(crate) fn keeps_nodes(&self) -> bool {
        self.keep_nodes.load(Ordering::Acquire)
    }
}
