//! The user's terminal while the viewer has it: frames of cells out; keys, pastes and the mouse in. Given back whatever happens.

mod escape_counter;
mod input;
pub(crate) mod job_control;
mod keyboard;
mod osc;
pub(crate) mod pacing;
pub(crate) mod raw_mode;
mod restore;
mod screen;
pub(crate) mod signals;
pub(crate) mod stdin_reader;
pub(crate) mod window;
mod writer;

use std::io;
use std::sync::Arc;

use nerve_term::keys::Input;
use nerve_term::terminal::{Clipboard, Notification};
use nerve_view::decorations::Decorations;
use nerve_view::status_info::Capabilities;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::Event;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::keyboard::{Keyboard, KeyboardEvent};
use self::restore::RestoreGuard;
pub(crate) use self::screen::Cursor;
use self::screen::Screen;
pub(crate) use self::window::{RawMode, wanted_size, window};
pub(crate) use self::writer::{FLUSH_TIMEOUT, Writer};

/// What the user did, or the terminal.
#[derive(Debug)]
pub(crate) enum TtyEvent {
    /// Something to be looked at.
    Input(Input),
    /// Another size, or it is known now what the terminal can do: to be drawn again.
    Redraw,
    /// There is room for a frame.
    Writable,
    /// Nobody can type any more.
    Closed,
}

/// The terminal. Dropping it gives it back.
pub(crate) struct Tty {
    screen: Screen,
    writer: Arc<Writer>,
    keyboard: Keyboard,
    /// It has said that it knows the kitty keyboard protocol: keys come with all their modifiers.
    kitty: bool,
    restore: RestoreGuard,
    suspend_requests: Signal,
    continued: Signal,
    /// It is known that it goes on: it has stopped itself.
    resumed_by_us: bool,
    /// How far the program is, as it was said last: state and percent.
    progress: (u8, u8),
}

impl Tty {
    /// Takes it: raw, on the alternate screen, with pastes, the mouse and focus reported.
    ///
    /// # Errors
    /// It is none, or gone.
    pub(crate) fn enter() -> io::Result<Tty> {
        let listen = |number: rustix::process::Signal| signal(SignalKind::from_raw(number.as_raw()));
        let (suspend_requests, continued) =
            (listen(rustix::process::Signal::TSTP)?, listen(rustix::process::Signal::CONT)?);
        let writer = Arc::new(Writer::start());
        let restore = RestoreGuard::take(&writer)?;
        let keyboard = Keyboard::take();
        let kitty = keyboard.kitty();
        let screen = Screen::new();
        let (resumed_by_us, progress) = (false, (0, 0));
        let mut tty = Tty {
            screen,
            writer,
            keyboard,
            kitty: false,
            restore,
            suspend_requests,
            continued,
            resumed_by_us,
            progress,
        };
        if let Some(kitty) = kitty {
            tty.set_kitty(kitty);
        }
        Ok(tty)
    }

    /// What happens next; with `wants_room`, that there is room for a frame too. May be dropped and called again.
    pub(crate) async fn next(&mut self, notify_writable: bool) -> TtyEvent {
        loop {
            let event = tokio::select! {
                biased;
                Some(()) = self.suspend_requests.recv() => return self.suspend_event(),
                Some(()) = self.continued.recv() => {
                    if std::mem::take(&mut self.resumed_by_us) {
                        continue;
                    }
                    // It was stopped without a word: its shell has had the terminal.
                    self.restore.restore();
                    return self.reacquire_event();
                }
                event = self.keyboard.next() => event,
                free = self.writer.flushed(), if notify_writable => return if free { TtyEvent::Writable } else { TtyEvent::Closed },
            };
            match event {
                None => return TtyEvent::Closed,
                Some(KeyboardEvent::Kitty(kitty)) => {
                    self.set_kitty(kitty);
                    return TtyEvent::Redraw;
                }
                Some(KeyboardEvent::Event(Event::Resize(..))) => return TtyEvent::Redraw,
                Some(KeyboardEvent::Event(event)) => {
                    if let Some(input) = input::of(event, self.kitty) {
                        return TtyEvent::Input(input);
                    }
                }
            }
        }
    }

