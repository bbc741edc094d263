//! Streamed responses: server-sent events with delays.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio_util::io::ReaderStream;

use super::answer::{BodyEnd, Raw};

/// An event and the delay before it.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) pause: Duration,
    pub(super) text: String,
}

impl Event {
    /// Creates a named event.
    pub(super) fn named(name: &str, data: &Value) -> Event {
        Event { pause: Duration::ZERO, text: format!("event: {name}\ndata: {data}\n\n") }
    }

    /// Creates an event named by its `type` field.
    pub(super) fn typed(data: &Value) -> Event {
        Event::named(data["type"].as_str().unwrap_or("message"), data)
    }

    /// Creates an event without a name.
    pub(super) fn data(data: &impl std::fmt::Display) -> Event {
        Event { pause: Duration::ZERO, text: format!("data: {data}\n\n") }
    }

    pub(super) fn after(self, pause: Duration) -> Event {
        Event { pause, ..self }
    }
}

/// Sends the events in order, then ends the body with `end`. Stops early if the client disconnects or the server
/// stops. Calls `on_sent` once all events are sent.
pub(super) fn respond(
    events: Vec<Event>,
    end: BodyEnd,
    stopped: watch::Receiver<bool>,
    on_sent: impl FnOnce() + Send + 'static,
) -> Response {
    let (reader, writer) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        if send(events, writer, stopped).await {
            on_sent();
        }
    });
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    let body = reader.chain(BodyTail { end, has_waited: false });
    (headers, Body::from_stream(ReaderStream::new(body))).into_response()
}

/// Creates a response whose connection is reset before its body.
pub(super) fn reset() -> Response {
    Body::from_stream(ReaderStream::new(BodyTail { end: BodyEnd::Broken, has_waited: false })).into_response()
}

/// Returns the number of events up to the first that contains the text.
pub(super) fn end_of_text(events: &[Event], text: &str) -> usize {
    events.iter().position(|event| event.text.contains(text)).map_or(events.len(), |at| at + 1)
}

/// Creates a response of verbatim bytes.
pub(super) fn raw(raw: &Raw) -> Response {
    let tail = BodyTail { end: raw.end, has_waited: false };
    let body = std::io::Cursor::new(raw.body.clone().into_bytes()).chain(tail);
    let mut response = Body::from_stream(ReaderStream::new(body)).into_response();
    *response.status_mut() = StatusCode::from_u16(raw.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &raw.headers {
        let header = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
        if let (Ok(name), Ok(value)) = header {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The end of a body after its bytes.
struct BodyTail {
    end: BodyEnd,
    has_waited: bool,
}

impl AsyncRead for BodyTail {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.end {
            // The bytes before are flushed while this is pending.
            BodyEnd::Broken if !self.has_waited => {
                self.has_waited = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            BodyEnd::Whole => Poll::Ready(Ok(())),
            BodyEnd::Broken => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            // Ends when the client disconnects or the server stops.
            BodyEnd::Endless => Poll::Pending,
        }
    }
}

/// Returns true if all events were sent.
async fn send(
    events: Vec<Event>,
    mut writer: tokio::io::DuplexStream,
    mut stopped: watch::Receiver<bool>,
) -> bool {
    for event in events {
        if !event.pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(event.pause) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return false,
            }
        }
        if writer.write_all(event.text.as_bytes()).await.is_err() {
            return false;
        }
    }
    true
}
