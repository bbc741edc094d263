//! The messages of one response. They are recorded as they arrive, so that a slow or disconnected client delays no
//! other client. They are kept for a while, so that the client can reconnect and read the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::watch;

/// Maximum number of unread messages. The oldest are dropped; they are progress notifications.
const MAX_MESSAGES: usize = 64;

/// The recorded messages of one response.
#[derive(Debug, Clone)]
pub(super) struct ResponseLog {
    number: u64,
    buffer: Arc<watch::Sender<Buffer>>,
}

#[derive(Debug, Default)]
struct Buffer {
    messages: VecDeque<ServerSseMessage>,
    /// Number of messages dropped before these.
    dropped: usize,
    /// No more messages will follow.
    is_complete: bool,
    /// Number of the current reader. Only the latest one may read.
    reader: u64,
}

impl Buffer {
    /// Returns the index after the last message.
    fn end(&self) -> usize {
        self.dropped + self.messages.len()
    }
}

/// The position of a reader.
struct Cursor {
    buffer: watch::Receiver<Buffer>,
    reader: u64,
    next: usize,
}

impl ResponseLog {
    /// Creates an empty log. `number`: unique within the session.
    pub(super) fn new(number: u64) -> ResponseLog {
        ResponseLog { number, buffer: Arc::new(watch::Sender::new(Buffer::default())) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Records messages until the stream ends.
    pub(super) async fn record(&self, messages: impl Stream<Item = ServerSseMessage>) {
        let mut messages = std::pin::pin!(messages);
        while let Some(mut message) = messages.next().await {
            self.buffer.send_modify(|buffer| {
                message.event_id = Some(format!("{}-{}", self.number, buffer.end()));
                buffer.messages.push_back(message);
                if buffer.messages.len() > MAX_MESSAGES {
                    buffer.messages.pop_front();
                    buffer.dropped += 1;
                }
            });
        }
        self.buffer.send_modify(|buffer| buffer.is_complete = true);
    }

    /// Reads from message `from`, counted from 0, until the end or until another reader begins.
    pub(super) fn read(
        &self,
        from: usize,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static + use<> {
        let mut reader = 0;
        self.buffer.send_modify(|buffer| {
            buffer.reader += 1;
            reader = buffer.reader;
        });
        let cursor = Cursor { buffer: self.buffer.subscribe(), reader, next: from };
        stream::unfold(cursor, |mut cursor| async move {
            let Cursor { buffer, reader, next } = &mut cursor;
            let message = {
                let is_ready =
                    |buffer: &Buffer| buffer.reader != *reader || buffer.end() > *next || buffer.is_complete;
                let buffer = buffer.wait_for(|buffer| is_ready(buffer)).await.ok()?;
                if buffer.reader != *reader {
                    return None;
                }
                let at = next.saturating_sub(buffer.dropped);
                *next = buffer.dropped + at + 1;
                buffer.messages.get(at).cloned()
            };
            message.map(|message| (message, cursor))
        })
    }

    /// Returns true if no more messages will follow.
    pub(super) fn is_complete(&self) -> bool {
        self.buffer.borrow().is_complete
    }

    /// Returns true if there is no message `from`, and never will be.
    pub(super) fn ends_before(&self, from: usize) -> bool {
        let buffer = self.buffer.borrow();
        buffer.is_complete && buffer.end() <= from
    }
}

/// Parses the id of a message: returns its response and the index of the next message.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, usize)> {
    let (number, index) = id.split_once('-')?;
    Some((number.parse().ok()?, index.parse::<usize>().ok()?.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn messages(count: usize) -> impl Stream<Item = ServerSseMessage> {
        stream::iter((0..count).map(|n| ServerSseMessage::retry(Duration::from_secs(n as u64))))
    }

    async fn ids(reading: impl Stream<Item = ServerSseMessage>) -> Vec<String> {
        reading.map(|message| message.event_id.unwrap()).collect().await
    }

    #[tokio::test]
    async fn reconnected_reader_gets_the_rest() {
        let log = ResponseLog::new(7);
        let mut first = Box::pin(log.read(0));
        assert!(first.next().now_or_never().is_none());
        log.record(messages(3)).await;
        assert_eq!(first.next().await.unwrap().event_id.as_deref(), Some("7-0"));
        assert_eq!(parse_event_id("7-0"), Some((7, 1)));
        let again = log.read(1);
        assert_eq!(ids(again).await, ["7-1", "7-2"]);
        assert!(first.next().await.is_none(), "another one reads");
        assert_eq!(ids(log.read(99)).await, Vec::<String>::new());
        assert!(log.is_complete());
    }

    #[tokio::test]
    async fn unread_messages_are_bounded() {
        let log = ResponseLog::new(1);
        let slow = log.read(0);
        log.record(messages(1000)).await;
        let read = ids(slow).await;
        assert_eq!(
            (read.len(), read[0].as_str(), read[MAX_MESSAGES - 1].as_str()),
            (MAX_MESSAGES, "1-936", "1-999")
        );
    }

    #[test]
    fn malformed_ids_are_rejected() {
        for id in ["", "0", "1-", "-1", "a-1", "1-x", "1-18446744073709551615", "1--1"] {
            assert_eq!(parse_event_id(id), None, "{id}");
        }
    }
}
