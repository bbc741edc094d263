//! Reads terminal events on one thread per process, because a blocking read cannot be cancelled. The next owner of
//! the terminal continues with the same thread.

use std::sync::mpsc::{Receiver as Answer, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use ratatui::crossterm::event::{Event, poll, read};
use ratatui::crossterm::terminal::supports_keyboard_enhancement;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ioctl_fionread};
use rustix::stdio::stdin;
use tokio::sync::mpsc;

use super::escape_counter::EscapeCounter;

/// Capacity of the event queue.
const QUEUE_CAPACITY: usize = 256;
/// Time limit for a terminal's reply.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);
/// crossterm returns buffered events only for a poll of more than zero.
const BUFFERED_POLL: Duration = Duration::from_millis(1);

/// An event of the terminal.
#[derive(Debug)]
pub(super) enum KeyboardEvent {
    /// True if the terminal supports the kitty keyboard protocol.
    Kitty(bool),
    Event(Event),
}

/// Receives the thread's events. Dropping it parks the thread for the next owner.
pub(super) struct Keyboard(Option<Reader>);

struct Reader {
    events: mpsc::Receiver<KeyboardEvent>,
    answered: Answer<()>,
    /// Support of the kitty keyboard protocol, once known.
    kitty: Option<bool>,
}

/// The receiver while no one owns the terminal. Nothing is read then: input is for the terminal's next user.
static PARKED: Mutex<Option<Reader>> = Mutex::new(None);
/// Notified when the receiver was taken.
static UNPARKED: Condvar = Condvar::new();

impl Keyboard {
    /// Starts or continues reading. The terminal must be raw.
    pub(super) fn take() -> Keyboard {
        let parked = PARKED.lock().take();
        UNPARKED.notify_all();
        Keyboard(Some(parked.unwrap_or_else(start)))
    }

    /// Waits for the reply to the initial query, which a frame must not interrupt, and returns whether the kitty
    /// keyboard protocol is supported.
    pub(super) fn kitty(&self) -> Option<bool> {
        let reader = self.0.as_ref()?;
        if reader.kitty.is_none() {
            let _ = reader.answered.recv_timeout(REPLY_TIMEOUT);
        }
        reader.kitty
    }

    /// Returns the next event; `None` when the terminal is closed. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<KeyboardEvent> {
        let reader = self.0.as_mut()?;
        let events = reader.events.recv().await;
        if let Some(KeyboardEvent::Kitty(kitty)) = events {
            reader.kitty = Some(kitty);
        }
        events
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        *PARKED.lock() = self.0.take();
    }
}

fn start() -> Reader {
    let (sender, events) = mpsc::channel(QUEUE_CAPACITY);
    let (answer, answered) = channel();
    std::thread::spawn(move || {
        // Input typed meanwhile is kept. No reply means no support.
        let kitty = supports_keyboard_enhancement().unwrap_or(false);
        let mut is_connected = sender.blocking_send(KeyboardEvent::Kitty(kitty)).is_ok();
        let _ = answer.send(());
        let mut escapes = EscapeCounter::default();
        // Input that arrived before the reply was read with it: the first pass does not wait for more.
        let mut timeout = Some(Timespec::default());
        // crossterm busy-loops on a closed terminal, so it reads only when input is available.
        while is_connected && wait_for_input(timeout.take()) {
            wait_until_unparked();
            loop {
                let waiting = unread_bytes();
                if !is_connected || !poll(BUFFERED_POLL).unwrap_or(false) {
                    break;
                }
                let were_read = waiting.saturating_sub(unread_bytes());
                // With the protocol, Esc is an unambiguous sequence.
                if were_read > 0 && !kitty {
                    escapes.read(were_read);
                }
                is_connected = read().is_ok_and(|event| {
                    let mut presses = 0..escapes.presses(&event);
                    presses.all(|_| sender.blocking_send(KeyboardEvent::Event(event.clone())).is_ok())
                });
            }
        }
    });
    Reader { events, answered, kitty: None }
}

/// Waits for an owner of the terminal.
fn wait_until_unparked() {
    UNPARKED.wait_while(&mut PARKED.lock(), |parked| parked.is_some());
}

/// Returns the number of unread bytes.
fn unread_bytes() -> usize {
    ioctl_fionread(stdin()).ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

/// Waits for input, no longer than `timeout`. Returns false if the terminal is closed.
fn wait_for_input(timeout: Option<Timespec>) -> bool {
    let stdin = stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {
                let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
                return !fds[0].revents().intersects(closed);
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
