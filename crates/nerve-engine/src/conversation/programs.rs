//! Identifies the programs that take part in conversations.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use nerve_api::request::NodeRef;
use nerve_node::{Node, NodeHandle};
use parking_lot::Mutex;

use super::ProgramSession;

/// Distinguishes the programs behind node names, so that a restarted program counts as a new one.
#[derive(Debug)]
pub(crate) struct Programs {
    engine: String,
    seen: Mutex<NodeNumbers>,
}

/// Node objects that were seen, each with its number.
#[derive(Debug, Default)]
struct NodeNumbers {
    last: u64,
    nodes: HashMap<NodeRef, (Weak<dyn Node>, u64)>,
}

impl Programs {
    pub(crate) fn new() -> Programs {
        Programs { engine: uuid::Uuid::new_v4().to_string(), seen: Mutex::default() }
    }

    /// Identifies the program of a node. A program in a host keeps its identity when the server restarts.
    pub(crate) fn session(&self, at: &NodeRef, node: &NodeHandle) -> ProgramSession {
        let metadata = node.info().metadata;
        let session = metadata.known_text("conversation_id");
        match metadata.known_text("host_id") {
            Some(host) => ProgramSession::new(&format!("host {host}"), session),
            None => ProgramSession::new(&format!("{}/{}", self.engine, self.number(at, node)), session),
        }
    }

    /// Makes the node a new program that has seen no messages.
    pub(crate) fn forget(&self, at: NodeRef) {
        let mut seen = self.seen.lock();
        seen.nodes.remove(&at.without_default_session());
    }

    /// Returns a number that is unique to this node object.
    fn number(&self, at: &NodeRef, node: &NodeHandle) -> u64 {
        let mut seen = self.seen.lock();
        // A weak reference keeps the address from being reused.
        if let Some((same, number)) = seen.nodes.get(at)
            && std::ptr::addr_eq(same.as_ptr(), Arc::as_ptr(node))
        {
            return *number;
        }
        seen.nodes.retain(|_, (node, _)| node.strong_count() > 0);
        seen.last += 1;
        let number = seen.last;
        seen.nodes.insert(at.clone(), (Arc::downgrade(node), number));
        number
    }
}
