//! Events in their encoded form.

use std::collections::HashMap;

use nerve_api::{Event, EventKind, RequestId};

use super::Filter;
use crate::legacy_names::old_event_line;
use crate::line::event_line;

/// Identifies the output chunks of one turn for the connection that requested it. Unique within a server.
pub(crate) type Tag = u64;

/// An event in its encoded form.
#[derive(Debug)]
pub(crate) struct EncodedEvent {
    pub(crate) event: Event,
    pub(super) line: Vec<u8>,
}

impl EncodedEvent {
    pub(super) fn new(event: Event) -> EncodedEvent {
        EncodedEvent { line: event_line(&event), event }
    }

    /// Returns the event's lines for a subscriber; `requests`: its own requests, by tag.
    pub(super) fn lines(&self, filter: &Filter, requests: &HashMap<Tag, RequestId>) -> Vec<u8> {
        let mut lines = self.line_of_request(requests).unwrap_or_else(|| self.line.clone());
        lines.extend(self.old_name_line(filter).into_iter().flatten());
        lines
    }

    /// Returns the line of an event that belongs to a request, with the request's id; `None` if no request has the
    /// event's tag. The id is sent as text, and may equal an id of another connection.
    fn line_of_request(&self, requests: &HashMap<Tag, RequestId>) -> Option<Vec<u8>> {
        let tag = match &self.event.kind {
            EventKind::OutputChunk { tag, .. } | EventKind::BranchProgress { tag, .. } => tag.as_ref()?,
            _ => return None,
        };
        let request = requests.get(tag)?;
        let mut event = self.event.clone();
        if let EventKind::OutputChunk { request_id, .. } | EventKind::BranchProgress { request_id, .. } =
            &mut event.kind
        {
            *request_id = Some(request.to_string());
        }
        Some(event_line(&event))
    }

    pub(super) fn old_name_line(&self, filter: &Filter) -> Option<Vec<u8>> {
        filter.aliases.then(|| old_event_line(&self.event)).flatten()
    }
}
