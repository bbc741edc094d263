//! Encodes messages as lines.

use nerve_api::{Envelope, ErrorKind, ErrorMessage, Event, Message, framing};

use crate::reply_context::Failure;

/// Encodes a message as a line. A message that is too long becomes an error.
pub(crate) fn line_of(message: &Message) -> Vec<u8> {
    framing::encode(message).unwrap_or_else(|error| too_large_line(&error))
}

/// Encodes an event as a line.
pub(crate) fn event_line(event: &Event) -> Vec<u8> {
    framing::encode(event).unwrap_or_else(|error| too_large_line(&error))
}

/// Encodes an error that concerns no request as a line.
pub(crate) fn error_line(error: impl Into<String>, error_type: ErrorKind) -> Vec<u8> {
    line_of(&Message::Error(ErrorMessage { error: error.into(), error_type, request_id: None }))
}

fn too_large_line(error: &framing::TooLarge) -> Vec<u8> {
    let Failure { message, details } = Failure::too_large(error);
    Envelope::default().error_line(&message, &details).unwrap_or_default()
}
