//! Taking a terminal, and giving it back as it was.

use std::io::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread::{self, ThreadId};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Keeps the title, takes the alternate screen; pastes are bracketed, the mouse's buttons and moves come with places of any size, and focus is
/// told (xterm control sequences: XTWINOPS 22, DECSET 1049, 2004, 1000, 1002, 1003, 1006, 1004).
pub(super) const ENTER: &[u8] =
    b"\x1b[22;2t\x1b[?1049h\x1b[?2004h\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h\x1b[?1004h";
/// The other way round; no synchronized update is open, the cursor is as it usually is.
const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[?1004l\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[0 q\x1b[?25h\x1b[0m\x1b[?1049l\x1b[23;2t";
/// Keys are told apart that are not otherwise (kitty keyboard protocol, flag 1).
pub(super) const KITTY_ON: &[u8] = b"\x1b[>1u";
const KITTY_OFF: &[u8] = b"\x1b[<u";
/// Failures of what can fail alone that are told when the terminal is given back.
const FAILURES: usize = 10;

/// The terminal is taken until this is dropped, in a panic too: then before its message is printed.
pub(super) struct Back {
    state: Arc<State>,
}

struct State {
    taken: AtomicBool,
    kitty: AtomicBool,
    thread: ThreadId,
    /// What has failed meanwhile, to be told then.
    failures: Mutex<Vec<String>>,
}

impl Back {
    /// Makes it raw; what is written to take it is the caller's to write.
    pub(super) fn take() -> io::Result<Back> {
        enable_raw_mode()?;
        let state = Arc::new(State {
            taken: AtomicBool::new(true),
            kitty: AtomicBool::new(false),
            thread: thread::current().id(),
            failures: Mutex::default(),
        });
        hook(&state);
        Ok(Back { state })
    }

    /// It was asked for the kitty keyboard protocol.
    pub(super) fn with_kitty(&self) {
        self.state.kitty.store(true, Ordering::Relaxed);
    }

    pub(super) fn give(&self) {
        self.state.give();
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        self.state.give();
    }
}

impl State {
    fn give(&self) {
        if !self.taken.swap(false, Ordering::Relaxed) {
            return;
        }
        let kitty: &[u8] = if self.kitty.load(Ordering::Relaxed) { KITTY_OFF } else { b"" };
        // Nothing can be done about a terminal that is gone.
        let mut out = io::stdout();
        let _ = out.write_all(kitty).and_then(|()| out.write_all(LEAVE)).and_then(|()| out.flush());
        let _ = disable_raw_mode();
        let failures = self.failures.lock().map(|mut failures| std::mem::take(&mut *failures));
        for failure in failures.unwrap_or_default() {
            let _ = writeln!(io::stderr(), "{failure}");
        }
    }
}

/// Whose the terminal is, for the panic hook.
static TAKER: Mutex<Option<Arc<State>>> = Mutex::new(None);

fn hook(state: &Arc<State>) {
    static ONCE: Once = Once::new();
    if let Ok(mut taker) = TAKER.lock() {
        *taker = Some(Arc::clone(state));
    }
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let taker = TAKER.lock().ok().and_then(|taker| taker.clone());
            let Some(state) = taker.filter(|state| state.taken.load(Ordering::Relaxed)) else {
                return before(info);
            };
            // Of a thread or a task that can fail alone the viewer goes on, and keeps the terminal.
            let is_viewer = state.thread == thread::current().id() && tokio::task::try_id().is_none();
            if is_viewer {
                state.give();
                return before(info);
            }
            if let Ok(mut failures) = state.failures.lock()
                && failures.len() < FAILURES
            {
                failures.push(info.to_string());
            }
        }));
    });
}
