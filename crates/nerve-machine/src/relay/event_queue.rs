//! Events that wait for one reader, with a limit of their size.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use nerve_api::EventMessage;
use serde_json::json;
use tokio::sync::Notify;

/// Maximum size of the events that wait for one reader, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// A queue of encoded events. A reader that is too slow loses all that wait, and gets an EVENTS_DROPPED instead.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    /// Size of `lines`.
    bytes: usize,
    /// Number of events that were lost before `lines`.
    dropped: u64,
    has_ended: bool,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(super) fn push(&self, event: &EventMessage) {
        let line = encode(event);
        let mut state = self.lock();
        if state.bytes + line.len() > MAX_BYTES {
            state.dropped += state.lines.len() as u64;
            state.lines.clear();
            state.bytes = 0;
        }
        match line.len() {
            0..=MAX_BYTES => {
                state.bytes += line.len();
                state.lines.push_back(line);
            }
            _ => state.dropped += 1,
        }
        self.changed.notify_one();
    }

    /// Records that no more events follow.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_one();
    }

    /// Returns the next event as a line of the protocol; `None` after the last one. Cancel-safe, for one reader.
    pub(super) async fn next(&self) -> Option<String> {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.changed.notified().await;
        }
    }

    /// Returns what is next, if that is known.
    fn take(&self) -> Option<Option<String>> {
        let mut state = self.lock();
        if state.dropped > 0 {
            return Some(Some(encode(&drop_notice(std::mem::take(&mut state.dropped)))));
        }
        match state.lines.pop_front() {
            Some(line) => {
                state.bytes -= line.len();
                Some(Some(line))
            }
            None => state.has_ended.then_some(None),
        }
    }
}

/// Encodes an event as a line of the protocol.
fn encode(event: &EventMessage) -> String {
    let mut line = json!(event);
    line["type"] = "event".into();
    line.to_string()
}

/// Returns the notice about a number of lost events.
fn drop_notice(count: u64) -> EventMessage {
    EventMessage::events_dropped(Some(count), SystemTime::now().into())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn event(seq: u64, bytes: usize) -> EventMessage {
        let data = json!({ "text": "x".repeat(bytes) });
        EventMessage { event_type: "OUTPUT_PARSED".to_string(), data, seq, ..drop_notice(0) }
    }

    async fn next(queue: &EventQueue) -> Value {
        serde_json::from_str(&queue.next().await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn slow_reader_loses_what_waits_and_is_notified() {
        let queue = EventQueue::default();
        for seq in 1..=3 {
            queue.push(&event(seq, MAX_BYTES / 3));
        }
        // The third did not fit with the others.
        let notice = next(&queue).await;
        assert_eq!(
            (&notice["event_type"], &notice["data"]["dropped"]),
            (&json!("EVENTS_DROPPED"), &json!(2))
        );
        let kept = next(&queue).await;
        assert_eq!((&kept["type"], &kept["seq"]), (&json!("event"), &json!(3)));
        assert_eq!(queue.lock().bytes, 0);
        queue.push(&event(4, MAX_BYTES));
        assert_eq!(next(&queue).await["data"]["dropped"], 1);
        queue.push(&event(5, 1));
        queue.end();
        assert_eq!(next(&queue).await["seq"], 5);
        assert_eq!(queue.next().await, None);
    }
}
