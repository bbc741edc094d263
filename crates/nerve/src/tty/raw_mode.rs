//! This terminal in front of a program that has its keys: raw as long as it is ours, given back when this process is stopped.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::job_control;
use super::stdin_reader::read_keys;
use super::window::RawMode;

/// What is typed into standard input, and when its terminal has another size. Dropping it gives the terminal back.
pub(crate) struct StdinTerminal {
    keys: Option<mpsc::Receiver<Vec<u8>>>,
    sizes: Signal,
    job: Option<ForegroundJob>,
}

/// What somebody did in front of it.
pub(crate) enum StdinEvent {
    /// Keys, as bytes.
    Keys(Vec<u8>),
    /// The terminal may have another size.
    Resize,
}

impl StdinTerminal {
    /// Takes the keys, if they are wanted: those of a terminal when this process is in its foreground.
    ///
    /// # Errors
    /// Signals cannot be listened for.
    pub(crate) fn take(with_keys: bool) -> Result<StdinTerminal> {
        let sizes = signal(SignalKind::window_change()).context("cannot follow the window's size")?;
        let job = (with_keys && io::stdin().is_terminal()).then(ForegroundJob::start).transpose()?;
        Ok(StdinTerminal { keys: with_keys.then(read_keys), sizes, job })
    }

    /// Keys come from a terminal, which is raw.
    pub(crate) fn is_terminal(&self) -> bool {
        self.job.is_some()
    }

    /// What happens next. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> StdinEvent {
        let StdinTerminal { keys, sizes, job } = self;
        let typed = async {
            match keys {
                Some(keys) => keys.recv().await,
                None => None,
            }
        };
        let taken = async {
            match job {
                Some(job) => job.foreground_regained().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(bytes) = typed => StdinEvent::Keys(bytes),
            Some(()) = sizes.recv() => StdinEvent::Resize,
            // In the background a new size is not told.
            () = taken => StdinEvent::Resize,
        }
    }
}

/// This process as a job of a shell.
struct ForegroundJob {
    /// The terminal is ours.
    raw: Option<RawMode>,
    suspend_requests: Signal,
    continued: Signal,
    poll: Interval,
}

impl ForegroundJob {
    fn start() -> Result<ForegroundJob> {
        let listen = |number: Number| {
            signal(SignalKind::from_raw(number.as_raw())).context("cannot listen for signals")
        };
        let mut poll = interval(job_control::POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (suspend_requests, continued) = (listen(Number::TSTP)?, listen(Number::CONT)?);
        let mut job = ForegroundJob { raw: None, suspend_requests, continued, poll };
        job.take();
        Ok(job)
    }

    /// Ends when the terminal was taken again. May be dropped and called again.
    async fn foreground_regained(&mut self) {
        loop {
            tokio::select! {
                Some(()) = self.suspend_requests.recv() => {
                    self.raw = None;
                    // Where nobody could let it go on it does not stop.
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

    /// Makes the terminal raw if it is ours.
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
