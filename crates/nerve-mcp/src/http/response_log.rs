//! The messages that answer one request. They are taken from the session as they come, so that a client that reads slowly, or whose
//! connection broke, holds up nobody; and they are kept for a while, so that it may come again and read the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::watch;

/// Messages that wait to be read; of more, the oldest are dropped: they tell of progress.
const KEPT: usize = 64;

/// The messages of one request.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    number: u64,
    said: Arc<watch::Sender<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    messages: VecDeque<ServerSseMessage>,
    /// How many came before these.
    before: usize,
    /// There will be no more.
    over: bool,
    /// Counts those that have read it; only the last one does still.
    reader: u64,
}

impl Said {
    fn end(&self) -> usize {
        self.before + self.messages.len()
    }
}

/// Where somebody reads.
struct Place {
    said: watch::Receiver<Said>,
    reader: u64,
    next: usize,
}

impl Answer {
    /// `number`: what it is called among those of its session.
    pub(super) fn new(number: u64) -> Answer {
        Answer { number, said: Arc::new(watch::Sender::new(Said::default())) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Takes what comes until there is no more.
    pub(super) async fn take(&self, messages: impl Stream<Item = ServerSseMessage>) {
        let mut messages = std::pin::pin!(messages);
        while let Some(mut message) = messages.next().await {
            self.said.send_modify(|said| {
                message.event_id = Some(format!("{}-{}", self.number, said.end()));
                said.messages.push_back(message);
                if said.messages.len() > KEPT {
                    said.messages.pop_front();
                    said.before += 1;
                }
            });
        }
        self.said.send_modify(|said| said.over = true);
    }

    /// Reads from the message `from` on, counted from 0, until the end or until another one reads.
    pub(super) fn read(
        &self,
        from: usize,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static + use<> {
        let mut reader = 0;
        self.said.send_modify(|said| {
            said.reader += 1;
            reader = said.reader;
        });
        let place = Place { said: self.said.subscribe(), reader, next: from };
        stream::unfold(place, |mut place| async move {
            let Place { said, reader, next } = &mut place;
            let message = {
                let there = |said: &Said| said.reader != *reader || said.end() > *next || said.over;
                let said = said.wait_for(|said| there(said)).await.ok()?;
                if said.reader != *reader {
                    return None;
                }
                let at = next.saturating_sub(said.before);
                *next = said.before + at + 1;
                said.messages.get(at).cloned()
            };
            message.map(|message| (message, place))
        })
    }

    /// There will be no more of it.
    pub(super) fn is_over(&self) -> bool {
        self.said.borrow().over
    }

    /// There is no message `from`, and will be none.
    pub(super) fn is_over_before(&self, from: usize) -> bool {
        let said = self.said.borrow();
        said.over && said.end() <= from
    }
}

/// What an id of a message names: an answer, and the message that comes after it.
pub(super) fn after(id: &str) -> Option<(u64, usize)> {
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
        let answer = Answer::new(7);
        let mut first = Box::pin(answer.read(0));
        assert!(first.next().now_or_never().is_none());
        answer.take(messages(3)).await;
        assert_eq!(first.next().await.unwrap().event_id.as_deref(), Some("7-0"));
        assert_eq!(after("7-0"), Some((7, 1)));
        let again = answer.read(1);
        assert_eq!(ids(again).await, ["7-1", "7-2"]);
        assert!(first.next().await.is_none(), "another one reads");
        assert_eq!(ids(answer.read(99)).await, Vec::<String>::new());
        assert!(answer.is_over());
    }

    #[tokio::test]
    async fn of_many_that_nobody_reads_the_last_ones_are_kept() {
        let answer = Answer::new(1);
        let slow = answer.read(0);
        answer.take(messages(1000)).await;
        let read = ids(slow).await;
        assert_eq!((read.len(), read[0].as_str(), read[KEPT - 1].as_str()), (KEPT, "1-936", "1-999"));
    }

    #[test]
    fn ids_that_are_none_name_nothing() {
        for id in ["", "0", "1-", "-1", "a-1", "1-x", "1-18446744073709551615", "1--1"] {
            assert_eq!(after(id), None, "{id}");
        }
    }
}
