//! An MCP (Model Context Protocol) server: nodes, turns and graphs as tools, screens and recordings as resources. A thin
//! layer over [`nerve_client`] and the protocol's SDK.
//!
//! | module | contents |
//! |---|---|
//! | [`link`] | the connection to the nerve server |
//! | `context` | the state shared by all clients |
//! | `server` | the request handlers |
//! | `tools` | the tools and their arguments |
//! | `tool_result` | results and errors of tools |
//! | `machines` | nodes of other machines |
//! | `call` | one tool call: arguments, cancellation, progress |
//! | `resources` | screens and recordings as text |
//! | `resource_updates` | notifications of changes to the list of nodes |
//! | `disconnect` | detects that a client has disconnected |
//! | [`http`] | streamable HTTP, for many clients |
//!
//! ```no_run
//! # async fn example() -> Result<(), nerve_mcp::McpError> {
//! use nerve_mcp::{Config, link::Link};
//!
//! let link = Link::to_socket("/run/user/1000/nerve/default.sock");
//! let config = Config { link, recordings: None, machines: None, legacy_tools: false };
//! nerve_mcp::serve(config, tokio::io::stdin(), tokio::io::stdout(), std::future::pending()).await
//! # }
//! ```
#![warn(missing_docs)]

mod call;
mod context;
mod disconnect;
pub mod http;
pub mod link;
mod machines;
mod resource_updates;
mod resources;
mod server;
mod tool_result;
mod tools;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use crate::context::Config;
use crate::context::ServerContext;
use crate::disconnect::DisconnectDetector;
use crate::server::McpServer;

/// Time that running calls may take to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves one client until it closes `input` or `stop` completes. Running calls then get a few seconds to finish. Nodes are
/// not affected.
///
/// # Errors
/// Returns an error if the client does not speak MCP or `output` fails.
pub fn serve(
    config: Config,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()> + Send + 'static,
) -> LocalBoxFuture<'static, Result<(), McpError>> {
    // Boxed and not generic: otherwise callers' crates would compile the whole server again.
    serve_boxed(config, Box::new(input), Box::new(output), Box::pin(stop))
}

fn serve_boxed(
    config: Config,
    input: Box<dyn AsyncRead + Unpin + Send>,
    output: Box<dyn AsyncWrite + Unpin + Send>,
    stop: BoxFuture<'static, ()>,
) -> LocalBoxFuture<'static, Result<(), McpError>> {
    Box::pin(serve_streams(config, input, output, stop))
}

async fn serve_streams(
    config: Config,
    input: Box<dyn AsyncRead + Unpin + Send>,
    output: Box<dyn AsyncWrite + Unpin + Send>,
    mut stop: BoxFuture<'static, ()>,
) -> Result<(), McpError> {
    let disconnected = CancellationToken::new();
    let _cancel_on_drop = disconnected.clone().drop_guard();
    let transport =
        AsyncRwTransport::new_server(DisconnectDetector::new(input, disconnected.clone()), output);
    let context = Arc::new(ServerContext::new(config, disconnected.clone()));
    // Subscribe before the first message, so that no change is missed.
    let _subscription = context.updates.subscribe();
    let server = McpServer::new(context, disconnected.clone());
    let started = tokio::select! {
        started = rmcp::serve_server(server, transport) => started,
        () = &mut stop => return Ok(()),
    };
    let running = match started {
        Ok(running) => running,
        // The client left before it sent anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        // The message is not quoted: it may be long and confidential.
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
            // Running calls do not count as cancelled by their client.
            disconnected.cancel();
            token.cancel();
            tokio::time::timeout(DRAIN_TIMEOUT, waiting).await.map_or(Ok(()), |ended| ended.map(drop))
        }
    };
    ended.map_err(|error| McpError::Failed(error.to_string()))
}

/// Reason why a server ended before its client disconnected.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The first message was not that of an MCP client.
    #[error("not an MCP client: {0}")]
    Handshake(String),
    /// An internal error.
    #[error("the MCP server failed: {0}")]
    Failed(String),
}
