//! Events as they come.

use std::sync::Arc;

use nerve_proto::{EventMessage, EventType};
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::connection::Connection;

/// The events of a connection, from the moment the stream was made.
#[derive(Debug)]
pub struct EventStream {
    events: broadcast::Receiver<Arc<EventMessage>>,
    /// Stays open as long as somebody listens.
    _connection: Arc<Connection>,
}

impl EventStream {
    pub(crate) fn new(connection: Arc<Connection>) -> EventStream {
        EventStream { events: connection.events(), _connection: connection }
    }

    /// The next event; `None` when the connection is closed. A reader that is too slow loses events and gets an
    /// EVENTS_DROPPED in their place, as it does from a server. May be dropped before it is done.
    pub async fn next(&mut self) -> Option<EventMessage> {
        match self.events.recv().await {
            Ok(event) => Some(Arc::unwrap_or_clone(event)),
            Err(RecvError::Lagged(dropped)) => Some(dropped_event(dropped)),
            Err(RecvError::Closed) => None,
        }
    }
}

fn dropped_event(dropped: u64) -> EventMessage {
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
