//! Reads the terminal: one thread a process, for such a read cannot be given up. Who takes the terminal again goes on with what it has read.

use std::sync::mpsc::{Receiver as Answer, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use ratatui::crossterm::event::{Event, poll, read};
use ratatui::crossterm::terminal::supports_keyboard_enhancement;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::stdio::stdin;
use tokio::sync::mpsc;

use super::escape_counter::EscapeCounter;

/// Events that may wait.
const QUEUE_CAPACITY: usize = 256;
/// How long a terminal is waited for that may never answer.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);
/// What crossterm has read already is only given out by a wait that is longer than none.
const BUFFERED_POLL: Duration = Duration::from_millis(1);

/// What is heard of the terminal.
#[derive(Debug)]
pub(super) enum KeyboardEvent {
    /// It says whether it knows the kitty keyboard protocol.
    Kitty(bool),
    Event(Event),
}

/// What the thread has read. Dropping it leaves it to who comes next.
pub(super) struct Keyboard(Option<Reader>);

struct Reader {
    events: mpsc::Receiver<KeyboardEvent>,
    answered: Answer<()>,
    /// What the terminal has said of the kitty keyboard protocol.
    kitty: Option<bool>,
}

/// The thread's other end, while nobody has the terminal. Then nothing is read: what is typed is for whoever has it next.
static PARKED: Mutex<Option<Reader>> = Mutex::new(None);
/// It was taken again.
static UNPARKED: Condvar = Condvar::new();

impl Keyboard {
    /// Takes what is read from now on, and what was read since somebody else had it. The terminal must be raw.
    pub(super) fn take() -> Keyboard {
        let parked = PARKED.lock().ok().and_then(|mut parked| parked.take());
        UNPARKED.notify_all();
        Keyboard(Some(parked.unwrap_or_else(start)))
    }

    /// Waits for the terminal's answer to what it is asked at first, if it has not come: a frame must not come in the middle of that.
    /// Whether it knows the kitty keyboard protocol, as far as that was heard.
    pub(super) fn kitty(&self) -> Option<bool> {
        let reader = self.0.as_ref()?;
        if reader.kitty.is_none() {
            let _ = reader.answered.recv_timeout(REPLY_TIMEOUT);
        }
        reader.kitty
    }

    /// The next of it; `None` when the terminal is gone. May be dropped and called again.
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
        if let Ok(mut parked) = PARKED.lock() {
            *parked = self.0.take();
        }
    }
}

fn start() -> Reader {
    let (sender, events) = mpsc::channel(QUEUE_CAPACITY);
    let (answer, answered) = channel();
    std::thread::spawn(move || {
        // What is typed meanwhile is kept. A terminal that does not answer does not know it.
        let kitty = supports_keyboard_enhancement().unwrap_or(false);
        let mut is_connected = sender.blocking_send(KeyboardEvent::Kitty(kitty)).is_ok();
        let _ = answer.send(());
        let mut escapes = EscapeCounter::default();
        // Of a terminal that is gone crossterm reads nothing, again and again: it only reads where there is something.
        while is_connected && wait_for_input() && wait_until_unparked() {
            loop {
                let waiting = unread_bytes();
                if !is_connected || !poll(BUFFERED_POLL).unwrap_or(false) {
                    break;
                }
                let were_read = waiting.saturating_sub(unread_bytes());
                // With the protocol Esc is a sequence of its own.
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

/// Waits until somebody has the terminal; false if that cannot be known any more.
fn wait_until_unparked() -> bool {
    PARKED.lock().is_ok_and(|parked| UNPARKED.wait_while(parked, |parked| parked.is_some()).is_ok())
}

/// Bytes of the terminal that nobody has read yet.
fn unread_bytes() -> usize {
    ioctl_fionread(stdin()).ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

/// Waits until the terminal has something to be read; false if it is gone.
fn wait_for_input() -> bool {
    let stdin = stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => {
                let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
                return !fds[0].revents().intersects(gone);
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
