//! The engine served over a Unix socket, TCP and HTTP, or to a client in the same process: one JSON object a line.
//!
//! | module | what it is |
//! |---|---|
//! | [`paths`] | where sockets, locks, logs and histories are |
//! | [`daemon`] | who owns a server's name: lock, socket, stale ones |
//! | [`server`] | from start to stop: what it listens on, the way down |
//! | [`access`] | tokens, TLS, and which addresses need it |
//! | `unix`, `tcp`, `http` | the ways in |
//! | [`front`] | the HTTP gate with services of other crates behind it, and no engine |
//! | `entry` | the first line over TCP: the token |
//! | `in_process` | the same for one client in the same process |
//! | `clients` | how many there are |
//! | `link` | the two ends of a client's stream |
//! | `connection` | one client: requests side by side |
//! | `outgoing` | what goes to it: replies and events in order |
//! | `requests` | a request given to the engine |
//! | `metrics` | numbers for Prometheus |
//! | `events` | a bounded queue of events for each subscriber |
//! | `dispatch` | the engine's method for each request |
//! | `answer` | outcomes of requests as messages |
//! | `convert` | events of the engine as messages |
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_server::error::ServerError> {
//! use nerve_core::engine::{Engine, EngineConfig};
//! use nerve_core::node::factory::FactoryConfig;
//! use nerve_server::paths::Places;
//! use nerve_server::server::ServerConfig;
//!
//! let places = Places::from_env();
//! let engine = Engine::new(EngineConfig { nodes: FactoryConfig {
//!     server: "default".to_string(),
//!     history_dir: Some(places.history.clone()),
//!     profile_dir: Some(places.profiles()),
//!     hook_relay: None,
//!     hosting: None,
//!     panes: Default::default(),
//!     proxies: Default::default(),
//! }, ..EngineConfig::default() });
//! nerve_server::serve(&ServerConfig::new("default", places), engine).await
//! # }
//! ```

pub mod access;
mod answer;
mod clients;
mod connection;
mod convert;
pub mod daemon;
mod dispatch;
mod entry;
pub mod error;
mod events;
pub mod front;
mod http;
mod in_process;
mod link;
mod metrics;
mod outgoing;
pub mod paths;
mod requests;
pub mod server;
mod serving;
mod tcp;
mod unix;

use std::future::Future;

use nerve_core::engine::Engine;
use tokio::signal::unix::{SignalKind, signal};

pub use crate::http::mount::{Closing, Mount, WholeRequest};
pub use crate::in_process::{InProcess, serve_in_process};

use crate::error::ServerError;
use crate::server::{Server, ServerConfig};

/// Serves an engine until a client sends SHUTDOWN or the process gets SIGTERM, SIGINT, SIGHUP or SIGQUIT.
///
/// # Errors
/// See [`Server::bind`] and [`Server::run`].
pub async fn serve(config: &ServerConfig, engine: Engine) -> Result<(), ServerError> {
    let stop = stop_signal();
    Server::bind(config)?.run(engine, stop).await
}

/// The description of the HTTP interface, as OpenAPI 3.1 in JSON: what `GET /openapi.json` answers.
pub fn openapi() -> String {
    http::document()
}

/// Ends when the process is told to end. The signals are listened for from the call on, not from the first poll: call it before
/// anything is started that a signal must not leave behind.
pub fn stop_signal() -> impl Future<Output = ()> {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
    let mut signals = kinds.map(|kind| signal(kind).ok());
    async move {
        let [term, interrupt, hangup, quit] = &mut signals;
        tokio::select! {
            () = one(term) => {}
            () = one(interrupt) => {}
            () = one(hangup) => {}
            () = one(quit) => {}
        }
    }
}

async fn one(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        // It cannot be listened for: the other ways to stop remain.
        None => std::future::pending().await,
    }
}
