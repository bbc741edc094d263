//! Size and raw mode of the terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use nerve_types::Size;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::job_control;

/// Time limit for a terminal to resize its window.
const RESIZE_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the window's size if standard output is a terminal.
pub fn window() -> Option<Size> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| Size::new(size.ws_col, size.ws_row))
}

/// Requests a size of the window (xterm window operations). Returns false if the window does not resize in time, and
/// true if there is no window.
pub async fn request_size(wanted: Size) -> bool {
    if window().unwrap_or_default() == wanted || !std::io::stdout().is_terminal() {
        return true;
    }
    let Ok(mut changes) = signal(SignalKind::window_change()) else { return true };
    let request = format!("\x1b[8;{};{}t", wanted.rows, wanted.cols);
    let written = std::io::stdout().write_all(request.as_bytes()).and_then(|()| std::io::stdout().flush());
    let resized = async { while window() != Some(wanted) && changes.recv().await.is_some() {} };
    written.is_ok() && tokio::time::timeout(RESIZE_TIMEOUT, resized).await.is_ok()
}

/// Raw mode until dropped.
#[derive(Debug)]
pub struct RawMode {
    /// The modes to restore.
    original: Termios,
    raw: Termios,
}

impl RawMode {
    /// Enters raw mode; `None` if standard input is not a terminal.
    pub fn enter() -> Option<RawMode> {
        let original = tcgetattr(stdin()).ok()?;
        let mut raw = original.clone();
        raw.make_raw();
        if !std::io::stdout().is_terminal() {
            // Standard output is not this terminal, so its line endings stay as they are.
            raw.output_modes = original.output_modes;
        }
        let mode = RawMode { original, raw };
        mode.set(&mode.raw).then_some(mode)
    }

    /// Sets raw mode again after another job has used the terminal.
    pub(super) fn reapply(&self) {
        self.set(&self.raw);
    }

    /// Leaves the modes as they are.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }

    fn set(&self, mode: &Termios) -> bool {
        tcsetattr(stdin(), OptionalActions::Now, mode).is_ok()
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // In the background the terminal belongs to another job, and setting its modes would stop this process.
        if job_control::is_foreground() {
            self.set(&self.original);
        }
    }
}
