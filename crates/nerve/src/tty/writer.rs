//! Writes to standard output beside everything else: one that takes nothing must not keep a key or a signal from being heard.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::stdio::stdout;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Notify;

/// How long a terminal may take to take the last of it.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// So much is written at once, in bytes. A write cannot be given up: a terminal must have room for one when what it holds is thrown away
/// (Linux: 64 KiB).
const CHUNK: usize = 16 * 1024;

/// The way to standard output. Pieces are to be written when there is room only: nothing else bounds what waits.
pub(crate) struct Writer {
    pieces: Mutex<Option<Sender<Piece>>>,
    state: Arc<State>,
    done: Mutex<Receiver<()>>,
}

struct Piece {
    bytes: Vec<u8>,
    /// It gives the terminal back.
    is_last: bool,
}

#[derive(Default)]
struct State {
    /// Pieces that are not written yet.
    pending: AtomicUsize,
    /// It cannot be written to any more.
    is_failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
    /// Nothing is wanted but the last piece.
    is_discarding: AtomicBool,
    changed: Notify,
}

impl Writer {
    pub(crate) fn start() -> Writer {
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

    pub(crate) fn write(&self, bytes: Vec<u8>) {
        if let Ok(pieces) = self.pieces.lock() {
            self.send(pieces.as_ref(), Piece { bytes, is_last: false });
        }
    }

    fn send(&self, pieces: Option<&Sender<Piece>>, piece: Piece) {
        let Some(pieces) = pieces else { return };
        self.state.pending.fetch_add(1, Ordering::AcqRel);
        let _ = pieces.send(piece);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting() == 0
    }

    fn waiting(&self) -> usize {
        self.state.pending.load(Ordering::Acquire)
    }

    /// Ends when all is written; false if it cannot be written to any more.
    pub(crate) async fn flushed(&self) -> bool {
        self.has_room(1).await
    }

    /// Ends when fewer than so many pieces wait to be written; false if it cannot be written to any more.
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

    /// Why it cannot be written to any more: told once.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.state.failure.lock().ok()?.take()
    }

    /// Writes what gives the terminal back, and nothing after that. False if the terminal has not taken it, after a while.
    pub(super) fn finish(&self, last: Vec<u8>) -> bool {
        let pieces = self.pieces.lock().ok().and_then(|mut pieces| pieces.take());
        self.send(pieces.as_ref(), Piece { bytes: last, is_last: true });
        drop(pieces);
        self.wait_until_flushed()
    }

    /// Throws away what the terminal was given and has not taken, so that it has room for the last piece. A write that waits for room
    /// notices when the terminal's modes are set.
    pub(super) fn discard_pending(&self) {
        self.state.is_discarding.store(true, Ordering::Release);
        let _ = tcflush(stdout(), QueueSelector::OFlush);
    }

    /// Waits until the last piece is written, for as long as a terminal may take; false if it is not.
    pub(super) fn wait_until_flushed(&self) -> bool {
        self.done.lock().is_ok_and(|done| done.recv_timeout(FLUSH_TIMEOUT).is_ok())
    }
}

impl State {
    fn run(&self, pieces: &Receiver<Piece>) {
        // Standard output itself would cut what it is given at line ends.
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
        if !self.is_failed.swap(true, Ordering::AcqRel)
            && let Ok(mut failure) = self.failure.lock()
        {
            *failure = Some(error);
        }
    }
}
