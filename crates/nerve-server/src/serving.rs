//! What all connections of a server share.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nerve_core::engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::dispatch::{Dispatcher, dispatcher};
use crate::events::{Hub, Tag};

/// The engine, its events, and how far the server is on its way down.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) engine: Engine,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) hub: Hub,
    /// Set when the server was asked to go down.
    pub(crate) stopping: CancellationToken,
    /// Set when all nodes are stopped: connections write what they have and close.
    pub(crate) closing: CancellationToken,
    /// Another one each time a server is started: clients that connect again know by it whether events count anew.
    pub(crate) id: String,
    keep_nodes: AtomicBool,
    tags: AtomicU64,
}

impl Serving {
    pub(crate) fn new(engine: Engine) -> Serving {
        let hub = Hub::new(engine.subscribe());
        let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
        let id = format!("{:016x}", RandomState::new().hash_one(0));
        let dispatcher = dispatcher(engine.clone());
        Serving { engine, dispatcher, hub, stopping, closing, id, keep_nodes: false.into(), tags: 0.into() }
    }

    /// A tag for the chunks of a turn.
    pub(crate) fn tag(&self) -> Tag {
        self.tags.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the server to go down. The first caller decides about the nodes.
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
