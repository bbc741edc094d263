//! Encodes messages as lines.

use nerve_api::reply::ErrorDetails;
use nerve_api::{ErrorKind, ErrorMessage, Event, EventMessage, Message, RequestId, ResultMessage, framing};

/// Encodes a message as a line. A message that is too long becomes an error.
pub(crate) fn line_of(message: &Message) -> Vec<u8> {
    framing::encode(message).unwrap_or_else(|error| {
        let request_id = match message {
            Message::Result(result) => result.request_id.clone(),
            Message::Error(_) | Message::Event(_) => None,
        };
        too_large_line(request_id, &error)
    })
}

/// Encodes an event as a line.
pub(crate) fn event_line(event: &Event) -> Vec<u8> {
    framing::encode(event).unwrap_or_else(|error| too_large_line(None, &error))
}

/// Encodes an event under its older name as a line; `None` if it has no older name.
pub(crate) fn old_event_line(event: &Event) -> Option<Vec<u8>> {
    event.kind.event_type().old_name()?;
    let message = EventMessage::of(event).ok()?;
    Some(line_of(&Message::Event(message.under_old_name()?)))
}

/// Encodes an error that concerns no request as a line.
pub(crate) fn error_line(error: impl Into<String>) -> Vec<u8> {
    line_of(&Message::Error(ErrorMessage { error: error.into(), request_id: None }))
}

/// The failure of a request whose reply is too large.
pub(crate) fn too_large(request_id: Option<RequestId>, error: &framing::TooLarge) -> ResultMessage {
    let details = ErrorDetails {
        hint: Some("request fewer entries or lines".to_string()),
        ..ErrorDetails::of(ErrorKind::TooLarge)
    };
    ResultMessage::failed(request_id, error.to_string(), &details)
}

fn too_large_line(request_id: Option<RequestId>, error: &framing::TooLarge) -> Vec<u8> {
    // Short: the only long part is the id of the request, which is bounded.
    framing::encode(&Message::Result(too_large(request_id, error))).unwrap_or_default()
}
