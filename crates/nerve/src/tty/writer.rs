//! Writes to the terminal beside everything else: one that takes nothing must not keep a key or a signal from being heard.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::sync::Notify;

/// How long a terminal may take to take the last of it.
const LAST: Duration = Duration::from_secs(1);

/// The way to the terminal. Frames are to be written when it is free only: nothing else bounds what waits.
pub(super) struct Writer {
    pieces: Option<Sender<Vec<u8>>>,
    state: Arc<State>,
    done: Receiver<()>,
}

#[derive(Default)]
struct State {
    /// Pieces that are not written yet.
    pending: AtomicUsize,
    /// It cannot be written to any more.
    is_gone: AtomicBool,
    changed: Notify,
}

impl Writer {
    pub(super) fn start() -> Writer {
        let (sender, pieces) = channel::<Vec<u8>>();
        let (ended, done) = channel();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let stdout = rustix::io::dup(rustix::stdio::stdout());
            let mut out = stdout.map(File::from);
            for piece in pieces {
                // As much at once as the terminal takes: standard output itself would cut it at line ends.
                if !out.as_mut().is_ok_and(|out| out.write_all(&piece).is_ok()) {
                    shared.is_gone.store(true, Ordering::Release);
                }
                shared.pending.fetch_sub(1, Ordering::AcqRel);
                shared.changed.notify_one();
            }
            let _ = ended.send(());
        });
        Writer { pieces: Some(sender), state, done }
    }

    pub(super) fn write(&self, bytes: Vec<u8>) {
        let Some(pieces) = &self.pieces else { return };
        self.state.pending.fetch_add(1, Ordering::AcqRel);
        let _ = pieces.send(bytes);
    }

    pub(super) fn is_free(&self) -> bool {
        self.state.pending.load(Ordering::Acquire) == 0
    }

    /// Ends when all is written; false if the terminal is gone.
    pub(super) async fn free(&self) -> bool {
        loop {
            let changed = self.state.changed.notified();
            if self.state.is_gone.load(Ordering::Acquire) {
                return false;
            }
            if self.is_free() {
                return true;
            }
            changed.await;
        }
    }

    /// Waits until all is written, for as long as a terminal may take. Nothing is written after that, unless it is made to go on.
    pub(super) fn finish(&mut self) {
        self.pieces = None;
        let _ = self.done.recv_timeout(LAST);
    }
}
