//! One connection shared by all requests: a task that writes what is asked, reads what is said, and hands it out.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use nerve_proto::framing::{Frame, LineReader};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::error::ClientError;
use crate::event_router::EventRouter;
use crate::pending::{Closed, PendingReply, ReplyHooks, Shared};

/// Requests that wait for the socket; a further one waits for its position.
const WRITE_QUEUE: usize = 64;

/// Gives the lines that the server sends.
pub(crate) trait LineSource: Send + 'static {
    /// The next one; an error at the end.
    fn next(&mut self) -> impl Future<Output = Result<Vec<u8>, Closed>> + Send;
}

/// Takes the lines that go to the server.
pub(crate) trait LineSink: Send + 'static {
    /// Sends one, its newline included.
    fn send(&mut self, line: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// What a server has said before it hung up is still read for so long when nothing can be written any more.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection. Dropping it ends its task.
#[derive(Debug)]
pub(crate) struct Connection {
    lines: mpsc::Sender<Line>,
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// A request on its way.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) id: i64,
    /// Shared, for it may have to go out once more over another connection.
    pub(crate) bytes: Arc<[u8]>,
}

impl fmt::Debug for Line {
    /// Without what is asked, which no log is to have.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.abandon();
    }
}

impl Connection {
    /// Over a stream of bytes. Must be called within a tokio runtime.
    pub(crate) fn over(
        reading: impl AsyncRead + Unpin + Send + 'static,
        writing: impl AsyncWrite + Unpin + Send + 'static,
        router: &Arc<EventRouter>,
        muted: bool,
    ) -> Connection {
        Connection::new(LineReader::new(reading), StreamSink(writing), router, muted)
    }

    /// Must be called within a tokio runtime. `muted`: events are passed over until it is known what they are.
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

    /// Sends a request. It is on its way when this returns; dropping the result gives up on the answer.
    pub(crate) async fn send(&self, line: Line, hooks: ReplyHooks) -> Result<PendingReply, ClientError> {
        let id = line.id;
        let pending = self.shared.register(id, hooks)?;
        // A line enters the queue whole or not at all, also when this future is dropped here.
        if self.lines.send(line).await.is_err() {
            return Err(self.shared.why_closed(false, Some(id)));
        }
        Ok(pending)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// With its end both halves of the stream go: the server hears of it, also in the middle of what it says.
async fn run_connection(
    source: impl LineSource,
    sink: impl LineSink,
    queue: mpsc::Receiver<Line>,
    shared: Arc<Shared>,
) {
    let reading = read_all(source, &shared);
    tokio::pin!(reading);
    let why = tokio::select! {
        // First, so that nothing is written to a server that has said it is gone.
        biased;
        why = &mut reading => why,
        why = write_all(sink, queue, &shared) => {
            shared.close_writes();
            tokio::time::timeout(DRAIN_TIMEOUT, reading).await.unwrap_or(why)
        }
    };
    shared.close(why);
}

async fn read_all(mut source: impl LineSource, shared: &Shared) -> Closed {
    loop {
        match source.next().await {
            Ok(line) => {
                if let Err(why) = shared.deliver(&line) {
                    return why;
                }
            }
            Err(why) => return why,
        }
    }
}

async fn write_all(mut sink: impl LineSink, mut queue: mpsc::Receiver<Line>, shared: &Shared) -> Closed {
    while let Some(line) = queue.recv().await {
        if !shared.mark_sent(line.id) {
            break;
        }
        if let Err(error) = sink.send(&line.bytes).await {
            return Closed::broken(&error);
        }
    }
    Closed::ByClient
}

impl<R: AsyncRead + Unpin + Send + 'static> LineSource for LineReader<R> {
    async fn next(&mut self) -> Result<Vec<u8>, Closed> {
        match LineReader::next(self).await {
            Ok(Frame::Line(line)) => Ok(line),
            Ok(Frame::TooLong { bytes }) => {
                Err(Closed::InvalidData(format!("the server sent a line of {bytes} bytes")))
            }
            Ok(Frame::Eof { .. }) => Err(Closed::ByServer),
            Err(error) => Err(Closed::broken(&error)),
        }
    }
}

/// Lines on a stream of bytes.
struct StreamSink<W>(W);

impl<W: AsyncWrite + Unpin + Send + 'static> LineSink for StreamSink<W> {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line).await?;
        // TLS may keep the end of a line for itself until it is told to hand it on.
        self.0.flush().await
    }
}
