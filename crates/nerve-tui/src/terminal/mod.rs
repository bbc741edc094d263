//! The user's terminal in the viewer: draws frames and reads keys, pastes and the mouse. It is restored in all
//! cases.

mod escape_counter;
mod input;
pub mod job_control;
mod keyboard;
mod notification_format;
mod osc;
pub mod pacing;
pub mod raw_mode;
mod restore;
mod screen;
pub mod signals;
pub mod stdin_reader;
mod user_terminal;
pub mod window;
mod writer;

use std::io;
use std::sync::Arc;

use nerve_vt::keys::Input;
use nerve_vt::terminal::{Clipboard, Notification};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::Event;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::keyboard::{Keyboard, KeyboardEvent};
pub use self::notification_format::NotificationFormat;
use self::restore::RestoreGuard;
pub use self::screen::Cursor;
use self::screen::Screen;
pub(crate) use self::user_terminal::TerminalEvent;
pub use self::user_terminal::UserTerminal;
pub use self::window::{RawMode, window};
pub use self::writer::{FLUSH_TIMEOUT, Writer};
use crate::view::decorations::Decorations;
use crate::view::status_info::Capabilities;

/// An event of the terminal.
#[derive(Debug)]
pub enum TtyEvent {
    /// Input to handle.
    Input(Input),
    /// The size or the capabilities have changed: draw again.
    Redraw,
    /// A frame can be written.
    Writable,
    /// The terminal is closed.
    Closed,
}

/// The terminal. Dropping it restores its state.
pub struct Tty {
    screen: Screen,
    writer: Arc<Writer>,
    keyboard: Keyboard,
    /// The terminal supports the kitty keyboard protocol.
    kitty: bool,
    restore: RestoreGuard,
    suspend_requests: Signal,
    continued: Signal,
    /// The next SIGCONT follows our own stop.
    resumed_by_us: bool,
    /// Last progress of the program: state and percent.
    progress: (u8, u8),
}

impl Tty {
    /// Enters raw mode and the alternate screen, and enables paste, mouse and focus reports.
    ///
    /// # Errors
    /// There is no terminal, or it is closed.
    pub fn enter() -> io::Result<Tty> {
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

    /// Returns the next event, with `notify_writable` also when a frame can be written. Cancel-safe.
    pub async fn next(&mut self, notify_writable: bool) -> TtyEvent {
        loop {
            let event = tokio::select! {
                biased;
                Some(()) = self.suspend_requests.recv() => return self.suspend_event(),
                Some(()) = self.continued.recv() => {
                    if std::mem::take(&mut self.resumed_by_us) {
                        continue;
                    }
                    // The process was stopped by SIGSTOP, and the shell has used the terminal.
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

    /// Returns true if all output was written, so that a frame can be drawn.
    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Draws a frame and writes the differences to the last one. Returns false if there are none.
    pub fn draw(
        &mut self,
        has_colors: bool,
        draw: impl FnOnce(&mut Buffer, &mut Decorations) -> Option<Cursor>,
    ) -> bool {
        let bytes = self.screen.frame(window().unwrap_or_default(), has_colors, draw);
        let is_some = !bytes.is_empty();
        if is_some {
            self.writer.write(bytes);
        }
        is_some
    }

    /// Sets the window title.
    pub fn title(&mut self, title: &str) {
        if let Some(bytes) = self.screen.title(title) {
            self.writer.write(bytes);
        }
    }

    /// Rings the bell.
    pub(crate) fn ring(&self) {
        self.writer.write(b"\x07".to_vec());
    }

    /// Copies a text to the clipboard (OSC 52, if the terminal permits it).
    pub fn copy(&self, text: &str) {
        self.writer.write(screen::copied(text));
    }

    /// Passes on a clipboard text of the program.
    pub fn clipboard(&self, clipboard: &Clipboard) {
        self.writer.write(osc::clipboard(clipboard));
    }

    /// Passes on a notification of the program.
    pub fn notify(&self, notification: &Notification) {
        self.writer.write(osc::notification(notification, is_tmux()));
    }

    /// Shows the program's progress (OSC 9;4): state 0 to 4, and percent. It is cleared on restore.
    pub fn progress(&mut self, state: u8, value: u8) {
        self.progress = (state, value);
        if self.restore.set_progress(state != 0) || state != 0 {
            self.writer.write(osc::progress(state, value));
        }
    }

    /// Writes the whole next frame, because other output may be on the screen.
    pub(crate) fn redraw(&mut self) {
        self.screen.invalidate();
    }

    /// Returns the known capabilities.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { kitty_keyboard: self.kitty, colours: colours() }
    }

    /// Restores the terminal, stops this process as Ctrl+Z does in a shell, and takes the terminal back afterwards.
    ///
    /// # Errors
    /// The terminal cannot be taken back.
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
        // Title and progress were changed by the shell.
        if let Some(bytes) = self.screen.restore_title() {
            self.writer.write(bytes);
        }
        let (state, value) = self.progress;
        self.progress(state, value);
        Ok(())
    }
}

/// Returns the sequence that shows a notification, for a terminal that is not taken over. `format`: if not the one that the
/// environment suggests.
pub fn notification(text: &str, format: Option<NotificationFormat>) -> Vec<u8> {
    let format = format.unwrap_or_else(|| NotificationFormat::detect(|name| std::env::var(name).ok()));
    osc::notification(&format.notification(text), is_tmux())
}

/// Returns true within tmux.
fn is_tmux() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    std::env::var_os("TMUX").is_some() && (term.starts_with("tmux") || term.starts_with("screen"))
}

/// Returns the number of colours according to the environment.
fn colours() -> &'static str {
    let contains_any = |name: &str, words: &[&str]| {
        std::env::var(name).is_ok_and(|value| words.iter().any(|word| value.contains(word)))
    };
    if contains_any("COLORTERM", &["truecolor", "24bit"]) {
        "16 million"
    } else if contains_any("TERM", &["256color", "kitty", "ghostty", "alacritty"]) {
        "256"
    } else {
        "16"
    }
}
