//! Server-sent events: `data` is the event's line in the protocol, `id` names the server and the event's
//! `seq`. A client that reconnects resumes after the last event, and cannot mistake another server's numbers
//! for this one's.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderName, HeaderValue, header};

use super::SiteState;
use super::event_stream::{EventStream, Start};
use super::operation::Operation;
use super::problem::Problem;
use crate::web::role;

/// Interval of heartbeats on an otherwise silent stream, so that proxies do not close it.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// A heartbeat for programs.
pub(super) const COMMENT: &[u8] = b": heartbeat\n\n";
/// A heartbeat for browsers, which hide comments from the page: without it, a page cannot see that a stream is dead.
const NAMED_EVENT: &[u8] = b"event: heartbeat\ndata: {}\n\n";
/// Time that a browser waits before it reconnects, in milliseconds.
const RETRY: u64 = 2000;

/// Streams events until the client leaves or the server shuts down.
pub(crate) async fn serve(
    operation: &'static Operation,
    State(site): State<SiteState>,
    request: Request,
) -> Result<Response, Problem> {
    let (start, events) = EventStream::open(operation, &site.state, request.uri(), request.headers())?;
    let heartbeat = if role::current_role().is_some() { NAMED_EVENT } else { COMMENT };
    let reader = Reader { head: Some(head(start, &events.server).into()), heartbeat, events };
    Ok(respond(stream::unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) })))
}

/// Returns a response with the bytes of events.
pub(super) fn respond(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // Prevents nginx from buffering the stream.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(events.map(Ok::<_, Infallible>))).into_response()
}

/// Returns the beginning of a stream. Its id makes a client resume at the start even if it receives no event.
fn head(start: Start, server: &str) -> String {
    let position = match start {
        Start::Restarted(since) => {
            format!(
                ": the server was restarted after event {since}: its available events follow\nid: {server}-0\n"
            )
        }
        Start::Resumed(_) => String::new(),
        Start::Newest(newest) => format!(": from here on\nid: {server}-{newest}\n"),
    };
    format!("retry: {RETRY}\n{position}\n")
}

struct Reader {
    /// Sent before all events.
    head: Option<Bytes>,
    heartbeat: &'static [u8],
    events: EventStream,
}

impl Reader {
    /// Returns the next bytes to send, or `None` at the end. It is polled only when the previous bytes have
    /// left, so a client that does not read fills only its own queue.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        let Ok(next) = tokio::time::timeout(HEARTBEAT, self.events.next()).await else {
            return Some(Bytes::from_static(self.heartbeat));
        };
        let mut bytes = Vec::new();
        for event in next? {
            let seq = event.event.seq;
            for line in self.events.lines_of(&event) {
                if seq > 0 {
                    bytes.extend_from_slice(format!("id: {}-{seq}\n", self.events.server).as_bytes());
                }
                bytes.extend_from_slice(b"data: ");
                bytes.extend_from_slice(line.trim_ascii_end());
                bytes.extend_from_slice(b"\n\n");
            }
        }
        Some(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::{Event, EventKind};
    use tokio::sync::broadcast;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::events::{Filter, Hub};

    #[tokio::test(start_paused = true)]
    async fn heartbeats_fill_silence_and_last_event_precedes_end() {
        let (events, receiver) = broadcast::channel(8);
        let hub = Hub::new(receiver);
        let closing = CancellationToken::new();
        let stream = EventStream::for_test(hub.subscribe(Filter::default(), None), closing.clone());
        let mut reader = Reader { head: None, heartbeat: COMMENT, events: stream };
        for (heartbeat, sent) in
            [(COMMENT, ": heartbeat\n\n"), (NAMED_EVENT, "event: heartbeat\ndata: {}\n\n")]
        {
            reader.heartbeat = heartbeat;
            let started = Instant::now();
            assert_eq!(reader.next().await.unwrap(), sent);
            assert_eq!(started.elapsed(), HEARTBEAT);
        }
        let kind = EventKind::ServerShutdown { keep_nodes: false };
        events
            .send(Event { kind, node_id: None, session_id: None, emitted_at: Default::default(), seq: 7 })
            .unwrap();
        hub.publish_pending();
        closing.cancel();
        let last = String::from_utf8(reader.next().await.unwrap().to_vec()).unwrap();
        assert!(last.starts_with("id: here-7\ndata: {") && last.ends_with("}\n\n"), "{last:?}");
        assert_eq!(reader.next().await, None);
    }
}
