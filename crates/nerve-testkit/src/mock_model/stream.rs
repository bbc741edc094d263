//! An answer that grows over time: server-sent events as the body of a response.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio_util::io::ReaderStream;

/// One event and the pause before it.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) pause: Duration,
    pub(super) text: String,
}

impl Event {
    /// An event with a name.
    pub(super) fn named(name: &str, data: &Value) -> Event {
        Event { pause: Duration::ZERO, text: format!("event: {name}\ndata: {data}\n\n") }
    }

    /// An event that is named by its own `type` member.
    pub(super) fn typed(data: &Value) -> Event {
        Event::named(data["type"].as_str().unwrap_or("message"), data)
    }

    /// An event without a name.
    pub(super) fn data(data: &impl std::fmt::Display) -> Event {
        Event { pause: Duration::ZERO, text: format!("data: {data}\n\n") }
    }

    pub(super) fn after(self, pause: Duration) -> Event {
        Event { pause, ..self }
    }
}

/// Sends the events one after the other; ends early when the client leaves or the server is to stop.
pub(super) fn respond(events: Vec<Event>, stopped: watch::Receiver<bool>) -> Response {
    let (reader, writer) = tokio::io::duplex(64 << 10);
    tokio::spawn(send(events, writer, stopped));
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(ReaderStream::new(reader))).into_response()
}

async fn send(events: Vec<Event>, mut writer: tokio::io::DuplexStream, mut stopped: watch::Receiver<bool>) {
    for event in events {
        if !event.pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(event.pause) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
        if writer.write_all(event.text.as_bytes()).await.is_err() {
            return;
        }
    }
}
