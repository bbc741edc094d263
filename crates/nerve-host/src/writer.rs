//! The write half of a client's connection: its queue, and how far it is behind.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nerve_types::os;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Bytes that may be queued for a client before the terminal is no longer read.
pub(super) const MAX_QUEUED: usize = 4 << 20;
/// [`MAX_QUEUED`] for a viewer, which should show current output rather than a long queue.
pub(super) const MAX_QUEUED_VIEWER: usize = 512 << 10;

/// Approximate memory of a queued piece in addition to its bytes.
const PIECE_OVERHEAD: usize = 128;

/// The outgoing queue of a client. Pushing never blocks.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::UnboundedSender<Piece>,
    /// Approximate memory of the queue in bytes.
    queued_bytes: Arc<AtomicUsize>,
    /// Time at which the queue became too long, and its length then.
    behind_since: Option<(Instant, usize)>,
    task: AbortOnDropHandle<()>,
}

/// The state of a client's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backpressure {
    None,
    Behind,
    /// Too long for the whole timeout without shrinking.
    Stalled,
}

enum Piece {
    Bytes(Arc<Vec<u8>>),
    /// The greeting, with the terminal's descriptor.
    Greeting(Vec<u8>, OwnedFd),
}

impl Writer {
    /// Starts the sending task. It notifies `progress` after each piece and awaits `on_closed` when the connection is closed.
    pub(super) fn new(
        write: OwnedWriteHalf,
        progress: Arc<Notify>,
        on_closed: impl Future<Output = ()> + Send + 'static,
    ) -> Writer {
        let (queue, pieces) = mpsc::unbounded_channel();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let counted = queued_bytes.clone();
        let task = tokio::spawn(async move {
            // A write error is treated like a closed connection.
            let _ = write_pieces(write, pieces, &counted, &progress).await;
            on_closed.await;
            progress.notify_one();
        });
        Writer { queue, queued_bytes, behind_since: None, task: AbortOnDropHandle::new(task) }
    }

    /// Closes the connection when the queue is sent, or after `timeout`. Dropping the writer instead closes it at once.
    pub(super) fn close_after_flush(self, timeout: Duration) {
        let Writer { queue, task, .. } = self;
        drop(queue);
        tokio::spawn(tokio::time::timeout(timeout, task));
    }

    /// Closes the connection when the queue is sent, however long that takes.
    pub(super) fn detach(self) {
        drop(self.queue);
        drop(self.task.detach());
    }

    /// Sends the greeting with the terminal's descriptor.
    pub(super) fn greet(&self, greeting: Vec<u8>, terminal: OwnedFd) {
        // Fails only while the client is being removed.
        let _ = self.queue.send(Piece::Greeting(greeting, terminal));
    }

    /// Queues frames.
    pub(super) fn push(&self, frames: &Arc<Vec<u8>>) {
        self.queued_bytes.fetch_add(cost(frames), Ordering::AcqRel);
        let _ = self.queue.send(Piece::Bytes(frames.clone()));
    }

    /// Returns the state of the queue. `max_queued`: bytes that may wait; `timeout`: time without progress after which the
    /// client is stalled.
    pub(super) fn backpressure(&mut self, max_queued: usize, timeout: Duration) -> Backpressure {
        let queued_bytes = self.queued_bytes.load(Ordering::Acquire);
        if queued_bytes < max_queued {
            self.behind_since = None;
            return Backpressure::None;
        }
        match self.behind_since {
            Some((since, then)) if queued_bytes >= then => {
                if since.elapsed() >= timeout {
                    return Backpressure::Stalled;
                }
            }
            _ => self.behind_since = Some((Instant::now(), queued_bytes)),
        }
        Backpressure::Behind
    }

    /// Returns true if the queue was too long at the last check.
    pub(super) fn is_behind(&self) -> bool {
        self.behind_since.is_some()
    }

    /// Returns true if the queue is empty.
    pub(super) fn is_drained(&self) -> bool {
        self.queued_bytes.load(Ordering::Acquire) == 0
    }
}

fn cost(frames: &Arc<Vec<u8>>) -> usize {
    frames.len() + PIECE_OVERHEAD
}

async fn write_pieces(
    mut write: OwnedWriteHalf,
    mut pieces: mpsc::UnboundedReceiver<Piece>,
    queued_bytes: &AtomicUsize,
    progress: &Notify,
) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Greeting(bytes, terminal) => {
                let sent = send_with_descriptor(write.as_ref(), &bytes, &terminal).await?;
                write.write_all(&bytes[sent..]).await?;
            }
            Piece::Bytes(bytes) => {
                write.write_all(&bytes).await?;
                queued_bytes.fetch_sub(cost(&bytes), Ordering::AcqRel);
                progress.notify_one();
            }
        }
    }
    Ok(())
}

/// Writes some of `bytes` together with a descriptor (unix(7), `SCM_RIGHTS`).
async fn send_with_descriptor(stream: &UnixStream, bytes: &[u8], terminal: &OwnedFd) -> io::Result<usize> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = [terminal.as_fd()];
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            let bytes = [io::IoSlice::new(bytes)];
            Ok(rustix::net::sendmsg(stream, &bytes, &mut ancillary, os::SEND_FLAGS)?)
        })
        .await
}
