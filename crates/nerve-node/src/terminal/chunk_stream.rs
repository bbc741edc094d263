//! The streamed answer of a turn.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::TerminalNode;
use crate::context::TurnContext;
use crate::error::EngineError;
use crate::prompt::Prompt;
use crate::response::Response;

/// The chunks of an answer, followed by its response. Dropping it cancels the turn.
#[derive(Debug)]
pub struct ChunkStream {
    chunks: mpsc::UnboundedReceiver<String>,
    turn: JoinHandle<Result<Response, EngineError>>,
    cancellation: CancellationToken,
}

impl ChunkStream {
    /// Returns the next chunk, or `None` at the end of the turn.
    pub async fn next(&mut self) -> Option<String> {
        self.chunks.recv().await
    }

    /// Waits for the response.
    ///
    /// # Errors
    /// See [`TerminalNode::execute`].
    pub async fn response(mut self) -> Result<Response, EngineError> {
        let result = (&mut self.turn).await;
        result.unwrap_or_else(|error| Err(EngineError::internal(error.to_string())))
    }
}

impl Drop for ChunkStream {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

impl TerminalNode {
    /// Sends a prompt and returns the chunks of its answer as they arrive. Dropping the stream withdraws the prompt.
    ///
    /// Must be called on a runtime.
    pub fn execute_stream(&self, context: TurnContext) -> ChunkStream {
        let (sender, chunks) = mpsc::unbounded_channel();
        let node = self.clone();
        let cancellation = context.cancellation().child_token();
        let context =
            context.with_cancellation(cancellation.clone()).with_chunks(Arc::new(move |chunk: &str| {
                // A send error means that the receiver was dropped.
                let _ = sender.send(chunk.to_string());
            }));
        let turn = tokio::spawn(async move {
            // The context owns the sender, so dropping it ends the chunks.
            let context = context;
            node.run_turn(Prompt::from_context(&context), &context).await
        });
        ChunkStream { chunks, turn, cancellation }
    }
}
