//! Events over a WebSocket, for pages: browsers open only six connections for HTTP/1.1 to a server, which event streams
//! of as many pages use up, but many more WebSockets.
//!
//! | message | contents |
//! |---|---|
//! | `{"type":"start"}` with `server`, `seq` | the stream starts after this event of this server |
//! | a line of the protocol | an event |
//! | `{"type":"heartbeat"}` | every 15 s with a ping, which browsers hide from a page |
//!
//! Messages of the client are ignored. To resume, it sends `since=SERVER-SEQ` with the last event that it received.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, close_code};
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::stream::{BoxStream, StreamExt, iter, unfold};
use serde_json::json;
use tokio::time::Instant;

use super::SiteState;
use super::event_stream::EventStream;
use super::operation::Operation;
use super::problem::Problem;
use super::websocket::{self, Handshake};
use crate::access::{Credential, wait_for_revocation};

/// The start and then lines of the protocol, one or more each time, or why there are no more. Ends when the server closes.
pub(super) type EventLines = BoxStream<'static, Result<Vec<String>, Close>>;

/// A close code and a reason.
pub(super) type Close = (u16, String);

/// Maximum size of a client's message in bytes.
pub(super) const MAX_INPUT_BYTES: usize = 4096;
/// Interval of pings to pages.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Time after which a page that sends nothing, not even pongs, is gone.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// Switches to a WebSocket that receives events.
pub(crate) async fn serve(
    operation: &'static Operation,
    State(site): State<SiteState>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let (start, events) = EventStream::open(operation, &site.state, &parts.uri, &parts.headers)?;
    let handshake = Handshake::read(&mut parts, &site).await?;
    let start = json!({ "type": "start", "server": events.server, "seq": start.seq() });
    let lines = unfold(events, async |events| {
        let next = events.next().await?;
        let lines = next.iter().flat_map(|event| events.lines_of(event));
        // Lines are encoded JSON.
        let texts = lines.filter_map(|line| String::from_utf8(line.trim_ascii_end().to_vec()).ok());
        Some((Ok(texts.collect()), events))
    });
    let lines = iter([Ok(vec![start.to_string()])]).chain(lines).boxed();
    Ok(handshake.accept(MAX_INPUT_BYTES, async move |socket, credential| {
        run(socket, lines, credential).await;
    }))
}

/// Serves a client until it leaves, its credential is revoked or the events end.
pub(super) async fn run(mut socket: WebSocket, events: EventLines, credential: Option<Credential>) {
    let end = tokio::select! {
        end = send_all(&mut socket, events) => end,
        reason = wait_for_revocation(credential) => Some((close_code::POLICY, reason.to_string())),
    };
    if let Some((code, reason)) = end {
        websocket::close(&mut socket, (code, &reason)).await;
    }
}

/// Sends events until they end, and returns why they have; `None` if the client has left.
async fn send_all(socket: &mut WebSocket, mut events: EventLines) -> Option<Close> {
    let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    let mut last_received = Instant::now();
    loop {
        tokio::select! {
            next = events.next() => match next {
                Some(Ok(lines)) => {
                    for line in lines {
                        send(socket, line).await?;
                    }
                }
                Some(Err(close)) => return Some(close),
                None => return Some((close_code::AWAY, "the server is closing".to_string())),
            },
            received = socket.recv() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => last_received = Instant::now(),
            },
            _ = ping.tick() => {
                if last_received.elapsed() > SILENCE_TIMEOUT {
                    return None;
                }
                socket.send(Message::Ping(Bytes::new())).await.ok()?;
                send(socket, json!({ "type": "heartbeat" }).to_string()).await?;
            }
        }
    }
}

async fn send(socket: &mut WebSocket, text: String) -> Option<()> {
    socket.send(Message::Text(text.into())).await.ok()
}
