//! Deprecated methods of sessions, kept for callers of nerve's first version. Each warns once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_agent::parse::ParserKind;
use nerve_node::error::EngineError;
use serde_json::Value;

use super::{Session, stop_all};
use crate::context::RunContext;
use crate::executable::Executable;

impl Session {
    /// Deprecated: [`Session::register`].
    ///
    /// # Errors
    /// See [`Session::register`].
    #[deprecated(note = "use Session::register(node, Some(name))")]
    pub fn add(&self, name: &str, node: impl Into<Executable>) -> Result<(), EngineError> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, "Session::add is deprecated, use Session::register");
        self.register(node, Some(name))
    }

    /// Deprecated: [`Session::get`].
    #[deprecated(note = "use Session::get")]
    pub fn get_channel(&self, name: &str) -> Option<Executable> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, "Session::get_channel is deprecated, use Session::get");
        self.get(name)
    }

    /// Deprecated: [`Session::list_nodes`].
    #[deprecated(note = "use Session::list_nodes")]
    pub fn list_channels(&self) -> Vec<String> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, "Session::list_channels is deprecated, use Session::list_nodes");
        self.list_nodes()
    }

    /// Deprecated: [`Executable::execute`].
    ///
    /// # Errors
    /// NotFound, and what the node says.
    #[deprecated(note = "use Session::find and Executable::execute")]
    pub async fn send(
        &self,
        name: &str,
        input: &str,
        parser: Option<ParserKind>,
        timeout: Option<Duration>,
    ) -> Result<Value, EngineError> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, "Session::send is deprecated, use Executable::execute");
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
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(&WARNED, "Session::close is deprecated, use Executable::stop or Session::stop");
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

/// Logs the message the first time it is called.
pub fn warn_once(warned: &AtomicBool, message: &'static str) {
    if !warned.swap(true, Ordering::Relaxed) {
        tracing::warn!("{message}");
    }
}
