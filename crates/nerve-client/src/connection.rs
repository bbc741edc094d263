//! One connection, shared by all requests: a task writes requests, reads messages and dispatches them.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use nerve_api::framing::{Frame, LineReader, encode};
use nerve_api::{RequestId, RequestLine, RequestName};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::AbortHandle;

use crate::error::ClientError;
use crate::event_router::{EventRouter, Subscription};
use crate::pending_requests::{CloseReason, PendingReply, ReplyHooks, Shared};

/// Capacity of the queue of unsent requests.
const WRITE_QUEUE: usize = 64;

/// A source of the server's lines.
pub(crate) trait LineSource: Send + 'static {
    /// Returns the next line, or why the connection has ended. Need not be cancel-safe.
    fn next(&mut self) -> impl Future<Output = Result<Vec<u8>, CloseReason>> + Send;
}

/// A sink for lines to the server.
pub(crate) trait LineSink: Send + 'static {
    /// Sends a line, which includes its newline.
    fn send(&mut self, line: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// Time for which input is still read after writing has failed: the server may have sent an error before it
/// hung up.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection. Dropping it ends its task.
#[derive(Debug)]
pub(crate) struct Connection {
    lines: mpsc::Sender<Line>,
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// An encoded request.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) id: i64,
    /// Shared, because it may be resent over another connection.
    pub(crate) bytes: Arc<[u8]>,
}

impl fmt::Debug for Line {
    /// Hides the content, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Encodes a request with a new id.
pub(crate) fn encode_request<P: Serialize>(
    router: &EventRouter,
    command: RequestName,
    params: &P,
) -> Result<Line, ClientError> {
    let id = router.new_id();
    let request_id = RequestId::Text(id.to_string());
    let bytes = encode(&RequestLine { command_type: command.as_str(), params, request_id: &request_id })
        .map_err(|error| ClientError::Protocol(format!("{command}: {error}")))?;
    Ok(Line { id, bytes: bytes.into() })
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.abandon();
    }
}

impl Connection {
    /// Creates a connection over a byte stream. Must be called within a tokio runtime.
    pub(crate) fn over(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        router: &Arc<EventRouter>,
        muted: bool,
    ) -> Connection {
        Connection::new(LineReader::new(reader), StreamSink(writer), router, muted)
    }

    /// Creates a connection and starts its task. Must be called within a tokio runtime. `muted`: events are
    /// discarded until the subscription is restored.
    pub(crate) fn new(
        source: impl LineSource,
        sink: impl LineSink,
        router: &Arc<EventRouter>,
        muted: bool,
    ) -> Connection {
        let (lines, queue) = mpsc::channel(WRITE_QUEUE);
        let shared = Arc::new(Shared::new(Arc::clone(router), muted));
        let task = tokio::spawn(run_connection(source, sink, queue, Arc::clone(&shared))).abort_handle();
        Connection { lines, shared, task }
    }

    /// Queues a request. Dropping the reply cancels only the wait.
    pub(crate) async fn send(&self, line: Line, hooks: ReplyHooks) -> Result<PendingReply, ClientError> {
        let id = line.id;
        let pending = self.shared.register(id, hooks)?;
        // A line is queued completely or not at all, even if this future is dropped here.
        if self.lines.send(line).await.is_err() {
            return Err(self.shared.close_error(false, Some(id)));
        }
        Ok(pending)
    }

    /// Queues a SUBSCRIBE without waiting for its reply, unless the connection already has a subscription. Requests that are queued
    /// later are sent after it.
    pub(crate) fn subscribe_once(&self, line: Line, subscription: Subscription, runtime: &Handle) {
        if !self.shared.register_own_subscribe(line.id, subscription) {
            return;
        }
        if let Err(TrySendError::Full(line)) = self.lines.try_send(line) {
            let lines = self.lines.clone();
            // Fails only when the connection has ended.
            runtime.spawn(async move { lines.send(line).await.is_ok() });
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// Runs a connection to its end. Dropping both halves then closes the stream.
async fn run_connection(
    source: impl LineSource,
    sink: impl LineSink,
    queue: mpsc::Receiver<Line>,
    shared: Arc<Shared>,
) {
    let read_loop = read_all(source, &shared);
    tokio::pin!(read_loop);
    let reason = tokio::select! {
        // Read first, so that nothing is written after the server has closed.
        biased;
        reason = &mut read_loop => reason,
        reason = write_all(sink, queue, &shared) => {
            shared.close_writes();
            tokio::time::timeout(DRAIN_TIMEOUT, read_loop).await.unwrap_or(reason)
        }
    };
    shared.close(reason);
}

async fn read_all(mut source: impl LineSource, shared: &Shared) -> CloseReason {
    loop {
        match source.next().await {
            Ok(line) => {
                if let Err(reason) = shared.deliver(&line) {
                    return reason;
                }
            }
            Err(reason) => return reason,
        }
    }
}

async fn write_all(mut sink: impl LineSink, mut queue: mpsc::Receiver<Line>, shared: &Shared) -> CloseReason {
    while let Some(line) = queue.recv().await {
        if !shared.mark_sent(line.id) {
            break;
        }
        if let Err(error) = sink.send(&line.bytes).await {
            return CloseReason::broken(&error);
        }
    }
    CloseReason::ByClient
}

impl<R: AsyncRead + Unpin + Send + 'static> LineSource for LineReader<R> {
    async fn next(&mut self) -> Result<Vec<u8>, CloseReason> {
        match LineReader::next(self).await {
            Ok(Frame::Line(line)) => Ok(line),
            Ok(Frame::TooLong { bytes }) => {
                Err(CloseReason::InvalidData(format!("the server sent a line of {bytes} bytes")))
            }
            Ok(Frame::Eof { .. }) => Err(CloseReason::ByServer),
            Err(error) => Err(CloseReason::broken(&error)),
        }
    }
}

/// Writes lines to a byte stream.
pub(crate) struct StreamSink<W>(pub(crate) W);

impl<W: AsyncWrite + Unpin + Send + 'static> LineSink for StreamSink<W> {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line).await?;
        // TLS may buffer the end of a line until it is flushed.
        self.0.flush().await
    }
}
