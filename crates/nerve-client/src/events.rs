//! Events as they come.

use std::sync::Arc;

use nerve_api::{EventMessage, EventType};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::inbox::Events;
use crate::link::Link;

/// The events of a client, from the moment the stream was made.
#[derive(Debug)]
pub struct EventStream {
    events: Events,
    /// Stays open as long as somebody listens.
    _link: Arc<Link>,
}

impl EventStream {
    pub(crate) fn new(link: &Arc<Link>) -> EventStream {
        EventStream { events: link.events(), _link: Arc::clone(link) }
    }

    /// The next event. A reader that is too slow loses events and gets an EVENTS_DROPPED in their place, as it does from a server.
    ///
    /// When the connection has ended and is made again, the stream goes on after the last event that came. Where that is another server (it
    /// was started anew), an EVENTS_DROPPED comes first, whose `dropped` is null: how many were lost is not known. Then come all events
    /// that the new server still has; their `seq` begins anew.
    ///
    /// `None` when the client is closed, or its connection has ended and none is made again. May be dropped before it is done.
    pub async fn next(&mut self) -> Option<EventMessage> {
        match self.events.recv().await {
            Ok(event) => Some(Arc::unwrap_or_clone(event)),
            Err(RecvError::Lagged(dropped)) => Some(dropped_event(Some(dropped))),
            Err(RecvError::Closed) => None,
        }
    }
}

/// `dropped`: how many; `None` if that is not known.
pub(crate) fn dropped_event(dropped: Option<u64>) -> EventMessage {
    EventMessage {
        event_type: EventType::EventsDropped.to_string(),
        node_id: None,
        channel_id: None,
        session_id: None,
        data: json!({ "dropped": dropped }),
        timestamp: 0.0,
        seq: 0,
    }
}