    fn set_kitty(&mut self, kitty: bool) {
        self.kitty = kitty;
        if kitty {
            self.restore.set_kitty();
            self.writer.write(restore::KITTY_ON.to_vec());
        }
    }

    /// The terminal has taken all it was given: a frame can be drawn.
    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Draws a frame of the window's size, in colours or without: what is different from the last one is written. False if nothing was.
    pub(crate) fn draw(
        &mut self,
        coloured: bool,
        draw: impl FnOnce(&mut Buffer, &mut Decorations) -> Option<Cursor>,
    ) -> bool {
        let bytes = self.screen.frame(window().unwrap_or_default(), coloured, draw);
        let is_some = !bytes.is_empty();
        if is_some {
            self.writer.write(bytes);
        }
        is_some
    }

    /// Names the window.
    pub(crate) fn title(&mut self, title: &str) {
        if let Some(bytes) = self.screen.title(title) {
            self.writer.write(bytes);
        }
    }

    /// Rings its bell.
    pub(crate) fn ring(&self) {
        self.writer.write(b"\x07".to_vec());
    }

    /// Gives a text to the clipboard (OSC 52, where the terminal lets programs do that).
    pub(crate) fn copy(&self, text: &str) {
        self.writer.write(screen::copied(text));
    }

    /// Gives it what the program has for the clipboard.
    pub(crate) fn clipboard(&self, clipboard: &Clipboard) {
        self.writer.write(osc::clipboard(clipboard));
    }

    /// Shows a notification of the program's.
    pub(crate) fn notify(&self, notification: &Notification) {
        self.writer.write(osc::notification(notification, is_tmux()));
    }

    /// Shows how far the program is (OSC 9;4): a state of 0 to 4, and percent. Not longer than it is taken.
    pub(crate) fn progress(&mut self, state: u8, value: u8) {
        self.progress = (state, value);
        if self.restore.set_progress(state != 0) || state != 0 {
            self.writer.write(osc::progress(state, value));
        }
    }

    /// The next frame is written whole: something else may be on the screen.
    pub(crate) fn redraw(&mut self) {
        self.screen.invalidate();
    }

    /// What it can do, as far as it is known.
    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities { kitty_keyboard: self.kitty, colours: colours() }
    }

    /// Gives it back, stops this process as the shell's Ctrl+Z does, and takes it again when the process goes on.
    ///
    /// # Errors
    /// It cannot be taken again.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.restore.restore();
        job_control::stop()?;
        self.resumed_by_us = true;
        self.reacquire()
    }

    fn suspend_event(&mut self) -> TtyEvent {
        if self.suspend().is_ok() { TtyEvent::Redraw } else { TtyEvent::Closed }
    }

    fn reacquire_event(&mut self) -> TtyEvent {
        if self.reacquire().is_ok() { TtyEvent::Redraw } else { TtyEvent::Closed }
    }

    fn reacquire(&mut self) -> io::Result<()> {
        self.writer = Arc::new(Writer::start());
        self.restore = RestoreGuard::take(&self.writer)?;
        self.set_kitty(self.kitty);
        self.screen.invalidate();
        // What the program has said of itself, and the shell does not show.
        if let Some(bytes) = self.screen.restore_title() {
            self.writer.write(bytes);
        }
        let (state, value) = self.progress;
        self.progress(state, value);
        Ok(())
    }
}

/// It is a pane of tmux.
fn is_tmux() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    std::env::var_os("TMUX").is_some() && (term.starts_with("tmux") || term.starts_with("screen"))
}

/// What the environment says of its colours, as other programs read it.
fn colours() -> &'static str {
    let says = |name: &str, words: &[&str]| {
        std::env::var(name).is_ok_and(|value| words.iter().any(|word| value.contains(word)))
    };
    if says("COLORTERM", &["truecolor", "24bit"]) {
        "16 million"
    } else if says("TERM", &["256color", "kitty", "ghostty", "alacritty"]) {
        "256"
    } else {
        "16"
    }
}
