//! The WebSocket: each message is a line of the wire, and a connection over it does what one over a socket does.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::Version;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::gate::{self, Guest};
use super::problem::Problem;
use crate::access::Pass;
use crate::connection::{self, Link, SentAway};
use crate::metrics::Transport;
use crate::serving::Serving;

/// Bytes that wait between the WebSocket and the connection behind it, each way.
const PIPE: usize = 64 * 1024;
/// How often a client is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);
/// A client that says nothing for so long, no answer to a ping either, is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// How long a client may take for what is said last.
const FAREWELL: Duration = Duration::from_secs(1);

/// Makes a WebSocket of the connection.
pub(crate) async fn serve(State(shared): State<Shared>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let Some(guest) = parts.extensions.get::<Guest>().cloned() else {
        return Err(Problem::internal("a request came from nowhere"));
    };
    if parts.version != Version::HTTP_11 {
        let detail =
            format!("a WebSocket begins with HTTP/1.1, and this request came over {:?}", parts.version);
        return Err(Problem::invalid(detail).hint("ask with HTTP/1.1; over HTTP/2 events are at /events"));
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &shared).await;
    let upgrade = upgrade.map_err(|error| {
        Problem::invalid(format!("no WebSocket: {error}")).hint("events without one are at /events")
    })?;
    let upgrade = match gate::protocol(&parts.headers) {
        Some(protocol) => upgrade.protocols([protocol]),
        None => upgrade,
    };
    let serving = shared.serving.clone();
    let token = guest.tasks.token();
    Ok(upgrade.max_message_size(MAX_LINE_BYTES).max_frame_size(MAX_LINE_BYTES).on_upgrade(
        async move |socket| {
            let _connected = serving.hub.metrics.connected(Transport::WebSocket);
            talk(socket, guest.pass(), serving).await;
            drop(token);
        },
    ))
}

/// Serves a client until it leaves or the server closes.
async fn talk(socket: WebSocket, pass: Option<Pass>, serving: Arc<Serving>) {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (read, write) = tokio::io::split(theirs);
    let left = CancellationToken::new();
    let hung_up = Box::pin(left.clone().cancelled_owned());
    let link = Link { read: Box::new(read), write: Box::new(write), hung_up };
    let (sink, stream) = socket.split();
    let (lines, requests) = tokio::io::split(ours);
    // However it ends, also when sending fails first and nobody waits for what comes in any more: the connection behind hears of it.
    let gone = left.drop_guard();
    let incoming = async move {
        let _gone = gone;
        Incoming { stream, requests }.run().await
    };
    let outgoing = Outgoing { sink, lines: LineReader::new(lines) }.run(incoming);
    // The connection ends when its pipe does, and the pipe when the connection does.
    let sent_away: SentAway = match pass {
        Some(pass) => connection::sent_away(pass),
        None => Box::pin(std::future::pending()),
    };
    let Link { read, write, hung_up } = link;
    tokio::join!(connection::talk(LineReader::new(read), write, hung_up, sent_away, serving), outgoing);
}

/// Why nothing more comes in.
enum End {
    /// The client has closed, or is gone.
    Left,
    /// It has sent what is not taken.
    Refused(u16, &'static str),
}

struct Incoming {
    stream: SplitStream<WebSocket>,
    requests: WriteHalf<DuplexStream>,
}

impl Incoming {
    /// Hands messages on as lines.
    async fn run(mut self) -> End {
        let mut heard = Instant::now();
        loop {
            let message = match tokio::time::timeout_at(heard + SILENCE, self.stream.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return refused(&error),
                Ok(None) | Err(_) => return End::Left,
            };
            heard = Instant::now();
            let line = match message {
                Message::Text(text) => text.as_bytes().to_vec(),
                Message::Binary(bytes) => bytes.to_vec(),
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(_) => return End::Left,
            };
            if self.hand_on(line).await.is_err() {
                return End::Left;
            }
            // Time spent waiting for the engine is no silence of the client's.
            heard = Instant::now();
        }
    }

    async fn hand_on(&mut self, mut line: Vec<u8>) -> std::io::Result<()> {
        // A message is one line, however it is written: in JSON a line break is as good as a blank.
        for byte in &mut line {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.requests.write_all(&line).await
    }
}

fn refused(error: &axum::Error) -> End {
    // The error's own type is that of a library below axum; its words are all that is passed on.
    match error.to_string() {
        text if text.contains("too long") || text.contains("too large") || text.contains("Space limit") => {
            End::Refused(close_code::SIZE, "a message holds at most 16 MiB")
        }
        text if text.to_ascii_lowercase().contains("utf-8") => {
            End::Refused(close_code::INVALID, "a text must be UTF-8")
        }
        _ => End::Left,
    }
}

struct Outgoing {
    sink: SplitSink<WebSocket, Message>,
    lines: LineReader<ReadHalf<DuplexStream>>,
}

impl Outgoing {
    /// Sends lines as messages until there are no more, or nothing comes in any more.
    async fn run(mut self, incoming: impl Future<Output = End>) {
        tokio::pin!(incoming);
        let mut farewell = CloseFrame { code: close_code::NORMAL, reason: Utf8Bytes::from_static("") };
        // A client that only listens says nothing but its answers to these.
        let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
        loop {
            let next = tokio::select! {
                next = self.lines.next() => Some(next),
                _ = ping.tick() => None,
                end = &mut incoming => {
                    if let End::Refused(code, reason) = end {
                        farewell = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
                    }
                    break;
                }
            };
            let message = match next {
                None => Message::Ping(axum::body::Bytes::new()),
                Some(Ok(Frame::Line(line))) => match String::from_utf8(line) {
                    Ok(line) => Message::Text(line.into()),
                    Err(_) => continue,
                },
                Some(Ok(Frame::TooLong { .. })) => continue,
                Some(Ok(Frame::Eof { .. }) | Err(_)) => {
                    farewell.code = close_code::AWAY;
                    break;
                }
            };
            // What comes in is taken meanwhile: a client may send all before it reads.
            let sent = tokio::select! {
                sent = self.sink.send(message) => sent,
                _ = &mut incoming => return,
            };
            if sent.is_err() {
                return;
            }
        }
        let bye = async {
            let _ = self.sink.send(Message::Close(Some(farewell))).await;
            let _ = self.sink.close().await;
        };
        let _ = tokio::time::timeout(FAREWELL, bye).await;
    }
}
