//! The terminal this program runs in: its size, and its raw mode for as long as somebody else reads the keys.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use nerve_term::event::Size;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::job_control;
use crate::out;

/// How long a terminal may take to give its window another size.
const RESIZE_TIMEOUT: Duration = Duration::from_millis(500);

/// The window's size, if standard output is a terminal that knows it.
pub(crate) fn window() -> Option<Size> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| Size::new(size.ws_col, size.ws_row))
}

/// The size of the program's terminal. Where one is asked for, the window is asked to take it on; a window that does not is reported.
pub(crate) async fn wanted_size(cols: Option<u16>, rows: Option<u16>) -> Size {
    let now = window().unwrap_or_default();
    let wanted = Size::new(cols.unwrap_or(now.cols), rows.unwrap_or(now.rows));
    if !request_size(wanted).await {
        let Size { cols, rows } = wanted;
        out::warning(format_args!(
            "this window stays at {}x{}; the program's terminal is {cols}x{rows} and may look torn here",
            now.cols, now.rows
        ));
    }
    wanted
}

/// Asks the window to have another size (xterm's window operations). False if it has not, after a while; what is no window is not asked.
pub(crate) async fn request_size(wanted: Size) -> bool {
    if window().unwrap_or_default() == wanted || !std::io::stdout().is_terminal() {
        return true;
    }
    let Ok(mut changes) = signal(SignalKind::window_change()) else { return true };
    let ask = format!("\x1b[8;{};{}t", wanted.rows, wanted.cols);
    let asked = std::io::stdout().write_all(ask.as_bytes()).and_then(|()| std::io::stdout().flush());
    let taken = async { while window() != Some(wanted) && changes.recv().await.is_some() {} };
    asked.is_ok() && tokio::time::timeout(RESIZE_TIMEOUT, taken).await.is_ok()
}

/// Keys come one by one and unchanged until this is dropped.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
    raw: Termios,
}

impl RawMode {
    /// `None` if standard input is no terminal.
    pub(crate) fn enter() -> Option<RawMode> {
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        if !std::io::stdout().is_terminal() {
            // What is shown is another program's, which ends its lines as programs do.
            raw.output_modes = before.output_modes;
        }
        let mode = RawMode { before, raw };
        mode.set(&mode.raw).then_some(mode)
    }

    /// Makes it so once more: somebody else had the terminal meanwhile.
    pub(super) fn reapply(&self) {
        self.set(&self.raw);
    }

    /// Leaves the terminal to whoever has it now.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }

    fn set(&self, mode: &Termios) -> bool {
        tcsetattr(stdin(), OptionalActions::Now, mode).is_ok()
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // In the background it is somebody else's, and whoever sets its modes there is stopped. A terminal that is gone needs none.
        if job_control::is_foreground() {
            self.set(&self.before);
        }
    }
}
