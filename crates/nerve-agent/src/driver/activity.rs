//! The activity of the program: its output, its busy titles, and its use of the terminal.

use nerve_types::{Foreground, TsNs};

/// Latest activity of the program.
#[derive(Debug)]
pub(super) struct Activity {
    /// Output bytes so far.
    pub(super) offset: u64,
    pub(super) last_output: TsNs,
    /// Offset of the last busy title, so that titles between two observations are not missed.
    pub(super) busy_title_offset: u64,
    pub(super) foreground: Foreground,
    /// Time since which the program owns the terminal and sleeps. A short sleep between two jobs is not idleness.
    pub(super) idle_since: Option<TsNs>,
}

impl Activity {
    /// Creates the activity of a program that starts now.
    pub(super) fn new(now: TsNs) -> Activity {
        Activity {
            offset: 0,
            last_output: now,
            busy_title_offset: 0,
            foreground: Foreground::Unknown,
            idle_since: None,
        }
    }

    /// Records output; `offset` is the number of output bytes so far.
    pub(super) fn on_output(&mut self, now: TsNs, offset: u64) {
        self.offset = offset;
        self.last_output = now;
    }

    /// Records that the program set a busy title.
    pub(super) fn on_busy_title(&mut self) {
        self.busy_title_offset = self.offset;
    }

    /// Records the process that owns the terminal.
    pub(super) fn on_foreground(&mut self, now: TsNs, foreground: Foreground) {
        self.foreground = foreground;
        self.idle_since = match foreground {
            Foreground::Awake | Foreground::Other => None,
            Foreground::Idle | Foreground::Unknown => self.idle_since.or(Some(now)),
        };
    }
}
