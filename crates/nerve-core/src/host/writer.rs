//! The sending end of a connection: what waits for it, and how far behind it is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Bytes that may wait for one connection before the terminal is read no further.
pub(super) const MAX_QUEUED: usize = 4 << 20;
/// The same for a viewer, who is to see what is now: what waits is what it shows too late.
pub(super) const MAX_QUEUED_VIEWER: usize = 512 << 10;

/// What a piece that waits takes of memory beside its frames; bytes, nearly.
const PIECE_OVERHEAD: usize = 128;

/// What is to be sent on one connection. It waits in memory; nobody waits for it here.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::UnboundedSender<Piece>,
    /// Memory that what waits takes; bytes.
    queued_bytes: Arc<AtomicUsize>,
    /// Since when it has been too far behind, and how much waited then.
    behind_since: Option<(Instant, usize)>,
    task: AbortOnDropHandle<()>,
}

/// How a connection keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backpressure {
    None,
    Behind,
    /// It was behind for as long as it may be, and has taken nothing.
    Stalled,
}

enum Piece {
    Bytes(Arc<Vec<u8>>),
    /// The greeting, with the terminal's descriptor.
    Greeting(Vec<u8>, OwnedFd),
}

impl Writer {
    /// `room` is told each time the connection has taken something, and `gone` is awaited when it cannot be written to any more.
    pub(super) fn new(
        write: OwnedWriteHalf,
        progress: Arc<Notify>,
        on_closed: impl Future<Output = ()> + Send + 'static,
    ) -> Writer {
        let (queue, pieces) = mpsc::unbounded_channel();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let counted = queued_bytes.clone();
        let task = tokio::spawn(async move {
            // A connection that cannot be written to is as gone as one that was closed.
            let _ = write_pieces(write, pieces, &counted, &progress).await;
            on_closed.await;
            progress.notify_one();
        });
        Writer { queue, queued_bytes, behind_since: None, task: AbortOnDropHandle::new(task) }
    }

    /// Ends the connection when it has taken what waits for it, or after `patience`. One that is dropped ends at once, and what waits is
    /// forgotten.
    pub(super) fn close_after_flush(self, timeout: Duration) {
        let Writer { queue, task, .. } = self;
        drop(queue);
        tokio::spawn(tokio::time::timeout(timeout, task));
    }

    /// Ends the connection when it has taken what waits for it, however long that takes.
    pub(super) fn detach(self) {
        drop(self.queue);
        drop(self.task.detach());
    }

    /// Sends the greeting, and the terminal with it.
    pub(super) fn greet(&self, greeting: Vec<u8>, terminal: OwnedFd) {
        // A closed queue means that the connection is about to be removed.
        let _ = self.queue.send(Piece::Greeting(greeting, terminal));
    }

    /// Sends frames.
    pub(super) fn push(&self, frames: &Arc<Vec<u8>>) {
        self.queued_bytes.fetch_add(cost(frames), Ordering::AcqRel);
        let _ = self.queue.send(Piece::Bytes(frames.clone()));
    }

    /// How it keeps up; `most`: bytes that may wait for it, `patience`: so long it may take nothing while others wait for it.
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

    /// It was too far behind when it was looked at last.
    pub(super) fn is_behind(&self) -> bool {
        self.behind_since.is_some()
    }

    /// Everything was taken.
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
            Ok(rustix::net::sendmsg(stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
        })
        .await
}
