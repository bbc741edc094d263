//! The WebSocket: each message is a line of the protocol, served like a line on a socket.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, Request, State};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink, SinkExt, StreamExt};
use http::Version;
use http::request::Parts;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use nerve_node::client_origin::ClientOrigin;
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::SiteState;
use super::connection_auth::ConnectionAuth;
use super::gate;
use super::problem::Problem;
use crate::access::Credential;
use crate::client_origin;
use crate::clients::CLOSE_TIMEOUT;
use crate::connection;
use crate::link::Link;
use crate::metrics::Transport;
use crate::state::ServerState;
use crate::web::role::{self, Role};

/// Size of the pipe between the WebSocket and the connection behind it, each way, in bytes.
const PIPE_BYTES: usize = 64 * 1024;
/// Interval of pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time after which a client that sends nothing, not even pongs, is gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum length of the reason in a close frame in bytes (RFC 6455, section 5.5).
const MAX_REASON_BYTES: usize = 123;

/// Upgrades a connection to a WebSocket.
pub(crate) async fn serve(State(site): State<SiteState>, request: Request) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let handshake = Handshake::read(&mut parts, &site).await?;
    let state = site.state.clone();
    let origin = ClientOrigin { transport: "websocket", ..client_origin::current() };
    Ok(handshake.accept(MAX_LINE_BYTES, async move |socket, credential| {
        run(socket, credential, origin, state).await;
    }))
}

/// A valid request for a WebSocket that has not been answered.
pub(super) struct Handshake {
    upgrade: WebSocketUpgrade,
    auth: ConnectionAuth,
    credential: Option<Credential>,
    role: Option<Role>,
    state: Arc<ServerState>,
}

impl Handshake {
    /// Checks the head of a request.
    pub(super) async fn read(parts: &mut Parts, site: &SiteState) -> Result<Handshake, Problem> {
        let Some(auth) = parts.extensions.get::<ConnectionAuth>().cloned() else {
            return Err(Problem::internal("request without a connection: this is a bug in nerve"));
        };
        if parts.version != Version::HTTP_11 {
            let detail = format!("a WebSocket requires HTTP/1.1, but this request uses {:?}", parts.version);
            return Err(Problem::invalid(detail).hint("use HTTP/1.1, or read events at /events"));
        }
        let upgrade = WebSocketUpgrade::from_request_parts(parts, site).await;
        let upgrade = upgrade.map_err(|error| {
            let problem = Problem::invalid(format!("no WebSocket: {error}"));
            problem.hint("without a WebSocket, read events at /events")
        })?;
        let upgrade = match gate::accepted_protocol(&parts.headers) {
            Some(protocol) => upgrade.protocols([protocol]),
            None => upgrade,
        };
        let credential = parts.extensions.get::<Option<Credential>>().cloned().flatten();
        Ok(Handshake { upgrade, auth, credential, role: role::current_role(), state: site.state.clone() })
    }

    /// Switches to the WebSocket, whose messages have at most `max_bytes`, and serves it with the role of the request.
    pub(super) fn accept<F>(
        self,
        max_bytes: usize,
        serve: impl FnOnce(WebSocket, Option<Credential>) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Handshake { upgrade, auth, credential, role, state } = self;
        let token = auth.tasks.token();
        upgrade.max_message_size(max_bytes).max_frame_size(max_bytes).on_upgrade(async move |socket| {
            let _connected = state.hub.metrics.count_connection(Transport::WebSocket);
            role::with_role(role, serve(socket, credential)).await;
            drop(token);
        })
    }
}

/// Serves a client until it leaves or the server closes.
async fn run(
    socket: WebSocket,
    credential: Option<Credential>,
    origin: ClientOrigin,
    state: Arc<ServerState>,
) {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (read, write) = tokio::io::split(theirs);
    let disconnected = CancellationToken::new();
    let hung_up = Box::pin(disconnected.clone().cancelled_owned());
    let link = Link { read: Box::new(read), write: Box::new(write), hung_up };
    let (sink, stream) = socket.split();
    let (lines, requests) = tokio::io::split(ours);
    // Notifies the connection behind the pipe however this ends, also if sending fails first.
    let guard = disconnected.drop_guard();
    let incoming = async move {
        let _guard = guard;
        MessageReader { stream, requests }.run().await
    };
    let outgoing = MessageWriter { sink, lines: LineReader::new(lines) }.run(incoming);
    // The connection and the pipe end together.
    let served = connection::serve(link, credential, state);
    tokio::join!(client_origin::scope(origin, served), outgoing);
}

