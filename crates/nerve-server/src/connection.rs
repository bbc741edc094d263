//! Serves one client: requests run concurrently and are answered as they finish, with events in between.
//!
//! One task reads, answers and writes. It answers brief requests itself, which saves waking another thread. Every
//! other request runs in its own task, which sends its reply back.
//!
//! Bounds: at most [`MAX_IN_FLIGHT`] requests are executed or wait to be written; then nothing more is read from this
//! client. At most eight of them may have replies of megabytes. Events have their own bounded queue.

mod spawner;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nerve_api::ErrorKind;
use nerve_api::framing::{Frame, LineReader, MAX_LINE_BYTES};
use nerve_engine::dispatch::Dispatcher;
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::spawner::Spawner;
use crate::access::{Credential, wait_for_revocation};
use crate::clients::CLOSE_TIMEOUT;
use crate::events::Filter;
use crate::line::error_line;
use crate::link::{HungUp, Link, ReadHalf, WriteHalf};
use crate::requests::{self, DecodedRequest};
use crate::send_queue::{AfterSend, Permits, Reply, SendQueue};
use crate::state::ServerState;

/// Maximum number of requests of one client that are executed or wait to be written.
const MAX_IN_FLIGHT: usize = 1024;
/// Capacity of the queue of replies from other tasks.
const REPLY_QUEUE: usize = 64;
/// Maximum number of pipelined requests that are started before their replies are written.
const MAX_BATCH: usize = 64;
/// Maximum number of bytes still read from a client whose connection is being closed, such as an oversized line.
const MAX_LINGER_BYTES: u64 = 2 * MAX_LINE_BYTES as u64;
/// Silence after which a client is disconnected when the server shuts down.
const SHUTDOWN_LINGER: Duration = Duration::from_millis(50);

/// Serves one client until it disconnects, its credential is revoked, or the server closes.
pub(crate) async fn serve(link: Link, credential: Option<Credential>, state: Arc<ServerState>) {
    let Link { read, write, mut hung_up } = link;
    let disconnected = CancellationToken::new();
    // Cancelled however this function ends.
    let _guard = disconnected.clone().drop_guard();
    let mut connection = Connection::new(read, write, disconnected, state);
    let end = connection.run(&mut hung_up, wait_for_revocation(credential)).await;
    connection.close(end, hung_up).await;
}

/// The connection of one client.
struct Connection {
    state: Arc<ServerState>,
    lines: LineReader<ReadHalf>,
    out: SendQueue,
    /// Replies of requests that run in their own tasks.
    replies: mpsc::Receiver<Reply>,
    /// Limits the requests that are executed or wait to be written.
    in_flight: Arc<Semaphore>,
    /// Starts requests; `None` once no more are read.
    spawner: Option<Arc<Spawner>>,
    /// No more requests are read, and all replies are queued.
    is_drained: bool,
    /// The server is closing: events are no longer waited for.
    is_closing: bool,
    /// Time to wait for a client that has not closed its half of the connection.
    linger_time: Duration,
}

/// Reason why a client is no longer served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing is left to read, execute or send.
    Finished,
    /// The credential was revoked.
    Revoked,
    /// The client has closed the connection.
    Disconnected,
}

impl Connection {
    fn new(
        read: ReadHalf,
        write: WriteHalf,
        disconnected: CancellationToken,
        state: Arc<ServerState>,
    ) -> Connection {
        let (reply_sender, replies) = mpsc::channel(REPLY_QUEUE);
        let spawner = Spawner::new(reply_sender, disconnected, state.clone());
        Connection {
            lines: LineReader::new(read),
            out: SendQueue::new(write, state.hub.subscribe(Filter::unsubscribed(), None)),
            state,
            replies,
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            spawner: Some(Arc::new(spawner)),
            is_drained: false,
            is_closing: false,
            linger_time: Duration::ZERO,
        }
    }

