//! A proxy between one node's agent and the API of its model: it starts before the program, ends with the node, and is there again when
//! a server takes its nodes back. What passes is tied to the node's turns.

mod launch;
mod node;
mod persist;
mod spec;
mod usage;

pub(crate) use launch::Starting;
pub use node::NodeProxy;
pub(crate) use persist::Kept;
pub use spec::{ProxyBudget, ProxyKind, ProxyPrices, ProxySpec};
pub(crate) use usage::SpendSink;
pub use usage::TurnUsage;

use std::path::PathBuf;

use crate::telemetry::Telemetry;

/// Where proxies keep what they need, and who is told what passes. Without a folder there are no logs, and no proxy is there again after
/// its server.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// A private folder: `log/<server>/<session>/<node>.jsonl`, `run/<server>/<id>.json`.
    pub folder: Option<PathBuf>,
    /// Told of every request of every node that has ended. It is called on the way of the reply and must not wait.
    pub on_call: Option<nerve_proxy::OnCall>,
    /// Where calls are told as spans.
    pub telemetry: Telemetry,
}
