//! A pseudo-terminal that runs `nerve` and observes each frame.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nerve_testkit::harness::open_pty;
use nerve_types::TsNs;
use nerve_vt::screen::Screen;
use nerve_vt::terminal::TerminalState;
use rustix::process::{Pid, Signal, kill_process};

use crate::WINDOW;

/// A program that takes longer than this is stuck.
const LIMIT: Duration = Duration::from_secs(300);

/// A terminal and the program in it. Dropping it closes the terminal.
pub(crate) struct ViewerTerminal {
    child: Child,
    master: File,
    terminal: TerminalState,
    bytes: u64,
    _guard: Sender<()>,
}

impl ViewerTerminal {
    /// Starts a program in a terminal of size [`WINDOW`].
    pub(crate) fn start(command: &mut Command) -> Result<ViewerTerminal> {
        let (master, slave) = open_pty(WINDOW)?;
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.stdin(slave.try_clone()?).stdout(slave).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("{}", command.get_program().display()))?;
        // Closes the slave end here, so that reads end when the program has ended.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (terminal, guard) = (TerminalState::new(WINDOW), guard(Pid::from_child(&child)));
        Ok(ViewerTerminal { child, master, terminal, bytes: 0, _guard: guard })
    }

    /// Returns the pid of the viewer.
    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Returns the number of bytes written to the terminal so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the screen after the next output; `None` when the program has closed the terminal.
    pub(crate) fn next(&mut self) -> Result<Option<Screen>> {
        let mut bytes = [0; 1 << 16];
        // Linux reports EIO when the other end is closed.
        let Ok(len @ 1..) = self.master.read(&mut bytes) else { return Ok(None) };
        self.bytes += len as u64;
        let replies = self.terminal.process_data(TsNs(0), &bytes[..len]).replies;
        self.master.write_all(&replies)?;
        Ok(Some(self.terminal.screen()))
    }

    /// Returns the first screen that satisfies the condition.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Screen) -> bool) -> Result<Screen> {
        while let Some(screen) = self.next()? {
            if wanted(&screen) {
                return Ok(screen);
            }
        }
        ensure!(false, "the program ended; the screen was\n{}", self.terminal.screen().text());
        unreachable!("it was ensured")
    }

    /// Waits for the program's end.
    pub(crate) fn end(mut self) -> Result<()> {
        while self.next()?.is_some() {}
        let status = self.child.wait()?;
        ensure!(status.success(), "the program failed: {status}");
        Ok(())
    }
}

impl Drop for ViewerTerminal {
    fn drop(&mut self) {
        // The program may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills the program after [`LIMIT`], so that readers do not hang; cancelled by dropping the result.
fn guard(program: Pid) -> Sender<()> {
    let (guard, dropped) = channel::<()>();
    thread::spawn(move || {
        if dropped.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            // The program may just have ended.
            let _ = kill_process(program, Signal::KILL);
        }
    });
    guard
}
