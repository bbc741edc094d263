//! The queries whose replies are awaited. No I/O.

use std::collections::VecDeque;

/// Replies kept per query.
const MAX_REPLIES: usize = 64;

/// The purpose of a group of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    Input,
    InputLease,
    /// The pane's size. `requested`: a caller waits for it.
    Size {
        requested: bool,
    },
    Liveness,
    Ignored,
}

/// The text of each reply, or tmux's error message.
pub(super) type Replies = Vec<Result<String, String>>;

/// The queries in the order in which they were sent. The replies of a group are handled together, because their number is not
/// always known: a marker ends them.
#[derive(Debug, Default)]
pub(super) struct QueryQueue {
    pending: VecDeque<PendingQuery>,
    last: u64,
}

#[derive(Debug)]
struct PendingQuery {
    number: u64,
    query: Query,
    replies: Replies,
}

impl QueryQueue {
    /// Appends a query. Returns the text that the last of its commands must print.
    pub(super) fn push(&mut self, query: Query) -> String {
        self.last += 1;
        self.pending.push_back(PendingQuery { number: self.last, query, replies: Vec::new() });
        end_marker(self.last)
    }

    pub(super) fn contains(&self, query: Query) -> bool {
        self.pending.iter().any(|pending| pending.query == query)
    }

    /// Takes a reply. Returns the query that it ends, and its replies.
    pub(super) fn on_reply(&mut self, text: Result<Vec<u8>, String>) -> Option<(Query, Replies)> {
        let front = self.pending.front_mut()?;
        let text = text.map(|text| text_of(&text));
        if text.as_deref() == Ok(end_marker(front.number).as_str()) {
            return self.pending.pop_front().map(|ended| (ended.query, ended.replies));
        }
        if front.replies.len() < MAX_REPLIES {
            front.replies.push(text);
        }
        None
    }

    /// Drops the queries of a connection that broke.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }
}

fn text_of(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_string()
}

fn end_marker(number: u64) -> String {
    format!("nerve-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_belong_to_the_oldest_query() {
        let mut queue = QueryQueue::default();
        let reply = |text: &str| Ok(text.as_bytes().to_vec());
        assert_eq!(queue.on_reply(reply("unexpected")), None);
        let ends = [queue.push(Query::Liveness), queue.push(Query::Input)];
        assert!(queue.contains(Query::Input) && !queue.contains(Query::InputLease));
        assert_eq!(queue.on_reply(reply("alive\n")), None);
        assert_eq!(queue.on_reply(Err("no pane".into())), None);
        assert_eq!(queue.on_reply(reply(&ends[1])), None, "the end of another query is text");
        let replies = vec![Ok("alive".into()), Err("no pane".into()), Ok(ends[1].clone())];
        assert_eq!(queue.on_reply(reply(&format!("{}\n", ends[0]))), Some((Query::Liveness, replies)));
        assert_eq!(queue.on_reply(reply(&ends[1])), Some((Query::Input, Vec::new())));
        queue.push(Query::Ignored);
        queue.clear();
        assert!(!queue.contains(Query::Ignored));
    }
}
