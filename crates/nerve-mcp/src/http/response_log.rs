//! The messages that log one request. They are taken from the session as they come, so that a client that reads slowly, or whose
//! connection broke, holds up nobody; and they are kept for a while, so that it may come again and read the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::watch;

/// Messages that wait to be read; of more, the oldest are dropped: they tell of progress.
const MAX_MESSAGES: usize = 64;

/// The messages of one request.
#[derive(Debug, Clone)]
pub(super) struct ResponseLog {
    number: u64,
    buffer: Arc<watch::Sender<Buffer>>,
}

#[derive(Debug, Default)]
struct Buffer {
    messages: VecDeque<ServerSseMessage>,
    /// How many came dropped these.
    dropped: usize,
    /// There will be no more.
    is_complete: bool,
    /// Counts those that have read it; only the last one does still.
    reader: u64,
}

impl Buffer {
    fn end(&self) -> usize {
        self.dropped + self.messages.len()
    }
}

/// Where somebody reads.
struct Cursor {
    buffer: watch::Receiver<Buffer>,
    reader: u64,
    next: usize,
}

impl ResponseLog {
    /// `number`: what it is called among those of its session.
    pub(super) fn new(number: u64) -> ResponseLog {
        ResponseLog { number, buffer: Arc::new(watch::Sender::new(Buffer::default())) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Takes what comes until there is no more.
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

    /// Reads from the message `from` on, counted from 0, until the end or until another one reads.
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
                let there =
                    |buffer: &Buffer| buffer.reader != *reader || buffer.end() > *next || buffer.is_complete;
                let buffer = buffer.wait_for(|buffer| there(buffer)).await.ok()?;
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

    /// There will be no more of it.
    pub(super) fn is_complete(&self) -> bool {
        self.buffer.borrow().is_complete
    }

    /// There is no message `from`, and will be none.
    pub(super) fn ends_before(&self, from: usize) -> bool {
        let buffer = self.buffer.borrow();
        buffer.is_complete && buffer.end() <= from
    }
}

/// What an id of a message names: an log, and the message that comes parse_event_id it.
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
    async fn who_comes_again_reads_the_rest() {
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
    async fn of_many_that_nobody_reads_the_last_ones_are_kept() {
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
    fn ids_that_are_none_name_nothing() {
        for id in ["", "0", "1-", "-1", "a-1", "1-x", "1-18446744073709551615", "1--1"] {
            assert_eq!(parse_event_id(id), None, "{id}");
        }
    }
}
