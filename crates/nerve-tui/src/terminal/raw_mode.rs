//! Standard input as a raw terminal, released while this process is in the background.

use std::io::{self, IsTerminal};

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::job_control;
use super::stdin_reader::read_keys;
use super::window::RawMode;

/// Reads keys and window changes. Dropping it restores the terminal.
pub(crate) struct StdinTerminal {
    keys: Option<mpsc::Receiver<Vec<u8>>>,
    sizes: Signal,
    job: Option<ForegroundJob>,
}

/// An event of standard input.
pub(crate) enum StdinEvent {
    /// Typed bytes.
    Keys(Vec<u8>),
    /// The window size may have changed.
    Resize,
}

impl StdinTerminal {
    /// Starts to read keys if `with_keys`, from a terminal only in the foreground.
    ///
    /// # Errors
    /// Signals cannot be handled.
    pub(crate) fn take(with_keys: bool) -> io::Result<StdinTerminal> {
        let sizes = signal(SignalKind::window_change())?;
        let job = (with_keys && io::stdin().is_terminal()).then(ForegroundJob::start).transpose()?;
        Ok(StdinTerminal { keys: with_keys.then(read_keys), sizes, job })
    }

    /// Returns true if standard input is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.job.is_some()
    }

    /// Returns the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> StdinEvent {
        let StdinTerminal { keys, sizes, job } = self;
        let next_keys = async {
            match keys {
                Some(keys) => keys.recv().await,
                None => None,
            }
        };
        let regained = async {
            match job {
                Some(job) => job.foreground_regained().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(bytes) = next_keys => StdinEvent::Keys(bytes),
            Some(()) = sizes.recv() => StdinEvent::Resize,
            // A background process gets no SIGWINCH.
            () = regained => StdinEvent::Resize,
        }
    }
}

/// This process as a job of a shell.
struct ForegroundJob {
    /// Set while in the foreground.
    raw: Option<RawMode>,
    suspend_requests: Signal,
    continued: Signal,
    poll: Interval,
}

impl ForegroundJob {
    fn start() -> io::Result<ForegroundJob> {
        let listen = |number: Number| signal(SignalKind::from_raw(number.as_raw()));
        let mut poll = interval(job_control::POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (suspend_requests, continued) = (listen(Number::TSTP)?, listen(Number::CONT)?);
        let mut job = ForegroundJob { raw: None, suspend_requests, continued, poll };
        job.take();
        Ok(job)
    }

    /// Resolves when the terminal was taken back. Cancel-safe.
    async fn foreground_regained(&mut self) {
        loop {
            tokio::select! {
                Some(()) = self.suspend_requests.recv() => {
                    self.raw = None;
                    // Without a job-control shell, this process does not stop.
                    let _ = job_control::stop();
                }
                Some(()) = self.continued.recv() => {}
                _ = self.poll.tick(), if self.raw.is_none() => {}
            }
            if self.take() {
                return;
            }
        }
    }

    /// Enters raw mode if in the foreground.
    fn take(&mut self) -> bool {
        match (job_control::is_foreground(), self.raw.take()) {
            (true, None) => self.raw = RawMode::enter(),
            (true, Some(raw)) => {
                raw.reapply();
                self.raw = Some(raw);
            }
            (false, raw) => raw.into_iter().for_each(RawMode::forget),
        }
        self.raw.is_some()
    }
}
