//! A proxy between one node's agent and its model's API. It starts before the program, ends with the node, and is restarted when a
//! server takes over its nodes. Requests are attributed to the node's turns.

mod launch;
mod node;
mod persist;
mod settings;
mod state;
mod usage;
mod vars;

pub(crate) use launch::ProxyLaunch;
pub use nerve_api::request::{ProxyBudget, ProxyPrices, ProxySettings};
pub use nerve_api::value::Provider;
pub use node::NodeProxy;
pub(crate) use persist::StoredProxy;
pub use settings::check;
pub(crate) use usage::SpendSink;
#[cfg(test)]
pub(crate) use usage::answered_call;

use std::path::PathBuf;

/// Storage and observers of proxies. Without a folder there are no logs, and a proxy does not
/// survive its server.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// A private folder: `log/<server>/<session>/<node>.jsonl`, `run/<server>/<id>.json`.
    pub folder: Option<PathBuf>,
    /// Called for every finished request of every node, while the reply is being passed on. Must not block.
    pub on_call: Option<nerve_proxy::CallObserver>,
}
