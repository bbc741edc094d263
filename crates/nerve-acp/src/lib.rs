//! An ACP (Agent Client Protocol, versions 1 and 2) server: an editor uses a terminal agent, which runs as a node of a nerve server.
//! The messages are those of [`nerve_acp_protocol`].
//!
//! | module | contents |
//! |---|---|
//! | `config` | the settings of a server, and how it connects |
//! | `client` | what was agreed with the client, and updates in its version of the protocol |
//! | `version2` | the updates of version 2 |
//! | `context_size` | the sizes of the models' contexts |
//! | `response` | responses to requests, and notices that follow them |
//! | `server_error` | errors of nerve as errors of the protocol |
//! | `server` | the methods |
//! | `session` | a session and its node |
//! | `turn` | a prompt: its events, its cancellation, its stop reason |
//! | `stop_reason` | the reason why a turn ended |
//! | `turn_updates` | updates of the running turn |
//! | `permission` | a dialog of the agent as a permission request |
//! | `tool_call` | tool calls and plans |
//! | `prompt_text` | content blocks as the text of a prompt |
//! | `mcp_servers` | MCP servers as arguments of the agent |
//! | `transcript` | earlier turns as updates |
#![warn(missing_docs)]

mod client;
mod config;
mod context_size;
mod mcp_servers;
mod permission;
mod prompt_text;
mod response;
mod server;
mod server_error;
mod session;
mod stop_reason;
mod tool_call;
mod transcript;
mod turn;
mod turn_updates;
mod version2;

use std::sync::Arc;
use std::time::Duration;

use nerve_acp_protocol::{message, peer, rpc_error, types};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use crate::config::{Config, ConnectError, Connector};
use crate::peer::Peer;
use crate::server::Server;

/// Time that the client has at the end to read the last messages.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves one client until it closes `input`, `output` fails, or `stop` completes. Nodes that this server started are then stopped, except
/// with [`Config::keep`], and except those whose dialog waits for an answer.
///
/// # Errors
/// Returns the I/O error of `input`.
pub async fn serve(
    config: Config,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let closing = CancellationToken::new();
    let (peer, writer) = Peer::start(output, closing.clone());
    let server = Arc::new(Server::new(config, Arc::new(peer), closing));
    let done = server.run(input, stop).await;
    // The writer ends with the last sender, after it has written everything.
    drop(server);
    let _ = tokio::time::timeout(WRITE_TIMEOUT, writer).await;
    done
}
