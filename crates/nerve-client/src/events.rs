//! Streams of events.

use std::sync::Arc;

use nerve_api::EventMessage;
use tokio::sync::broadcast::error::RecvError;

use crate::event_router::{Events, dropped_event};
use crate::link::Link;

/// A stream of a client's events, beginning when it was created.
#[derive(Debug)]
pub struct EventStream {
    events: Events,
    /// The sequence number after which the stream starts; `None` once it has returned an event.
    start: Option<u64>,
    /// Keeps the link open.
    _link: Arc<Link>,
}

impl EventStream {
    pub(crate) fn new(link: &Arc<Link>) -> EventStream {
        EventStream { events: link.events(), start: None, _link: Arc::clone(link) }
    }

    /// Creates the stream of a subscription that is still to be requested.
    pub(crate) fn before_subscribe(link: &Arc<Link>) -> EventStream {
        EventStream { events: link.listen(), start: None, _link: Arc::clone(link) }
    }

    /// Skips events up to a sequence number: they were sent before the subscription took effect.
    pub(crate) fn starting_after(self, seq: u64) -> EventStream {
        EventStream { start: Some(seq), ..self }
    }

    /// Returns the next event. A reader that is too slow loses events and gets an EVENTS_DROPPED instead.
    ///
    /// After a reconnect the stream resumes after the last event. If the server was restarted, an
    /// EVENTS_DROPPED comes first, with `dropped` null because the number of lost events is unknown. Then all
    /// events of the new server follow, whose `seq` starts over.
    ///
    /// Returns `None` when the client is closed, or its connection has ended and is not replaced.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<EventMessage> {
        loop {
            let event = match self.events.recv().await {
                Ok(event) if self.start.is_some_and(|start| (1..=start).contains(&event.seq)) => continue,
                Ok(event) => Arc::unwrap_or_clone(event),
                Err(RecvError::Lagged(dropped)) => dropped_event(Some(dropped)),
                Err(RecvError::Closed) => return None,
            };
            // After a restart of the server, which an event reports, the numbers start over.
            self.start = None;
            return Some(event);
        }
    }
}
