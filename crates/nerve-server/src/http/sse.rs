//! Server-sent events: `data` is the event's line in the protocol, `id` names the server and the event's
//! `seq`. A client that reconnects resumes after the last event, and cannot mistake another server's numbers
//! for this one's.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use nerve_api::request::{Subscribe, read};
use nerve_api::{Params, RequestName};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::operation::Operation;
use super::problem::Problem;
use super::query;
use super::resource::raw_query;
use crate::events::{Filter, Queue};
use crate::requests;
use crate::state::ServerState;
use crate::web::role;

/// Interval of heartbeats on an otherwise silent stream, so that proxies do not close it.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A heartbeat for programs.
const COMMENT: &[u8] = b": heartbeat\n\n";
/// A heartbeat for browsers, which hide comments from the page: without it, a page cannot see that a stream is dead.
const NAMED_EVENT: &[u8] = b"event: heartbeat\ndata: {}\n\n";
/// Time that a browser waits before it reconnects, in milliseconds.
const RETRY: u64 = 2000;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Streams events until the client leaves or the server shuts down.
pub(crate) async fn serve(
    operation: &'static Operation,
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Problem> {
    let mut query = raw_query(request.uri())?;
    // `since` accepts the whole id of an event as well as its number.
    let whole = query.iter().position(|(name, text)| name == "since" && text.contains('-'));
    let mut seen = whole.map(|at| LastEventId::read("since", &query.remove(at).1)).transpose()?;
    let mut params = query::read(operation.query(), &query)?;
    // A browser reconnects to the same URL and sends its progress in this header.
    if let Some(last) = last_event_id(request.headers())? {
        seen = Some(last);
    }
    if let Some(seen) = &seen {
        params.insert("since".to_string(), Value::from(seen.seq));
    }
    let (filter, since) = subscription(&params.into())?;
    let ServerState { hub, id: server, closing, .. } = &*shared.state;
    hub.forward();
    let newest = hub.last_seq();
    let foreign = seen.and_then(|seen| seen.server).is_some_and(|other| other != *server);
    let mut head = format!("retry: {RETRY}\n");
    let since = match since {
        // The number belongs to an earlier server: nothing of this one has been received yet.
        Some(since) if foreign || since > newest => {
            head.push_str(&format!(
                ": the server was restarted after event {since}: its available events follow\nid: {server}-0\n"
            ));
            Some(0)
        }
        Some(since) => Some(since),
        None => {
            head.push_str(&format!(": from here on\nid: {server}-{newest}\n"));
            // Not `None`: events between this point and the subscription must not be lost.
            Some(newest)
        }
    };
    head.push('\n');
    let queue = hub.subscribe(filter, since);
    let heartbeat = if role::current_role().is_some() { NAMED_EVENT } else { COMMENT };
    let (head, server, closing) = (Some(head.into()), server.clone(), closing.clone());
    let reader = Reader { head, heartbeat, server, queue, closing };
    let stream = futures_util::stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), reader))
    });
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Prevents nginx from buffering the stream.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// The last event that a client has received.
#[derive(Debug, PartialEq)]
struct LastEventId {
    /// The server that counted; none is taken for this server.
    server: Option<String>,
    seq: u64,
}

impl LastEventId {
    fn read(what: &str, id: &str) -> Result<LastEventId, Problem> {
        let (server, seq) = match id.rsplit_once('-') {
            Some((server, seq)) => (Some(server), seq),
            None => (None, id),
        };
        match seq.parse() {
            Ok(seq) if server != Some("") => Ok(LastEventId { server: server.map(str::to_string), seq }),
            _ => {
                let detail =
                    format!("{what}: expected the id or the seq of an event, got {:?}", query::short(id));
                Err(Problem::invalid(detail))
            }
        }
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<LastEventId>, Problem> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    match id.to_str().unwrap_or("?").trim() {
        "" => Ok(None),
        id => LastEventId::read("Last-Event-ID", id).map(Some),
    }
}

/// Reads the parameters of a SUBSCRIBE.
fn subscription(params: &Params<'_>) -> Result<(Filter, Option<u64>), Problem> {
    let request: Subscribe = read(RequestName::Subscribe, params).map_err(Problem::invalid)?;
    let since = request.since;
    Ok((requests::filter(request)?, since))
}

struct Reader {
    /// Sent before all events.
    head: Option<Bytes>,
    heartbeat: &'static [u8],
    server: String,
    queue: Arc<Queue>,
    closing: CancellationToken,
}

impl Reader {
    /// Returns the next bytes to send, or `None` at the end. It is polled only when the previous bytes have
    /// left, so a client that does not read fills only its own queue.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        let events = tokio::select! {
            biased;
            events = self.queue.next_events() => events,
            () = self.closing.cancelled() => self.queue.try_next_events()?,
            () = tokio::time::sleep(HEARTBEAT) => return Some(Bytes::from_static(self.heartbeat)),
        };
        let mut bytes = Vec::new();
        for event in events {
            let seq = event.event.seq;
            for line in self.queue.lines_of(&event) {
                if seq > 0 {
                    bytes.extend_from_slice(format!("id: {}-{seq}\n", self.server).as_bytes());
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

    use super::*;
    use crate::events::Hub;

    #[test]
    fn event_id_is_a_number_with_optional_server() {
        let seen = |id| LastEventId::read("id", id).map(|seen| (seen.server, seen.seq)).ok();
        assert_eq!(seen("17"), Some((None, 17)));
        assert_eq!(seen("a1-b2-17"), Some((Some("a1-b2".to_string()), 17)));
        for bad in ["", "-1", "a-", "a", "a-b", "1-18446744073709551616", "a--"] {
            assert_eq!(seen(bad), None, "{bad:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_fill_silence_and_last_event_precedes_end() {
        let (events, receiver) = broadcast::channel(8);
        let hub = Hub::new(receiver);
        let closing = CancellationToken::new();
        let queue = hub.subscribe(Filter::default(), None);
        let server = "here".to_string();
        let mut reader = Reader { head: None, heartbeat: COMMENT, server, queue, closing: closing.clone() };
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
        hub.forward();
        closing.cancel();
        let last = String::from_utf8(reader.next().await.unwrap().to_vec()).unwrap();
        assert!(last.starts_with("id: here-7\ndata: {") && last.ends_with("}\n\n"), "{last:?}");
        assert_eq!(reader.next().await, None);
    }
}
