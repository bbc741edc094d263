//! The currency that flows from the pump through taps, terminal and driver.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TsNs(pub u64);

impl TsNs {
    /// Time passed since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: TsNs) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for TsNs {
    type Output = TsNs;
    fn add(self, rhs: Duration) -> TsNs {
        TsNs(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for TsNs {
    type Output = TsNs;
    fn sub(self, rhs: Duration) -> TsNs {
        TsNs(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The size of a terminal in cells. At least 2 columns and 1 row: the engine needs both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns, 2–4096.
    pub cols: u16,
    /// Rows, 1–4096.
    pub rows: u16,
}

impl Size {
    /// A size clamped into the allowed range.
    pub fn new(cols: u16, rows: u16) -> Size {
        Size { cols: cols.clamp(2, 4096), rows: rows.clamp(1, 4096) }
    }
}

impl Default for Size {
    /// 120 × 40: the agents' layouts are made for it, and the samples were recorded at it.
    fn default() -> Size {
        Size { cols: 120, rows: 40 }
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It returned this code, 0–255.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone and its status could not be had.
    Unknown,
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
            ExitStatus::Unknown => f.write_str("unknown status"),
        }
    }
}

/// Who wrote a piece of a terminal's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// Keys of the person at the terminal.
    #[default]
    User,
    /// A prompt or a write through a server.
    Api,
    /// The recorder's control channel.
    Injected,
    /// Replies of the terminal model to the program's queries.
    Terminal,
}

impl Origin {
    /// The word for it in listings and exports.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::User => "user",
            Origin::Api => "api",
            Origin::Injected => "injected",
            Origin::Terminal => "terminal",
        }
    }
}

/// One thing that happened on a terminal. `off` counts the output bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// When the pump saw it.
    pub at: TsNs,
    /// Output bytes of this terminal before this event.
    pub off: u64,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What can happen on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind<'a> {
    /// The child wrote these bytes.
    Output(&'a [u8]),
    /// These bytes were written to the child.
    Input {
        /// The bytes; as many asterisks where they are kept secret.
        bytes: &'a [u8],
        /// Who wrote them.
        origin: Origin,
        /// The content was replaced: the terminal did not echo (a password).
        redacted: bool,
    },
    /// The terminal has a new size.
    Resize(Size),
    /// A moment to come back to.
    Snapshot {
        /// Its id.
        id: u64,
        /// Its name; empty if it has none.
        label: &'a str,
    },
    /// Output is missing before this: the terminal was somebody else's meanwhile.
    Gap,
    /// The child is gone.
    Exit(ExitStatus),
}
