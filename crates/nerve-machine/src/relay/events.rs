//! The events of a machine that a filter selects.

use std::sync::Arc;

use nerve_api::request::Subscribe;
use nerve_client::{ClientError, EventStream};
use tokio::task::AbortHandle;

use super::connection::MachineConnection;
use super::event_filter::is_selected;
use super::event_queue::EventQueue;
use crate::error::MachineError;

/// Events of a machine that a filter selects.
#[derive(Debug)]
pub struct MachineEvents {
    connection: Arc<MachineConnection>,
    queue: Arc<EventQueue>,
    forwarder: AbortHandle,
}

impl Drop for MachineEvents {
    fn drop(&mut self) {
        self.forwarder.abort();
    }
}

impl MachineEvents {
    /// Begins to receive the events that a filter selects, from now on. The field `since` is ignored.
    pub fn new(connection: Arc<MachineConnection>, filter: Subscribe) -> MachineEvents {
        let events = connection.events();
        let queue = Arc::new(EventQueue::default());
        let forwarder = tokio::spawn(forward(events, filter, Arc::clone(&queue))).abort_handle();
        MachineEvents { connection, queue, forwarder }
    }

    /// Returns the next event as a line of the protocol. Cancel-safe. A reader that is too slow loses events and gets an EVENTS_DROPPED
    /// instead.
    ///
    /// # Errors
    /// The connection has ended, for this reason.
    pub async fn next(&mut self) -> Result<String, MachineError> {
        match self.queue.next().await {
            Some(line) => Ok(line),
            None => Err(self.connection.end_with(ClientError::closed())),
        }
    }
}

/// Queues the events that a filter selects. Never waits for their reader: the client would keep all events meanwhile.
async fn forward(mut events: EventStream, filter: Subscribe, queue: Arc<EventQueue>) {
    while let Some(event) = events.next().await {
        if is_selected(&filter, &event) {
            queue.push(&event);
        }
    }
    queue.end();
}
