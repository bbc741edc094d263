//! The only place that maps the engine's words and the wire's to each other.

mod answer;
mod chat;
mod event;
mod graph;
mod proxy;
mod request;
mod result;
#[cfg(test)]
mod tests;
mod trace;

use std::time::SystemTime;

use nerve_api::reply::ErrorDetails;
use nerve_api::{ErrorMessage, EventMessage, Message, ResultMessage, framing};
use nerve_term::event::TsNs;
use serde::Serialize;
use serde_json::Value;

pub(crate) use answer::{Answer, execute_data};
pub(crate) use event::{event, events_dropped, of_request};
pub(crate) use request::{
    Authenticate, Request, authenticate, changes_nothing, is_brief, may_answer_much, may_end_with_much,
    request, too_long,
};
pub(crate) use trace::takes as takes_trace;

/// A message as it is sent, line end included. One that is too long for a line becomes an error that says so.
pub(crate) fn line_of(message: &Message) -> Vec<u8> {
    framing::encode(message).unwrap_or_else(|error| {
        let request_id = match message {
            Message::Result(result) => result.request_id.clone(),
            Message::Error(_) | Message::Event(_) => None,
        };
        let data = ErrorDetails { hint: Some("ask for less".to_string()), ..ErrorDetails::of("too_large") };
        let failed = Message::Result(ResultMessage::failed(request_id, error.to_string(), &data));
        // Short, but for the request's id, which is bounded.
        framing::encode(&failed).unwrap_or_default()
    })
}

/// An event's line.
pub(crate) fn event_line(event: EventMessage) -> Vec<u8> {
    line_of(&Message::Event(event))
}

/// The line for what could not be read as a request.
pub(crate) fn error_line(error: impl Into<String>) -> Vec<u8> {
    line_of(&Message::Error(ErrorMessage { error: error.into(), request_id: None }))
}

/// Seconds since the Unix epoch, as the wire has them.
fn seconds(time: TsNs) -> f64 {
    // Exact to well under a microsecond until the year 2100.
    time.0 as f64 / 1e9
}

/// The wire's types are maps with text keys, lists and plain values: they have no way to fail.
fn value(data: impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
