//! Saves and restores the terminal's state.

use std::io::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode, is_raw_mode_enabled};

use super::job_control;
use super::osc::NO_PROGRESS;
use super::writer::Writer;

/// Saves the title, enters the alternate screen, and enables bracketed paste, SGR mouse reports and focus reports
/// (xterm: XTWINOPS 22, DECSET 1049, 2004, 1000, 1002, 1003, 1006, 1004).
const ENTER: &[u8] =
    b"\x1b[22;2t\x1b[?1049h\x1b[?2004h\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h\x1b[?1004h";
/// Undoes [`ENTER`], and resets hyperlink, synchronized update, attributes and cursor.
const LEAVE: &[u8] =
    b"\x1b]8;;\x1b\\\x1b[?2026l\x1b[?1004l\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[0 q\x1b[?25h\x1b[0m\x1b[?1049l\x1b[23;2t";
/// Disambiguates keys (kitty keyboard protocol, flag 1).
pub(super) const KITTY_ON: &[u8] = b"\x1b[>1u";
const KITTY_OFF: &[u8] = b"\x1b[<u";
/// Maximum number of task panics reported on restore.
const MAX_FAILURES: usize = 10;

/// Restores the terminal when dropped; in a panic before the message is printed.
pub(super) struct RestoreGuard {
    state: Arc<State>,
}

struct State {
    writer: Arc<Writer>,
    taken: AtomicBool,
    kitty: AtomicBool,
    /// The terminal shows progress.
    progress: AtomicBool,
    thread: ThreadId,
    /// Panic messages of tasks, printed on restore.
    failures: Mutex<Vec<String>>,
}

impl RestoreGuard {
    /// Enters raw mode and writes the initial sequences.
    pub(super) fn take(writer: &Arc<Writer>) -> io::Result<RestoreGuard> {
        // An earlier restore failed.
        if is_raw_mode_enabled().unwrap_or(false) {
            disable_raw_mode()?;
        }
        enable_raw_mode()?;
        let state = Arc::new(State {
            writer: Arc::clone(writer),
            taken: AtomicBool::new(true),
            kitty: AtomicBool::new(false),
            progress: AtomicBool::new(false),
            thread: thread::current().id(),
            failures: Mutex::default(),
        });
        install_panic_hook(&state);
        writer.write(ENTER.to_vec());
        Ok(RestoreGuard { state })
    }

    /// Records that the kitty protocol was enabled.
    pub(super) fn set_kitty(&self) {
        self.state.kitty.store(true, Ordering::Relaxed);
    }

    /// Records whether progress is shown, and returns the previous value.
    pub(super) fn set_progress(&self, shows: bool) -> bool {
        self.state.progress.swap(shows, Ordering::Relaxed)
    }

    pub(super) fn restore(&self) {
        self.state.restore();
    }
}

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        self.state.restore();
    }
}

impl State {
    /// Restores the terminal. Takes about a second at most.
    fn restore(&self) {
        if !self.taken.swap(false, Ordering::Relaxed) {
            return;
        }
        let kitty = if self.kitty.load(Ordering::Relaxed) { KITTY_OFF } else { b"" };
        let progress = if self.progress.load(Ordering::Relaxed) { NO_PROGRESS } else { b"" };
        let mut is_restored = self.writer.finish([kitty, progress, LEAVE].concat());
        // In the background the terminal belongs to another job, and setting its modes would stop this process.
        if job_control::is_foreground() {
            if !is_restored {
                self.writer.discard_pending();
            }
            let _ = disable_raw_mode();
            is_restored = is_restored || self.writer.wait_until_flushed();
        }
        if !is_restored {
            job_control::silence();
        }
        let failures = std::mem::take(&mut *self.failures.lock());
        for failure in failures {
            let _ = writeln!(io::stderr(), "{failure}");
        }
    }
}

/// State of the current owner, for the panic hook.
static OWNER: Mutex<Option<Arc<State>>> = Mutex::new(None);

fn install_panic_hook(state: &Arc<State>) {
    static ONCE: Once = Once::new();
    *OWNER.lock() = Some(Arc::clone(state));
    ONCE.call_once(|| {
        let previous_hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let owner = OWNER.lock().clone();
            let Some(state) = owner.filter(|state| state.taken.load(Ordering::Relaxed)) else {
                return previous_hook(info);
            };
            // A panic of a task or another thread does not end the viewer.
            let is_viewer = state.thread == thread::current().id() && tokio::task::try_id().is_none();
            if is_viewer {
                state.restore();
                return previous_hook(info);
            }
            let mut failures = state.failures.lock();
            if failures.len() < MAX_FAILURES {
                failures.push(info.to_string());
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use crate::view::decorations::Decorations;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::tcgetattr;

    use crate::terminal::Tty;

    /// Name of the part that panics in the child process.
    const WHO: &str = "NERVE_TEST_PANIC_OF";

    /// Entry point of the child process; does nothing in a normal test run.
    #[test]
    fn panics() {
        let Ok(who) = std::env::var(WHO) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut tty = Tty::enter().unwrap();
            let mut draw = |text: &str| {
                let draw = |buffer: &mut ratatui::buffer::Buffer, _: &mut Decorations| {
                    buffer.set_string(0, 0, text, ratatui::style::Style::new());
                    None
                };
                tty.draw(false, draw)
            };
            draw("drawn");
            match who.as_str() {
                "viewer" => panic!("the viewer's panic"),
                _ => drop(tokio::spawn(async { panic!("a task's panic") }).await),
            }
            draw("onward");
        });
    }

    /// Returns the output of a terminal in which this part panics. Its modes must be restored.
    fn panic_of(who: &str) -> String {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut process = Command::new("setsid");
        process.args(["--ctty", "--wait"]).arg(std::env::current_exe().unwrap());
        process.args(["--exact", "terminal::restore::tests::panics", "--nocapture"]).env(WHO, who);
        process.stdin(end()).stdout(end()).stderr(end()).status().unwrap();
        drop(process);
        let after = tcgetattr(&slave).unwrap();
        assert_eq!((after.local_modes, after.output_modes), (before.local_modes, before.output_modes));
        drop(slave);
        let (mut master, mut bytes) = (File::from(master), Vec::new());
        // Reading from a closed pty ends with an error.
        let _ = master.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the position of a text.
    fn place(all: &str, words: &str) -> usize {
        all.find(words).unwrap_or_else(|| panic!("no {words:?} in {all:?}"))
    }

    const LEFT: &str = "\x1b[?1049l\x1b[23;2t";

    #[test]
    fn viewer_panic_restores_terminal_before_message() {
        let all = panic_of("viewer");
        let paths = ["\x1b[?1049h", "drawn", LEFT, "the viewer's panic\r\n"].map(|words| place(&all, words));
        assert!(paths.is_sorted(), "{all:?}");
        assert!(
            !all[place(&all, LEFT) + LEFT.len()..].contains("\x1b["),
            "nothing is drawn after that: {all:?}"
        );
    }

    #[test]
    fn task_panic_is_reported_on_restore() {
        let all = panic_of("task");
        let paths = ["drawn", "onward", LEFT, "a task's panic\r\n"].map(|words| place(&all, words));
        assert!(paths.is_sorted(), "{all:?}");
    }
}