/// Reason why no more messages are read.
enum End {
    /// The client has closed or is gone.
    Left,
    /// The client sent an invalid message.
    Refused(u16, &'static str),
}

/// Reads the client's messages.
struct MessageReader {
    stream: SplitStream<WebSocket>,
    requests: WriteHalf<DuplexStream>,
}

impl MessageReader {
    /// Forwards messages as lines.
    async fn run(mut self) -> End {
        let mut last_received = Instant::now();
        loop {
            let message =
                match tokio::time::timeout_at(last_received + SILENCE_TIMEOUT, self.stream.next()).await {
                    Ok(Some(Ok(message))) => message,
                    Ok(Some(Err(error))) => return end_after(&error),
                    Ok(None) | Err(_) => return End::Left,
                };
            last_received = Instant::now();
            let line = match message {
                Message::Text(text) => text.as_bytes().to_vec(),
                Message::Binary(bytes) => bytes.to_vec(),
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(_) => return End::Left,
            };
            if self.forward(line).await.is_err() {
                return End::Left;
            }
            // Waiting for the engine does not count as silence of the client.
            last_received = Instant::now();
        }
    }

    async fn forward(&mut self, mut line: Vec<u8>) -> std::io::Result<()> {
        // A message becomes one line: in JSON, a line break is equivalent to a space.
        for byte in &mut line {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.requests.write_all(&line).await
    }
}

/// Returns the end that an error of reading causes.
fn end_after(error: &axum::Error) -> End {
    match error_close_code(error) {
        Some(close_code::SIZE) => End::Refused(close_code::SIZE, "a message holds at most 16 MiB"),
        Some(code) => End::Refused(code, "a text must be UTF-8"),
        None => End::Left,
    }
}

/// Returns the close code for an invalid message: `SIZE` or `INVALID`; `None` if the client is gone.
pub(super) fn error_close_code(error: &axum::Error) -> Option<u16> {
    // The error type belongs to a library below axum, and axum exposes only its text.
    match error.to_string() {
        text if text.contains("too long") || text.contains("too large") || text.contains("Space limit") => {
            Some(close_code::SIZE)
        }
        text if text.to_ascii_lowercase().contains("utf-8") => Some(close_code::INVALID),
        _ => None,
    }
}

/// Writes the connection's lines as messages.
struct MessageWriter {
    sink: SplitSink<WebSocket, Message>,
    lines: LineReader<ReadHalf<DuplexStream>>,
}

impl MessageWriter {
    /// Sends lines as messages until either side ends.
    async fn run(mut self, incoming: impl Future<Output = End>) {
        tokio::pin!(incoming);
        let mut close_reason = (close_code::NORMAL, "");
        // A client that only listens sends nothing but pongs.
        let mut ping = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        loop {
            let next = tokio::select! {
                next = self.lines.next() => Some(next),
                _ = ping.tick() => None,
                end = &mut incoming => {
                    if let End::Refused(code, reason) = end {
                        close_reason = (code, reason);
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
                    close_reason.0 = close_code::AWAY;
                    break;
                }
            };
            // Keep reading while sending: a client may send everything before it reads.
            let sent = tokio::select! {
                sent = self.sink.send(message) => sent,
                _ = &mut incoming => return,
            };
            if sent.is_err() {
                return;
            }
        }
        close(&mut self.sink, close_reason).await;
    }
}

/// Sends a close frame with a code and the beginning of a reason, and closes the WebSocket.
pub(super) async fn close(socket: &mut (impl Sink<Message> + Unpin), (code, reason): (u16, &str)) {
    let reason = Utf8Bytes::from(&reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]);
    let closing = async {
        let frame = CloseFrame { code, reason };
        let _ = socket.send(Message::Close(Some(frame))).await;
        let _ = socket.close().await;
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
}
