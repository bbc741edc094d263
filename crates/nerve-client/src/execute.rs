//! A prompt whose answer is wanted as it grows.

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

/// Chunks kept for a reader that is slow; further ones are lost, and it is told.
const CHUNK_QUEUE: usize = 1024;

/// What may be said of a turn beside its prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecuteOptions {
    /// `claude`, `codex`, `gemini`, `none`; the node's if `None`.
    pub parser: Option<String>,
    /// Limit of the whole turn, waiting included; the node's if `None`.
    pub timeout: Option<Duration>,
    /// Fail at once when another turn runs instead of queueing.
    pub fail_if_busy: bool,
    /// When the time is over, let the turn go on to its end instead of interrupting it.
    pub detach_on_timeout: bool,
    /// What was said before, and where the turn is kept; the node's own conversation if `None`.
    pub conversation: Option<ConversationOptions>,
    /// The span that the turn is part of, as a header `traceparent` has it (W3C Trace Context).
    pub traceparent: Option<String>,
    /// What goes with it in the header `tracestate`.
    pub tracestate: Option<String>,
}

/// What an [`ExecuteStream`] gives.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// More of the answer.
    Chunk(String),
    /// So many chunks were lost here because the stream was read too slowly; the response still has everything.
    Missed(u64),
    /// The finished turn; nothing comes after it.
    Response(Box<Turn>),
}

/// An answer as it grows, then the response. Dropping it does not stop the turn: interrupt the node for that.
///
/// A connection that has subscribed to events without OUTPUT_CHUNK gets no chunks, only the response.
#[derive(Debug)]
pub struct ExecuteStream {
    /// Ends when the reply is there.
    chunks: mpsc::Receiver<Chunk>,
    /// A chunk whose loss of others before it was told first.
    held: Option<String>,
    wait: Wait,
    response: Option<Result<StreamItem, ClientError>>,
    prompt: Prompt,
    /// Stays open until the answer is there, whatever becomes of client and node.
    link: Arc<Link>,
}

/// What a stream waits for.
#[derive(Debug)]
enum Wait {
    Reply(PendingReply),
    /// A connection: the prompt did not go out over the last one.
    Connection,
    Nothing,
}

#[derive(Debug)]
struct Chunk {
    missed_before: u64,
    text: String,
}

impl ExecuteStream {
    /// Sends a prompt.
    pub(crate) async fn open(link: Arc<Link>, prompt: Prompt) -> Result<ExecuteStream, ClientError> {
        let (reply, chunks) = link.start(&prompt).await?;
        let wait = Wait::Reply(reply);
        Ok(ExecuteStream { chunks: chunks.0, held: None, wait, response: None, prompt, link })
    }

    /// The next item; `None` after the response or an error. May be dropped before it is done.
    pub async fn next(&mut self) -> Option<Result<StreamItem, ClientError>> {
        if let Some(text) = self.held.take() {
            return Some(Ok(StreamItem::Chunk(text)));
        }
        loop {
            match self.chunks.recv().await {
                Some(Chunk { missed_before: 0, text }) => return Some(Ok(StreamItem::Chunk(text))),
                Some(Chunk { missed_before, text }) => {
                    self.held = Some(text);
                    return Some(Ok(StreamItem::Missed(missed_before)));
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
                    self.wait = Wait::Nothing;
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
                        self.wait = Wait::Nothing;
                        return Some(Err(error));
                    }
                },
                Wait::Nothing => return self.response.take(),
            }
        }
    }
}

/// A prompt as it goes out, over whatever connection.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) line: Line,
    /// Until then a connection is looked for.
    pub(crate) deadline: Instant,
    node: String,
    session: Option<String>,
}

impl Prompt {
    pub(crate) fn new(line: Line, node: &str, session: Option<&str>, deadline: Instant) -> Prompt {
        Prompt { line, deadline, node: node.to_string(), session: session.map(str::to_string) }
    }

    /// Both ends of the queue that leads from a connection to a stream.
    pub(crate) fn queue(&self) -> (ChunkSink, ChunkSource) {
        let (queue, chunks) = mpsc::channel(CHUNK_QUEUE);
        let sink = ChunkSink { node: self.node.clone(), session: self.session.clone(), queue, missed: 0 };
        (sink, ChunkSource(chunks))
    }
}

/// The stream's end of the queue.
pub(crate) struct ChunkSource(mpsc::Receiver<Chunk>);

/// The connection's end of the queue: takes the chunks that belong to one request. It is dropped with the request's entry, which
/// is what ends the stream: no chunk of a later turn gets in.
#[derive(Debug)]
pub(crate) struct ChunkSink {
    node: String,
    session: Option<String>,
    queue: mpsc::Sender<Chunk>,
    missed: u64,
}

impl ChunkSink {
    /// Takes the event if it is a chunk of request `id`. A reader that is slow must not hold up the connection.
    pub(crate) fn offer(&mut self, id: i64, event: &EventMessage) {
        let Some(text) = self.text(id, event) else { return };
        let chunk = Chunk { missed_before: self.missed, text: text.to_string() };
        match self.queue.try_send(chunk) {
            Ok(()) => self.missed = 0,
            Err(_) => self.missed += 1,
        }
    }

    /// Chunks lost since the last one that was taken.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// A server that names session and request in the event is believed; one that does not leaves only the node to go by.
    fn text<'a>(&self, id: i64, event: &'a EventMessage) -> Option<&'a str> {
        let node = event.node_id.as_deref() == Some(self.node.as_str());
        let session = match (&self.session, &event.session_id) {
            (Some(ours), Some(said)) => ours == said,
            _ => true,
        };
        let request = match event.data.get("request_id").and_then(Value::as_str) {
            Some(said) => said == id.to_string(),
            None => true,
        };
        let ours = node && session && request && event.event_type == EventType::OutputChunk.as_str();
        ours.then(|| event.data.get("chunk").and_then(Value::as_str))?
    }
}
