//! Names of nerve's first version, kept for its callers and its graph files: deprecated methods, which warn once, and old
//! names of fields.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_node::error::EngineError;
use nerve_node::factory::NodeFactory;
use serde_json::Value;

use crate::context::RunContext;
use crate::executable::Executable;
use crate::session::manager::SessionManager;
use crate::session::{Session, stop_all};

/// Logs a message the first time it is reached.
#[macro_export]
macro_rules! warn_deprecated {
    ($message:literal) => {{
        static HAS_WARNED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        $crate::compat::warn_once(&HAS_WARNED, $message);
    }};
}

impl Session {
    /// Deprecated: [`Session::register`].
    ///
    /// # Errors
    /// See [`Session::register`].
    #[deprecated(note = "use Session::register(node, Some(name))")]
    pub fn add(&self, name: &str, node: impl Into<Executable>) -> Result<(), EngineError> {
        warn_deprecated!("Session::add is deprecated, use Session::register");
        self.register(node, Some(name))
    }

    /// Deprecated: [`Session::get`].
    #[deprecated(note = "use Session::get")]
    pub fn get_channel(&self, name: &str) -> Option<Executable> {
        warn_deprecated!("Session::get_channel is deprecated, use Session::get");
        self.get(name)
    }

    /// Deprecated: [`Session::list_nodes`].
    #[deprecated(note = "use Session::list_nodes")]
    pub fn list_channels(&self) -> Vec<String> {
        warn_deprecated!("Session::list_channels is deprecated, use Session::list_nodes");
        self.list_nodes()
    }

    /// Deprecated: [`Executable::execute`].
    ///
    /// # Errors
    /// NotFound, and the errors of the node.
    #[deprecated(note = "use Session::find and Executable::execute")]
    pub async fn send(
        &self,
        name: &str,
        input: &str,
        parser: Option<ParserKind>,
        timeout: Option<Duration>,
    ) -> Result<Value, EngineError> {
        warn_deprecated!("Session::send is deprecated, use Executable::execute");
        let mut context = RunContext::new(self).with_input(input);
        context.turn.parser = parser;
        context.turn.timeout = timeout;
        self.find(name)?.execute(&context).await
    }

    /// Deprecated: [`Executable::stop`] and [`Session::unregister`], or [`Session::stop`] for all (`None`).
    ///
    /// # Errors
    /// NotFound.
    #[deprecated(note = "use Executable::stop and Session::unregister, or Session::stop")]
    pub async fn close(&self, name: Option<&str>) -> Result<(), EngineError> {
        warn_deprecated!("Session::close is deprecated, use Executable::stop or Session::stop");
        let nodes = match name {
            Some(name) => vec![(name.to_string(), self.find(name)?)],
            None => self.nodes(),
        };
        for (name, _) in &nodes {
            self.unregister(name);
        }
        stop_all(nodes.into_iter().filter_map(|(_, entry)| entry.node().cloned()).collect(), "closed").await;
        Ok(())
    }
}

impl SessionManager {
    /// Deprecated name of the node factory.
    #[deprecated(note = "use SessionManager::node_factory")]
    pub fn channels(&self) -> &NodeFactory {
        warn_deprecated!("SessionManager::channels is deprecated, use node_factory");
        self.node_factory()
    }
}

/// Logs a message unless `has_warned` is set, and sets it; see [`warn_deprecated`].
pub fn warn_once(has_warned: &AtomicBool, message: &'static str) {
    if !has_warned.swap(true, Ordering::Relaxed) {
        tracing::warn!("{message}");
    }
}

/// Returns the accepted names of a field of a graph file that has aliases, the current one first.
pub(crate) fn spellings(field: &str) -> &'static [&'static str] {
    match field {
        "graph" => &["graph", "graph_id", "id", "dag_id"],
        "steps" => &["steps", "tasks"],
        "id" => &["id", "step_id", "task_id"],
        "node" => &["node", "node_id", "channel_id"],
        "input" => &["input", "text"],
        _ => &[],
    }
}
