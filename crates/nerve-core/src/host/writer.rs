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
pub(super) const BEHIND: usize = 4 << 20;
/// The same for a viewer, who is to see what is now: what waits is what it shows too late.
pub(super) const VIEWER_BEHIND: usize = 512 << 10;

/// What a piece that waits takes of memory beside its frames; bytes, nearly.
const OF_A_PIECE: usize = 128;

/// What is to be sent on one connection. It waits in memory; nobody waits for it here.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::UnboundedSender<Piece>,
    /// Memory that what waits takes; bytes.
    waiting: Arc<AtomicUsize>,
    /// Since when it has been too far behind, and how much waited then.
    stuck: Option<(Instant, usize)>,
    sending: AbortOnDropHandle<()>,
}

/// How a connection keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    KeepsUp,
    Behind,
    /// It was behind for as long as it may be, and has taken nothing.
    Stuck,
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
        room: Arc<Notify>,
        gone: impl Future<Output = ()> + Send + 'static,
    ) -> Writer {
        let (queue, pieces) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = waiting.clone();
        let sending = tokio::spawn(async move {
            // A connection that cannot be written to is as gone as one that was closed.
            let _ = write_pieces(write, pieces, &counted, &room).await;
            gone.await;
            room.notify_one();
        });
        Writer { queue, waiting, stuck: None, sending: AbortOnDropHandle::new(sending) }
    }

    /// Ends the connection when it has taken what waits for it, or after `patience`. One that is dropped ends at once, and what waits is
    /// forgotten.
    pub(super) fn part(self, patience: Duration) {
        let Writer { queue, sending, .. } = self;
        drop(queue);
        tokio::spawn(tokio::time::timeout(patience, sending));
    }

    /// Ends the connection when it has taken what waits for it, however long that takes.
    pub(super) fn let_go(self) {
        drop(self.queue);
        drop(self.sending.detach());
    }

    /// Sends the greeting, and the terminal with it.
    pub(super) fn greet(&self, greeting: Vec<u8>, terminal: OwnedFd) {
        // A closed queue means that the connection is about to be removed.
        let _ = self.queue.send(Piece::Greeting(greeting, terminal));
    }

    /// Sends frames.
    pub(super) fn push(&self, frames: &Arc<Vec<u8>>) {
        self.waiting.fetch_add(cost(frames), Ordering::AcqRel);
        let _ = self.queue.send(Piece::Bytes(frames.clone()));
    }

    /// How it keeps up; `most`: bytes that may wait for it, `patience`: so long it may take nothing while others wait for it.
    pub(super) fn pace(&mut self, most: usize, patience: Duration) -> Pace {
        let waiting = self.waiting.load(Ordering::Acquire);
        if waiting < most {
            self.stuck = None;
            return Pace::KeepsUp;
        }
        match self.stuck {
            Some((since, then)) if waiting >= then => {
                if since.elapsed() >= patience {
                    return Pace::Stuck;
                }
            }
            _ => self.stuck = Some((Instant::now(), waiting)),
        }
        Pace::Behind
    }

    /// It was too far behind when it was looked at last.
    pub(super) fn is_behind(&self) -> bool {
        self.stuck.is_some()
    }

    /// Everything was taken.
    pub(super) fn is_drained(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }
}

fn cost(frames: &Arc<Vec<u8>>) -> usize {
    frames.len() + OF_A_PIECE
}

async fn write_pieces(
    mut write: OwnedWriteHalf,
    mut pieces: mpsc::UnboundedReceiver<Piece>,
    waiting: &AtomicUsize,
    room: &Notify,
) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Greeting(bytes, terminal) => {
                let sent = send_with_descriptor(write.as_ref(), &bytes, &terminal).await?;
                write.write_all(&bytes[sent..]).await?;
            }
            Piece::Bytes(bytes) => {
                write.write_all(&bytes).await?;
                waiting.fetch_sub(cost(&bytes), Ordering::AcqRel);
                room.notify_one();
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
