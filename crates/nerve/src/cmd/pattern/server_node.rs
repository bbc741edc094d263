//! Adapts a node of a server to the [`Node`] trait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nerve_api::reply::Turn;
use nerve_api::request::{ExecuteInput, Seconds};
use nerve_client::{ClientError, RemoteNode, StreamItem};
use nerve_node::context::TurnContext;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_node::{Node, NodeFuture};

use super::turn_display::TurnDisplay;
use crate::cmd::engine_error::engine_error;

/// A node of a server with its role in a loop.
#[derive(Debug)]
pub(super) struct ServerNode {
    node: RemoteNode,
    role: String,
    /// Number of started turns.
    turns: AtomicU32,
    display: Arc<TurnDisplay>,
}

impl ServerNode {
    /// Wraps a node.
    pub(super) fn new(node: RemoteNode, role: &str, display: Arc<TurnDisplay>) -> ServerNode {
        ServerNode { node, role: role.to_string(), turns: AtomicU32::new(0), display }
    }

    async fn turn(&self, context: &TurnContext) -> Result<Turn, ClientError> {
        let input = ExecuteInput {
            parser: context.parser,
            timeout: context.timeout.map(Seconds::from),
            ..ExecuteInput::from(context.input.as_str().unwrap_or_default())
        };
        let Some(chunks) = context.chunks() else { return self.node.execute(input).await };
        let mut stream = self.node.execute_stream(input).await?;
        while let Some(item) = stream.next().await {
            match item? {
                StreamItem::Chunk(chunk) => chunks(&chunk),
                StreamItem::Missed(_) => chunks("\n…\n"),
                StreamItem::Response(data) => return Ok(*data),
            }
        }
        Err(ClientError::Protocol("the stream ended without a response".to_string()))
    }
}

impl Node for ServerNode {
    fn id(&self) -> &str {
        self.node.id()
    }

    fn kind(&self) -> &'static str {
        "remote"
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn execute<'a>(&'a self, context: &'a TurnContext) -> NodeFuture<'a> {
        Box::pin(async move {
            self.display.begin_turn(self.turns.fetch_add(1, Ordering::Relaxed) + 1, &self.role);
            let turn = self.turn(context);
            tokio::pin!(turn);
            tokio::select! {
                biased;
                done = &mut turn => return done.map(Turn::into_value).map_err(engine_error),
                () = context.cancellation().cancelled() => {}
            }
            // Fails if the connection is closed.
            let _ = self.node.interrupt().await;
            let _ = turn.await;
            Err(EngineError::new(ErrorKind::Cancelled, "cancelled"))
        })
    }

    /// Returns the time that an agent may need to end an interrupted turn.
    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn interrupt(&self) -> NodeFuture<'_, ()> {
        Box::pin(async { self.node.interrupt().await.map_err(engine_error) })
    }
}
