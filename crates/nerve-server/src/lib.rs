//! Serves the engine over a Unix socket, TCP and HTTP, or to a client in the same process. The protocol is one JSON
//! object per line.
//!
//! | module | contents |
//! |---|---|
//! | [`paths`] | locations of sockets, locks, logs and histories |
//! | [`daemon`] | ownership of a server's name: lock and socket |
//! | [`config`] | the settings of a server |
//! | [`server`] | a server's life cycle |
//! | [`access`] | authentication and TLS |
//! | `unix`, `tcp`, `http` | the transports |
//! | [`gate_service`] | the HTTP gate with mounted services and no engine |
//! | `in_process_server` | a server for one client in the same process |
//! | `connection` | one client: concurrent requests |
//! | `send_queue` | replies and events to a client, in order |
//! | `requests` | executes requests |
//! | `metrics` | metrics for Prometheus |
//! | `events` | a bounded queue of events for each subscriber |
//! | `reply_context` | outcomes of requests as messages |
//! | [`web`] | the web console: page, logins and sessions of browsers |
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_server::error::ServerError> {
//! use nerve_engine::{Engine, EngineConfig};
//! use nerve_node::factory::FactoryConfig;
//! use nerve_server::config::ServerConfig;
//! use nerve_server::paths::ServerPaths;
//!
//! let paths = ServerPaths::from_env();
//! let engine = Engine::new(EngineConfig {
//!     nodes: FactoryConfig {
//!         server: "default".to_string(),
//!         history_dir: Some(paths.data.history.clone()),
//!         profile_dir: Some(paths.data.profiles.clone()),
//!         ..FactoryConfig::default()
//!     },
//!     ..EngineConfig::default()
//! });
//! nerve_server::serve(&ServerConfig::new("default", paths), engine).await
//! # }
//! ```
#![warn(missing_docs)]

pub mod access;
mod client_origin;
mod clients;
pub mod config;
mod connection;
pub mod daemon;
pub mod error;
mod events;
pub mod gate_service;
mod handshake;
mod http;
mod in_process_server;
mod legacy_names;
mod line;
mod link;
mod metrics;
pub mod paths;
mod refusal;
mod reply_context;
mod requests;
mod send_queue;
pub mod server;
mod signals;
mod state;
mod tcp;
mod unix;
pub mod web;

use nerve_engine::Engine;

pub use crate::http::mount::{BufferedRequest, Mount, ShutdownSignal};
pub use crate::in_process_server::{InProcessServer, serve_in_process};
pub use crate::signals::stop_signal;

use crate::config::ServerConfig;
use crate::error::ServerError;
use crate::server::Server;

/// Serves an engine until a client sends SHUTDOWN or the process gets SIGTERM, SIGINT, SIGHUP or SIGQUIT.
///
/// # Errors
/// See [`Server::bind`] and [`Server::run`].
pub async fn serve(config: &ServerConfig, engine: Engine) -> Result<(), ServerError> {
    let stop = stop_signal();
    Server::bind(config)?.run(engine, stop).await
}

/// Returns the OpenAPI 3.1 description of the HTTP interface, as served at `GET /openapi.json`.
pub fn openapi() -> String {
    http::document()
}
