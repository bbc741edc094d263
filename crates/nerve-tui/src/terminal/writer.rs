//! Writes to standard output on a thread, so that a blocked terminal does not delay keys and signals.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::stdio::stdout;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Notify;

/// Time limit for the last write.
pub const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Chunk size in bytes. A write cannot be cancelled; after the terminal's buffer was flushed it must have room for
/// a chunk (64 KiB on Linux).
const CHUNK: usize = 16 * 1024;

/// Queues output. Callers bound the queue by waiting for `has_room`.
pub struct Writer {
    pieces: Mutex<Option<Sender<Piece>>>,
    state: Arc<State>,
    done: Mutex<Receiver<()>>,
}

struct Piece {
    bytes: Vec<u8>,
    /// True if this chunk restores the terminal.
    is_last: bool,
}

#[derive(Default)]
struct State {
    /// Number of queued chunks.
    pending: AtomicUsize,
    /// Writing has failed.
    is_failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
    /// Everything but the last chunk is discarded.
    is_discarding: AtomicBool,
    changed: Notify,
}

impl Writer {
    /// Starts the thread.
    pub fn start() -> Writer {
        let (sender, pieces) = channel();
        let (ended, done) = channel();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            shared.run(&pieces);
            let _ = ended.send(());
        });
        Writer { pieces: Mutex::new(Some(sender)), state, done: Mutex::new(done) }
    }

    /// Queues a chunk.
    pub fn write(&self, bytes: Vec<u8>) {
        self.send(self.pieces.lock().as_ref(), Piece { bytes, is_last: false });
    }

    fn send(&self, pieces: Option<&Sender<Piece>>, piece: Piece) {
        let Some(pieces) = pieces else { return };
        self.state.pending.fetch_add(1, Ordering::AcqRel);
        let _ = pieces.send(piece);
    }

    /// Returns true if everything was written.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting() == 0
    }

    fn waiting(&self) -> usize {
        self.state.pending.load(Ordering::Acquire)
    }

    /// Resolves when everything was written; false if writing has failed.
    pub(crate) async fn flushed(&self) -> bool {
        self.has_room(1).await
    }

    /// Resolves when fewer than `pieces` chunks are queued; false if writing has failed.
    pub(crate) async fn has_room(&self, pieces: usize) -> bool {
        loop {
            let changed = self.state.changed.notified();
            if self.state.is_failed.load(Ordering::Acquire) {
                return false;
            }
            if self.waiting() < pieces {
                return true;
            }
            changed.await;
        }
    }

    /// Takes the write error.
    pub fn failure(&self) -> Option<io::Error> {
        self.state.failure.lock().take()
    }

    /// Queues the last chunk. Returns false if it was not written in time.
    pub(super) fn finish(&self, last: Vec<u8>) -> bool {
        let pieces = self.pieces.lock().take();
        self.send(pieces.as_ref(), Piece { bytes: last, is_last: true });
        drop(pieces);
        self.wait_until_flushed()
    }

    /// Discards output that the terminal has not accepted, to make room for the last chunk. A blocked write returns
    /// when the terminal's modes are set.
    pub(super) fn discard_pending(&self) {
        self.state.is_discarding.store(true, Ordering::Release);
        let _ = tcflush(stdout(), QueueSelector::OFlush);
    }

    /// Waits for the last chunk; false on timeout.
    pub(super) fn wait_until_flushed(&self) -> bool {
        self.done.lock().recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

impl State {
    fn run(&self, pieces: &Receiver<Piece>) {
        // `io::Stdout` would split the data at line ends.
        let mut out = rustix::io::dup(stdout()).map(File::from).map_err(io::Error::from);
        for Piece { bytes, is_last } in pieces {
            for chunk in bytes.chunks(CHUNK) {
                if self.is_discarding.load(Ordering::Acquire) && !is_last {
                    break;
                }
                if let Err(error) = out
                    .as_mut()
                    .map_err(|_| io::ErrorKind::NotConnected.into())
                    .and_then(|out| out.write_all(chunk))
                {
                    self.set_failed(error);
                    break;
                }
            }
            self.pending.fetch_sub(1, Ordering::AcqRel);
            self.changed.notify_one();
        }
    }

    fn set_failed(&self, error: io::Error) {
        if !self.is_failed.swap(true, Ordering::AcqRel) {
            *self.failure.lock() = Some(error);
        }
    }
}
