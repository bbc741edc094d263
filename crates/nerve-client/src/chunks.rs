//! Chunks of an answer on their way from a connection to a stream.

use nerve_api::{EventMessage, EventType};
use serde_json::Value;
use tokio::sync::mpsc;

/// Capacity of the queue of chunks. Further chunks for a slow reader are dropped and counted.
const CHUNK_QUEUE: usize = 1024;

/// A part of an answer.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Number of chunks lost before this one.
    pub(crate) lost_before: u64,
    pub(crate) text: String,
}

/// Creates the queue for the chunks of one request to a node.
pub(crate) fn queue(node: &str, session: Option<&str>) -> (ChunkSink, mpsc::Receiver<Chunk>) {
    let (queue, chunks) = mpsc::channel(CHUNK_QUEUE);
    let (node, session) = (node.to_string(), session.map(str::to_string));
    (ChunkSink { node, session, queue, missed: 0 }, chunks)
}

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
        let same_node = event.node_id.as_deref() == Some(self.node.as_str());
        let same_session = match (&self.session, &event.session_id) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        let same_request = match event.data.get("request_id").and_then(Value::as_str) {
            Some(theirs) => theirs == id.to_string(),
            None => true,
        };
        let is_chunk = event.event_type == EventType::OutputChunk.as_str();
        (is_chunk && same_node && same_session && same_request)
            .then(|| event.data.get("chunk").and_then(Value::as_str))?
    }
}
