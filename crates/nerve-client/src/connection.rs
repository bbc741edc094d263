//! One connection shared by all requests: a task that writes what is asked, reads what is said, and hands it out.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use nerve_api::framing::{Frame, LineReader};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::error::ClientError;
use crate::inbox::Inbox;
use crate::pending::{Closed, Extras, PendingReply, Shared};

/// Requests that wait for the socket; a further one waits for its place.
const WRITE_QUEUE: usize = 64;

/// Gives the lines that the server sends.
pub(crate) trait Incoming: Send + 'static {
    /// The next one; an error at the end.
    fn next(&mut self) -> impl Future<Output = Result<Vec<u8>, Closed>> + Send;
}

/// Takes the lines that go to the server.
pub(crate) trait Outgoing: Send + 'static {
    /// Sends one, its newline included.
    fn send(&mut self, line: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// What a server has said before it hung up is still read for so long when nothing can be written any more.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
        inbox: &Arc<Inbox>,
        muted: bool,
    ) -> Connection {
        Connection::new(LineReader::new(reading), Bytes(writing), inbox, muted)
    }

    /// Must be called within a tokio runtime. `muted`: events are passed over until it is known what they are.
    pub(crate) fn new(
        incoming: impl Incoming,
        outgoing: impl Outgoing,
        inbox: &Arc<Inbox>,
        muted: bool,
    ) -> Connection {
        let (lines, queue) = mpsc::channel(WRITE_QUEUE);
        let shared = Arc::new(Shared::new(Arc::clone(inbox), muted));
        let task = tokio::spawn(drive(incoming, outgoing, queue, Arc::clone(&shared))).abort_handle();
        Connection { lines, shared, task }
    }

    /// Sends a request. It is on its way when this returns; dropping the result gives up on the answer.
    pub(crate) async fn send(&self, line: Line, extras: Extras) -> Result<PendingReply, ClientError> {
        let id = line.id;
        let pending = self.shared.register(id, extras)?;
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
async fn drive(
    incoming: impl Incoming,
    outgoing: impl Outgoing,
    queue: mpsc::Receiver<Line>,
    shared: Arc<Shared>,
) {
    let reading = read_all(incoming, &shared);
    tokio::pin!(reading);
    let why = tokio::select! {
        // First, so that nothing is written to a server that has said it is gone.
        biased;
        why = &mut reading => why,
        why = write_all(outgoing, queue, &shared) => {
            shared.fall_silent();
            tokio::time::timeout(LAST_WORDS, reading).await.unwrap_or(why)
        }
    };
    shared.close(why);
}

async fn read_all(mut incoming: impl Incoming, shared: &Shared) -> Closed {
    loop {
        match incoming.next().await {
            Ok(line) => {
                if let Err(why) = shared.deliver(&line) {
                    return why;
                }
            }
            Err(why) => return why,
        }
    }
}

async fn write_all(mut outgoing: impl Outgoing, mut queue: mpsc::Receiver<Line>, shared: &Shared) -> Closed {
    while let Some(line) = queue.recv().await {
        if !shared.begins(line.id) {
            break;
        }
        if let Err(error) = outgoing.send(&line.bytes).await {
            return Closed::broken(&error);
        }
    }
    Closed::ByClient
}

impl<R: AsyncRead + Unpin + Send + 'static> Incoming for LineReader<R> {
    async fn next(&mut self) -> Result<Vec<u8>, Closed> {
        match LineReader::next(self).await {
            Ok(Frame::Line(line)) => Ok(line),
            Ok(Frame::TooLong { bytes }) => {
                Err(Closed::Garbled(format!("the server sent a line of {bytes} bytes")))
            }
            Ok(Frame::Eof { .. }) => Err(Closed::ByServer),
            Err(error) => Err(Closed::broken(&error)),
        }
    }
}

/// Lines on a stream of bytes.
struct Bytes<W>(W);

impl<W: AsyncWrite + Unpin + Send + 'static> Outgoing for Bytes<W> {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line).await?;
        // TLS may keep the end of a line for itself until it is told to hand it on.
        self.0.flush().await
    }
}
