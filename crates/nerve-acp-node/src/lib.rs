//! Nodes for agents that speak the Agent Client Protocol (ACP, version 1): nerve is the client.
//!
//! | module | contents |
//! |---|---|
//! | `node` | the node: its operations, its description |
//! | `node::turn` | a turn: its queue, its cancellation, its end |
//! | `response` | the response of a turn |
//! | `session` | the running turn and the requested permissions; no I/O, no clock |
//! | `turn_content` | sections and effects of updates; no I/O, no clock |
//! | `link` | the connection: dispatches the agent's messages |
//! | `handshake` | the start of a session |
//! | `process` | the agent's process |
#![warn(missing_docs)]

mod handshake;
mod link;
mod node;
mod process;
mod response;
mod session;
mod turn_content;

use std::sync::Arc;

use nerve_api::request::NodeSpec;
use nerve_node::factory::NodeFactory;
use nerve_node::usage_ledger::UsageLedger;
use nerve_node::{NodeFuture, NodeHandle};

use crate::node::AcpNode;

/// Starts an agent and opens a session. The node is ready.
///
/// # Errors
/// InvalidRequest; Process: the agent does not start, ended, or does not speak the protocol; Authentication; Timeout; NotFound: it does
/// not continue the conversation. Nothing runs then.
pub fn start(factory: NodeFactory, spec: NodeSpec, ledger: UsageLedger) -> NodeFuture<'static, NodeHandle> {
    Box::pin(async move {
        let node = AcpNode::start(&factory, spec, ledger).await?;
        Ok(Arc::new(node) as NodeHandle)
    })
}