    /// Reads, executes and answers requests. `revoked` completes with the reason when the credential is revoked.
    async fn run(&mut self, hung_up: &mut HungUp, revoked: impl Future<Output = &'static str>) -> End {
        let state = self.state.clone();
        let closing = state.closing.cancelled();
        tokio::pin!(closing, revoked);
        loop {
            self.out.gather();
            if self.is_finished() {
                return End::Finished;
            }
            let is_reading = self.spawner.is_some();
            let events = self.out.events();
            let is_writing = !self.out.is_idle() && !self.can_start_next();
            let can_gather = self.out.has_room();
            tokio::select! {
                biased;
                () = &mut closing, if !self.is_closing => {
                    self.is_closing = true;
                    self.stop_reading(SHUTDOWN_LINGER);
                }
                // The client has closed its half of the connection and then the whole connection.
                () = &mut *hung_up, if !is_reading => return End::Disconnected,
                // Also applies to clients that only listen.
                reason = &mut revoked => {
                    report_revocation(&mut self.out, error_line(reason, ErrorKind::Authentication)).await;
                    return End::Revoked;
                }
                written = self.out.write(), if is_writing => if written.is_err() {
                    return End::Disconnected;
                },
                // Polled before the next request, so that a client that sends without pause still receives replies.
                reply = self.replies.recv(), if !self.is_drained => match reply {
                    Some(reply) => self.out.push(reply),
                    None => self.is_drained = true,
                },
                (permit, frame) = next_frame(&self.in_flight, &mut self.lines), if is_reading => {
                    self.handle_frame(permit, frame);
                }
                () = events.wait_until_filled(), if can_gather => {}
            }
        }
    }

    /// Returns true if nothing is left to read, execute or send.
    fn is_finished(&self) -> bool {
        let expects_output = !self.is_drained || (self.out.is_listening() && !self.is_closing);
        self.spawner.is_none() && !expects_output && self.out.is_idle() && self.out.queued_replies() == 0
    }

    /// Returns true if a request has arrived that can start at once. All of them start before anything is written, so
    /// that their replies are written together.
    fn can_start_next(&self) -> bool {
        self.spawner.is_some()
            && self.lines.has_line()
            && self.out.queued_replies() < MAX_BATCH
            && self.in_flight.available_permits() > 0
    }

    /// Starts the request in a frame, or stops reading after the last one.
    fn handle_frame(&mut self, permit: Option<OwnedSemaphorePermit>, frame: io::Result<Frame>) {
        let permits = Permits { in_flight: permit, large: None };
        let request = frame.ok().and_then(|frame| read_request(frame, &self.state.dispatcher));
        if let (Some(request), Some(spawner)) = (request, &self.spawner) {
            spawner.handle(request, permits, &mut self.out);
        } else {
            self.stop_reading(Duration::ZERO);
        }
    }

    /// Reads no more requests. `linger_time`: how long to wait for the client's end after the last reply.
    fn stop_reading(&mut self, linger_time: Duration) {
        (self.spawner, self.linger_time) = (None, linger_time);
    }

    /// Sends what is queued and closes the stream. Then waits for a client that has not closed its half.
    async fn close(self, end: End, hung_up: HungUp) {
        let Connection { out, lines, linger_time, .. } = self;
        if end == End::Disconnected || !out.is_idle() {
            return;
        }
        let is_revoked = end == End::Revoked;
        let linger_time = if is_revoked { CLOSE_TIMEOUT } else { linger_time };
        let close = async {
            match is_revoked {
                true => matches!(tokio::time::timeout(CLOSE_TIMEOUT, out.finish()).await, Ok(Ok(()))),
                false => out.finish().await.is_ok(),
            }
        };
        tokio::select! {
            is_closed = close => if is_closed && !linger_time.is_zero() {
                linger(lines.into_inner(), linger_time).await;
            },
            () = hung_up => {}
        }
    }
}

/// Reports to a client why it is disconnected. Unfinished requests are dropped; pending replies are flushed for at most
/// `CLOSE_TIMEOUT`.
async fn report_revocation(out: &mut SendQueue, line: Vec<u8>) {
    out.push(Reply { line, permits: Permits::default(), after_send: AfterSend::Nothing });
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, out.write_all()).await;
}

