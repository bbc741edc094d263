//! Events of the engine as event messages, and messages as lines.

mod event;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use nerve_api::{ErrorMessage, EventMessage, Message, framing};

pub(crate) use event::{event, events_dropped, of_request};

use crate::answer::too_large;

/// Encodes a message as a line. A message that is too long becomes an error.
pub(crate) fn line_of(message: &Message) -> Vec<u8> {
    framing::encode(message).unwrap_or_else(|error| {
        let request_id = match message {
            Message::Result(result) => result.request_id.clone(),
            Message::Error(_) | Message::Event(_) => None,
        };
        // Short: the only long part is the id of the request, which is bounded.
        framing::encode(&Message::Result(too_large(request_id, &error))).unwrap_or_default()
    })
}

/// Encodes an event as a line.
pub(crate) fn event_line(event: EventMessage) -> Vec<u8> {
    line_of(&Message::Event(event))
}

/// Encodes an error that concerns no request as a line.
pub(crate) fn error_line(error: impl Into<String>) -> Vec<u8> {
    line_of(&Message::Error(ErrorMessage { error: error.into(), request_id: None }))
}

/// Returns the current time in seconds since the Unix epoch.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
