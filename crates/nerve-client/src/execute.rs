//! Executes a prompt and streams its answer.

use nerve_api::value::ParserKind;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::reply::Turn;
use nerve_api::request::ConversationOptions;
use nerve_api::{EventMessage, EventType};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::typed;
use crate::connection::Line;
use crate::error::ClientError;
use crate::link::Link;
use crate::pending::{PendingReply, Reply};

/// Capacity of the queue of chunks. Further chunks for a slow reader are dropped and counted.
const CHUNK_QUEUE: usize = 1024;

/// Options of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecuteOptions {
    /// Parser: `claude`, `codex`, `gemini` or `none`. Default: the node's.
    pub parser: Option<ParserKind>,
    /// Time limit of the whole turn, including the time in the queue. Default: the node's.
    pub timeout: Option<Duration>,
    /// Fails at once if another turn is running, instead of queueing.
    pub fail_if_busy: bool,
    /// Lets the turn continue after `timeout`, instead of interrupting it.
    pub detach_on_timeout: bool,
    /// Earlier messages, and where the turn is stored. Default: the node's conversation.
    pub conversation: Option<ConversationOptions>,
    /// Parent span of the turn, in the format of the `traceparent` header (W3C Trace Context).
    pub traceparent: Option<String>,
    /// Vendor-specific trace data, in the format of the `tracestate` header.
    pub tracestate: Option<String>,
}

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

/// Next thing that a stream waits for.
#[derive(Debug)]
enum Wait {
    Reply(PendingReply),
    /// A new connection: the prompt was not sent over the last one.
    Connection,
    Done,
}

#[derive(Debug)]
struct Chunk {
    lost_before: u64,
    text: String,
}

impl ExecuteStream {
    /// Sends a prompt.
    pub(crate) async fn open(link: Arc<Link>, prompt: Prompt) -> Result<ExecuteStream, ClientError> {
        let (reply, chunks) = link.start(&prompt).await?;
        let wait = Wait::Reply(reply);
        Ok(ExecuteStream { chunks: chunks.0, held: None, wait, response: None, prompt, link })
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
                    let response = outcome.and_then(typed).map(|data| StreamItem::Response(Box::new(data)));
                    if missed == 0 {
                        return Some(response);
                    }
                    self.response = Some(response);
                    return Some(Ok(StreamItem::Missed(missed)));
                }
                Wait::Connection => match self.link.start(&self.prompt).await {
                    Ok((reply, chunks)) => {
                        self.chunks = chunks.0;
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

/// A prompt that can be sent over any connection.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) line: Line,
    /// Deadline for finding a connection.
    pub(crate) deadline: Instant,
    node: String,
    session: Option<String>,
}

impl Prompt {
    pub(crate) fn new(line: Line, node: &str, session: Option<&str>, deadline: Instant) -> Prompt {
        Prompt { line, deadline, node: node.to_string(), session: session.map(str::to_string) }
    }

    /// Creates the queue from a connection to a stream.
    pub(crate) fn queue(&self) -> (ChunkSink, ChunkSource) {
        let (queue, chunks) = mpsc::channel(CHUNK_QUEUE);
        let sink = ChunkSink { node: self.node.clone(), session: self.session.clone(), queue, missed: 0 };
        (sink, ChunkSource(chunks))
    }
}

/// Receiving end of the queue.
pub(crate) struct ChunkSource(mpsc::Receiver<Chunk>);

/// Sending end of the queue: takes the chunks that belong to one request. It is dropped with the pending request, which ends the stream
/// before chunks of a later turn arrive.
#[derive(Debug)]
pub(crate) struct ChunkSink {
    node: String,
    session: Option<String>,
    queue: mpsc::Sender<Chunk>,
    missed: u64,
}

impl ChunkSink {
    /// Queues the event if it is a chunk of request `id`. Never waits, since a slow reader must not block the connection.
    pub(crate) fn offer(&mut self, id: i64, event: &EventMessage) {
        let Some(text) = self.text(id, event) else { return };
        let chunk = Chunk { lost_before: self.missed, text: text.to_string() };
        match self.queue.try_send(chunk) {
            Ok(()) => self.missed = 0,
            Err(_) => self.missed += 1,
        }
    }

    /// Returns the number of chunks lost since the last queued one.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the text if the event is a chunk of this request. Compares the node, and session and request id if the server sends them.
    fn text<'a>(&self, id: i64, event: &'a EventMessage) -> Option<&'a str> {
        let node = event.node_id.as_deref() == Some(self.node.as_str());
        let session = match (&self.session, &event.session_id) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        let request = match event.data.get("request_id").and_then(Value::as_str) {
            Some(theirs) => theirs == id.to_string(),
            None => true,
        };
        let ours = node && session && request && event.event_type == EventType::OutputChunk.as_str();
        ours.then(|| event.data.get("chunk").and_then(Value::as_str))?
    }
}