/// Discards further input after this side has closed, until the client is silent for `silence`. Closing a connection with unread
/// data would reset it and lose the last reply (RFC 9293 §3.10.4). Bounded in bytes and time.
pub(crate) async fn linger(read: ReadHalf, silence: Duration) {
    let reading = async {
        let (mut read, mut scrap) = (read.take(MAX_LINGER_BYTES), vec![0; 4096]);
        while let Ok(Ok(1..)) = tokio::time::timeout(silence, read.read(&mut scrap)).await {}
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, reading).await;
}

/// Reads the next frame as soon as there is capacity for its reply. Cancel-safe.
async fn next_frame(
    in_flight: &Arc<Semaphore>,
    lines: &mut LineReader<ReadHalf>,
) -> (Option<OwnedSemaphorePermit>, io::Result<Frame>) {
    // The semaphore is never closed.
    let permit = in_flight.clone().acquire_owned().await.ok();
    (permit, lines.next().await)
}

/// Reads a frame. The error is the line that answers it. Returns `None` at the end.
fn read_request(frame: Frame, dispatcher: &Dispatcher) -> Option<Result<DecodedRequest, Vec<u8>>> {
    match frame {
        Frame::Line(line) => Some(requests::read_line(&line, dispatcher)),
        Frame::TooLong { bytes } => Some(Err(requests::too_long(bytes))),
        // The last line may lack its newline. A line that was cut off is not valid JSON.
        Frame::Eof { partial } if !partial.trim_ascii().is_empty() => {
            Some(requests::read_line(&partial, dispatcher))
        }
        Frame::Eof { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use nerve_engine::{Engine, EngineConfig};
    use nerve_node::factory::FactoryConfig;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};

    use super::*;

    fn engine() -> Engine {
        let nodes = FactoryConfig { server: "test".to_string(), ..FactoryConfig::default() };
        Engine::new(EngineConfig { nodes, ..EngineConfig::default() })
    }

    #[tokio::test]
    async fn buffered_stream_is_flushed_after_replies_and_events() {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(server);
        let (read, write) = (Box::new(read), Box::new(BufWriter::new(write)));
        let link = Link { read, write, hung_up: Box::pin(std::future::pending()) };
        let state = Arc::new(ServerState::new(engine()));
        let served = tokio::spawn(serve(link, None, state.clone()));
        let (read, mut write) = tokio::io::split(client);
        let mut lines = BufReader::new(read).lines();
        let mut request = async |line: &str, wanted: &str| {
            write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
            let line = line.expect("the line was not flushed").unwrap().unwrap();
            assert!(line.contains(wanted), "{line}");
        };
        request(r#"{"command_type":"PING"}"#, "pong").await;
        request(r#"{"command_type":"SUBSCRIBE","params":{"types":["NODE_CREATED"]}}"#, "subscribed").await;
        let create = r#"{"command_type":"CREATE_NODE","params":{"node_id":"a","backend":"bash"}}"#;
        request(create, "NODE_CREATED").await;
        request("", "node_id").await;
        state.closing.cancel();
        drop((lines, write));
        served.await.unwrap();
    }

    #[tokio::test]
    async fn client_that_never_pauses_receives_other_replies() {
        const PINGS: usize = 50_000;
        let slow =
            r#"{"command_type":"CREATE_NODE","params":{"node_id":"a","backend":"bash"},"request_id":"slow"}"#;
        let pings = "{\"command_type\":\"PING\"}\n".repeat(PINGS);
        let read = std::io::Cursor::new(format!("{slow}\n{pings}").into_bytes());
        // The buffer holds everything: waiting for it would delay the requests too.
        let (write, client) = tokio::io::duplex(256 << 20);
        let hung_up = Box::pin(std::future::pending());
        let link = Link { read: Box::new(read), write: Box::new(write), hung_up };
        tokio::spawn(serve(link, None, Arc::new(ServerState::new(engine()))));
        let (mut lines, mut before) = (BufReader::new(client).lines(), 0);
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("\"slow\"") {
                break;
            }
            before += 1;
        }
        assert!(before < PINGS / 2, "{before} replies came first");
    }
}
