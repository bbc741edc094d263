//! nerve as a server of the Model Context Protocol: nodes, turns and graphs as tools of any MCP client, screens and recordings as its
//! resources. A thin layer over [`nerve_client`]; the protocol itself is the SDK's.
//!
//! | module | what it is |
//! |---|---|
//! | [`link`] | the nerve server that tools talk to |
//! | `server` | what a client may ask for |
//! | `tools` | the tools: what they take, what they do |
//! | `tool_result` | what tools answer, failures too |
//! | `call` | one call of a tool: its arguments, its cancellation, its progress |
//! | `resources` | screens and recordings as text |
//! | `resource_updates` | that the list of nodes is another one now |
//! | `disconnect` | a client that leaves |
//! | [`http`] | the same over HTTP, for many clients |
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_mcp::McpError> {
//! use nerve_mcp::{Config, link::Link};
//!
//! let link = Link::to_socket("/run/user/1000/nerve/default.sock");
//! let config = Config { link, recordings: None };
//! nerve_mcp::serve(config, tokio::io::stdin(), tokio::io::stdout(), std::future::pending()).await
//! # }
//! ```
#![warn(missing_docs)]

mod call;
mod disconnect;
pub mod http;
pub mod link;
mod resource_updates;
mod resources;
mod server;
mod tool_result;
mod tools;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nerve_record::store::Store;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::disconnect::DisconnectDetector;
use crate::link::Link;
use crate::server::{McpServer, ServerContext};

/// How long answers that are on their way may take when the process is told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// What an MCP server is made of, for one client or for many.
#[derive(Debug)]
pub struct Config {
    /// Where nodes are.
    pub link: Link,
    /// Where recordings are; `None`: they are no resources.
    pub recordings: Option<Store>,
}

/// Serves one client until it closes `reading` or `stop` is done. Answers that are on their way then still have a few seconds. Nodes
/// are left as they are.
///
/// # Errors
/// The client speaks another protocol, or nobody reads `writing`.
pub async fn serve(
    config: Config,
    reading: impl AsyncRead + Unpin + Send + 'static,
    writing: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), McpError> {
    let disconnected = CancellationToken::new();
    let _at_the_end = disconnected.clone().drop_guard();
    let transport =
        AsyncRwTransport::new_server(DisconnectDetector::new(reading, disconnected.clone()), writing);
    let context = Arc::new(ServerContext::new(config, disconnected.clone()));
    // From now on, and not from its first word on: it is to miss nothing.
    let _listening = context.updates.subscribe();
    let server = McpServer::new(context, disconnected.clone());
    tokio::pin!(stop);
    let started = tokio::select! {
        started = rmcp::serve_server(server, transport) => started,
        () = &mut stop => return Ok(()),
    };
    let running = match started {
        Ok(running) => running,
        // It left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        // What it sent may be long, and secret.
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            return Err(McpError::Handshake(
                "the first message must be the request 'initialize'".to_string(),
            ));
        }
        Err(error) => return Err(McpError::Handshake(error.to_string())),
    };
    let token = running.cancellation_token();
    let waiting = running.waiting();
    tokio::pin!(waiting);
    let ended = tokio::select! {
        ended = &mut waiting => ended.map(drop),
        () = &mut stop => {
            // Calls that wait are given up, and not cancelled by their client.
            disconnected.cancel();
            token.cancel();
            tokio::time::timeout(DRAIN_TIMEOUT, waiting).await.map_or(Ok(()), |ended| ended.map(drop))
        }
    };
    ended.map_err(|error| McpError::Failed(error.to_string()))
}

/// Why serving ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// What came first was not what a client of the protocol sends.
    #[error("no MCP client is at the other end: {0}")]
    Handshake(String),
    /// A fault of this program.
    #[error("the MCP server failed: {0}")]
    Failed(String),
}
