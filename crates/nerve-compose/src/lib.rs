//! Embeds nerve with one call, for programs and their tests.
//!
//! | call | result |
//! |---|---|
//! | [`create_standalone`] | an engine and its client in this process: no socket, no daemon |
//! | [`StandaloneClient::standalone`] | the same, as a client only: `NerveClient::standalone(…)` |
//! | [`create_socket_server`] | a server on its Unix socket, and on TCP and HTTP if configured |
//! | [`create_http_server`] | a server that also listens for HTTP at an address |
//! | [`create_mcp`], [`create_mcp_of`] | MCP over HTTP, mounted on such a server or on a separate [gate](nerve_server::gate_service) |
//! | [`create_anthropic_proxy`], [`create_openai_proxy`] | a proxy between an agent and its model API, see [`nerve_proxy`] |
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use nerve_client::NerveClient;
//! use nerve_compose::{create_standalone, engine_config};
//! # use nerve_api::request::{CommandLine, CreateNode};
//! # use nerve_api::value::BackendKind;
//! # use nerve_server::paths::ServerPaths;
//!
//! # let home = tempfile::tempdir()?;
//! let paths = ServerPaths::under(home.path());
//! let nerve = create_standalone(engine_config("mine", &paths, None))?;
//! let params = CreateNode { backend: BackendKind::Bash, ..CreateNode::new("sh") };
//! let node = nerve.client().create_node(&params).await?;
//! let answer = node.execute("echo hello").await?;
//! assert_eq!(answer.response.text, "hello");
//! nerve.stop().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
#![warn(missing_docs)]

mod mcp;
mod running_server;
mod standalone_engine;

use std::path::PathBuf;

use nerve_engine::EngineConfig;
use nerve_node::factory::FactoryConfig;
use nerve_server::paths::{ServerPaths, private_directory};

pub use nerve_proxy::{create_anthropic_proxy, create_openai_proxy};

pub use crate::mcp::{create_mcp, create_mcp_of};
pub use crate::running_server::{RunningServer, create_http_server, create_socket_server};
pub use crate::standalone_engine::{Standalone, StandaloneClient, create_standalone};

/// Runs the examples of the manual as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct Page;

/// Returns the configuration of an engine whose nodes end with this process, and which keeps its files under `paths`.
///
/// `server` names the engine: 1–32 of `a-z 0-9 -`. `program` is the `nerve` program that relays agents' hooks; without one, hooks are
/// not used. Sessions and results of asynchronous executions are not stored unless `sessions_file` and `results_dir` are set. Runs are
/// not stored if their folder cannot be made private.
pub fn engine_config(server: &str, paths: &ServerPaths, program: Option<PathBuf>) -> EngineConfig {
    let private = |folder: PathBuf| private_directory(&folder).is_ok().then_some(folder);
    EngineConfig {
        nodes: FactoryConfig {
            server: server.to_string(),
            history_dir: Some(paths.data.history.clone()),
            profile_dir: Some(paths.data.profiles.clone()),
            hook_relay: program,
            hosting: None,
            panes: Default::default(),
            proxies: Default::default(),
        },
        runs_dir: private(paths.runs()),
        sessions_file: None,
        conversations: Some(paths.conversations()),
        results_dir: None,
        data_dirs: Some(paths.data.clone()),
        telemetry: Default::default(),
    }
}
