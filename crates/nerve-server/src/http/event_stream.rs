//! The events that a request to `/events` selects, for both of its transports: server-sent events and a WebSocket.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Uri};
use nerve_api::request::{Subscribe, read};
use nerve_api::{Params, RequestName};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::operation::Operation;
use super::problem::Problem;
use super::query;
use super::resource::raw_query;
use crate::events::{EncodedEvent, EventQueue, Filter};
use crate::requests;
use crate::state::ServerState;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The events of one request.
pub(super) struct EventStream {
    /// Identifies this start of the server.
    pub(super) server: String,
    queue: Arc<EventQueue>,
    closing: CancellationToken,
}

/// The event after which a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The newest event: the client did not name one.
    Newest(u64),
    /// The last event that the client has received.
    Resumed(u64),
    /// No event of this server: the client's last event, with this number, came from an earlier start of the
    /// server.
    Restarted(u64),
}

impl Start {
    /// Returns the sequence number of the event; 0 for none.
    pub(super) fn seq(self) -> u64 {
        match self {
            Start::Newest(seq) | Start::Resumed(seq) => seq,
            Start::Restarted(_) => 0,
        }
    }
}

impl EventStream {
    /// Subscribes to the events that a request selects.
    pub(super) fn open(
        operation: &Operation,
        state: &ServerState,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(Start, EventStream), Problem> {
        let mut query = raw_query(uri)?;
        // `since` accepts the full id of an event as well as its number.
        let full_id = query.iter().position(|(name, text)| name == "since" && text.contains('-'));
        let mut last_event = full_id.map(|at| LastEventId::read("since", &query.remove(at).1)).transpose()?;
        let mut params = query::read(operation.query(), &query)?;
        // A browser reconnects to the same URL and sends its progress in this header.
        if let Some(last) = last_event_id(headers)? {
            last_event = Some(last);
        }
        if let Some(last_event) = &last_event {
            params.insert("since".to_string(), Value::from(last_event.seq));
        }
        let (filter, since) = parse_subscription(&params.into())?;
        let ServerState { hub, id: server, closing, .. } = state;
        hub.publish_pending();
        let newest = hub.last_seq();
        let is_foreign = last_event.and_then(|event| event.server).is_some_and(|other| other != *server);
        let start = match since {
            // The number belongs to an earlier server: nothing of this one has been received yet.
            Some(since) if is_foreign || since > newest => Start::Restarted(since),
            Some(since) => Start::Resumed(since),
            None => Start::Newest(newest),
        };
        // Always `Some`: events between this point and the subscription must not be lost.
        let queue = hub.subscribe(filter, Some(start.seq()));
        Ok((start, EventStream { server: server.clone(), queue, closing: closing.clone() }))
    }

    /// Returns the next events; `None` after the last event of a server that is closing. Cancel-safe.
    pub(super) async fn next(&self) -> Option<Vec<Arc<EncodedEvent>>> {
        tokio::select! {
            biased;
            events = self.queue.next_events() => Some(events),
            () = self.closing.cancelled() => self.queue.try_next_events(),
        }
    }

    /// Returns the lines of an event: one, and one under its deprecated name if the request selects it.
    pub(super) fn lines_of(&self, event: &EncodedEvent) -> impl Iterator<Item = Vec<u8>> {
        self.queue.lines_of(event)
    }

    #[cfg(test)]
    pub(super) fn for_test(queue: Arc<EventQueue>, closing: CancellationToken) -> EventStream {
        EventStream { server: "here".to_string(), queue, closing }
    }
}

/// The last event that a client has received.
#[derive(Debug, PartialEq)]
struct LastEventId {
    /// The server that numbered the event; `None` stands for this server.
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
fn parse_subscription(params: &Params<'_>) -> Result<(Filter, Option<u64>), Problem> {
    let request: Subscribe = read(RequestName::Subscribe, params).map_err(Problem::invalid)?;
    let since = request.since;
    Ok((requests::parse_filter(request)?, since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_id_is_a_number_with_optional_server() {
        let seen = |id| LastEventId::read("id", id).map(|seen| (seen.server, seen.seq)).ok();
        assert_eq!(seen("17"), Some((None, 17)));
        assert_eq!(seen("a1-b2-17"), Some((Some("a1-b2".to_string()), 17)));
        for bad in ["", "-1", "a-", "a", "a-b", "1-18446744073709551616", "a--"] {
            assert_eq!(seen(bad), None, "{bad:?}");
        }
    }
}
