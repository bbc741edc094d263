//! A backend over a pseudo-terminal in this process, for library use and short-lived nodes. It ends with the process.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use nerve_types::Foreground;
use nerve_types::{ExitStatus, Origin, Size, TsNs};
use rustix::process::Signal;

use super::pty::{Pty, READ_LIMIT};
use super::{Backend, BackendEvent, Memory, Program, SpawnError};
use crate::clock::Clock;
use crate::pump::Pump;
use crate::tap::Tap;

/// Time between exit and end of output: a grandchild may hold the terminal open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// A read of this size, the kernel's maximum, indicates a fast writer.
const FAST_READ: usize = 4096;

/// A terminal in this process.
#[derive(Debug)]
pub struct PtyBackend {
    pty: Pty,
    pump: Pump,
    clock: Clock,
    buffer: Vec<u8>,
    open: bool,
    exit: Option<ExitStatus>,
    /// Events that are not reported yet.
    events: VecDeque<BackendEvent>,
}

impl PtyBackend {
    /// Starts a program. `taps` receive every byte first.
    ///
    /// # Errors
    /// [`SpawnError`]: nothing was started.
    pub fn spawn(
        program: &Program,
        size: Size,
        taps: Vec<Box<dyn Tap>>,
        clock: Clock,
    ) -> Result<PtyBackend, SpawnError> {
        Ok(PtyBackend {
            pty: Pty::spawn(program, size)?,
            pump: Pump::new(taps),
            clock,
            buffer: Vec::with_capacity(READ_LIMIT),
            open: true,
            exit: None,
            events: VecDeque::new(),
        })
    }

    fn on_read(&mut self, read: io::Result<usize>) -> BackendEvent {
        match read {
            Ok(0) | Err(_) => {
                self.open = false;
                BackendEvent::Closed
            }
            Ok(size) => {
                if size >= FAST_READ {
                    self.pty.output.read_ahead();
                }
                self.pump.output(self.clock.now(), &self.buffer);
                BackendEvent::Output
            }
        }
    }
}

impl Drop for PtyBackend {
    fn drop(&mut self) {
        // Last, because a grandchild may have kept writing.
        self.pump.exit(self.clock.now(), self.exit.unwrap_or(ExitStatus::Unknown));
    }
}

impl Backend for PtyBackend {
    async fn next(&mut self) -> BackendEvent {
        loop {
            self.events.extend(self.pump.take_failures().into_iter().map(BackendEvent::Fault));
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            self.buffer.clear();
            let Pty { output, input, child, .. } = &mut self.pty;
            tokio::select! {
                read = output.read(&mut self.buffer), if self.open => return self.on_read(read),
                flushed = input.flush(), if self.open && input.pending() > 0 => {
                    if let Err(error) = flushed {
                        tracing::debug!(%error, "input to a closed terminal is dropped");
                    }
                }
                exit = child.wait(), if self.exit.is_none() => {
                    self.exit = Some(exit);
                    return BackendEvent::Exited(exit);
                }
                // Closed and exited: there are no more events.
                () = std::future::pending() => {}
            }
        }
    }

    fn output(&self) -> &[u8] {
        &self.buffer
    }

    fn write(&mut self, now: TsNs, bytes: &[u8], origin: Origin) -> bool {
        // The program may turn the echo on again once it has read the input.
        let is_hidden = self.pty.control.hides_input();
        let is_taken = self.open && self.pty.input.push(bytes);
        if is_taken {
            self.pump.input(now, bytes, origin, is_hidden);
        }
        is_taken
    }

    fn queued_input(&self) -> usize {
        self.pty.input.pending()
    }

    fn resize(&mut self, now: TsNs, size: Size) -> io::Result<()> {
        self.pty.control.resize(size)?;
        self.pump.resize(now, size);
        self.events.push_back(BackendEvent::Resized(size));
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        self.pty.control.signal(signal);
    }

    fn foreground(&self, detailed: bool, shells: &[String]) -> Foreground {
        self.pty.control.foreground(detailed, shells)
    }

    fn drain_time(&self) -> Duration {
        DRAIN_TIMEOUT
    }

    fn pid(&self) -> Option<i32> {
        self.pty.control.pid()
    }

    fn hides_input(&self) -> bool {
        self.pty.control.hides_input()
    }

    /// Does nothing: the terminal has no next driver.
    fn remember(&mut self, _memory: &Memory) {}

    fn release(&mut self) -> bool {
        false
    }
}
