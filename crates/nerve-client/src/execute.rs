//! Executes a prompt and streams its answer.

use std::sync::Arc;

use nerve_api::reply::Turn;
use tokio::sync::mpsc;

use crate::chunks::Chunk;
use crate::error::ClientError;
use crate::link::{Link, Prompt, decode_reply};
use crate::pending_requests::{PendingReply, Reply};

/// An item of an [`ExecuteStream`].
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// A further part of the answer.
    Chunk(String),
    /// Number of chunks lost here because the stream was read too slowly. The response is still complete.
    Missed(u64),
    /// The finished turn, which is the last item.
    Response(Box<Turn>),
}

/// Streams an answer as it grows, then the response. Dropping the stream does not stop the turn: interrupt the node for that.
///
/// A connection that subscribed to events without OUTPUT_CHUNK receives no chunks, only the response.
#[derive(Debug)]
pub struct ExecuteStream {
    /// Closed when the reply has arrived.
    chunks: mpsc::Receiver<Chunk>,
    /// The chunk that follows a [`StreamItem::Missed`].
    held: Option<String>,
    wait: Wait,
    response: Option<Result<StreamItem, ClientError>>,
    prompt: Prompt,
    /// Keeps the connection open until the reply, even if client and node are dropped.
    link: Arc<Link>,
}

/// Event that a stream waits for next.
#[derive(Debug)]
enum Wait {
    Reply(PendingReply),
    /// A new connection: the prompt was not sent over the last one.
    Connection,
    Done,
}

impl ExecuteStream {
    /// Sends a prompt.
    pub(crate) async fn open(link: Arc<Link>, prompt: Prompt) -> Result<ExecuteStream, ClientError> {
        let (reply, chunks) = link.start(&prompt).await?;
        let wait = Wait::Reply(reply);
        Ok(ExecuteStream { chunks, held: None, wait, response: None, prompt, link })
    }

    /// Returns the next item; `None` after the response or an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<StreamItem, ClientError>> {
        if let Some(text) = self.held.take() {
            return Some(Ok(StreamItem::Chunk(text)));
        }
        loop {
            match self.chunks.recv().await {
                Some(Chunk { lost_before: 0, text }) => return Some(Ok(StreamItem::Chunk(text))),
                Some(Chunk { lost_before, text }) => {
                    self.held = Some(text);
                    return Some(Ok(StreamItem::Missed(lost_before)));
                }
                None => {}
            }
            match &mut self.wait {
                Wait::Reply(reply) => {
                    let Reply { outcome, missed } = reply.wait().await;
                    if matches!(&outcome, Err(error) if self.link.should_resend(error, self.prompt.deadline))
                    {
                        self.wait = Wait::Connection;
                        continue;
                    }
                    self.wait = Wait::Done;
                    let response =
                        outcome.and_then(|data| Ok(StreamItem::Response(Box::new(decode_reply(&data)?))));
                    if missed == 0 {
                        return Some(response);
                    }
                    self.response = Some(response);
                    return Some(Ok(StreamItem::Missed(missed)));
                }
                Wait::Connection => match self.link.start(&self.prompt).await {
                    Ok((reply, chunks)) => {
                        self.chunks = chunks;
                        self.wait = Wait::Reply(reply);
                    }
                    Err(error) => {
                        self.wait = Wait::Done;
                        return Some(Err(error));
                    }
                },
                Wait::Done => return self.response.take(),
            }
        }
    }
}
