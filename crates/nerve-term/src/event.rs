//! The event types that flow from the pump through taps, terminal and driver.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TsNs(pub u64);

impl TsNs {
    /// Returns the time since `earlier`; zero if `earlier` is later.
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

/// The size of a terminal in cells. The engine requires at least 2 columns and 1 row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Columns, 2–4096.
    pub cols: u16,
    /// Rows, 1–4096.
    pub rows: u16,
}

impl Size {
    /// Creates a size, clamped to the allowed range.
    pub fn new(cols: u16, rows: u16) -> Size {
        Size { cols: cols.clamp(2, 4096), rows: rows.clamp(1, 4096) }
    }
}

impl Default for Size {
    /// 120 × 40, the size of the sample recordings.
    fn default() -> Size {
        Size { cols: 120, rows: 40 }
    }
}

/// How a child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Returned this exit code, 0–255.
    Code(i32),
    /// Was terminated by this signal.
    Signal(i32),
    /// Is gone; its status is not available.
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

/// The source of a piece of terminal input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// The user's keyboard.
    #[default]
    User,
    /// A prompt or write through a server.
    Api,
    /// The recorder's control channel.
    Injected,
    /// Replies of the terminal model to the program's queries.
    Terminal,
}

impl Origin {
    /// Returns the name used in listings and exports.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::User => "user",
            Origin::Api => "api",
            Origin::Injected => "injected",
            Origin::Terminal => "terminal",
        }
    }
}

/// An event in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// When the pump saw it.
    pub at: TsNs,
    /// Output bytes of this terminal before the event.
    pub off: u64,
    /// The kind of event.
    pub kind: EventKind<'a>,
}

/// Kinds of terminal events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind<'a> {
    /// The child process wrote these bytes.
    Output(&'a [u8]),
    /// These bytes were written to the child process.
    Input {
        /// The bytes; asterisks of the same number if they are secret.
        bytes: &'a [u8],
        /// The source of the input.
        origin: Origin,
        /// The content was redacted because the terminal did not echo it (a password).
        redacted: bool,
    },
    /// The terminal was resized.
    Resize(Size),
    /// A snapshot was taken.
    Snapshot {
        /// Id of the snapshot.
        id: u64,
        /// Name of the snapshot; empty if it has none.
        label: &'a str,
    },
    /// Output before this event is missing: something else owned the terminal.
    Gap,
    /// The child process exited.
    Exit(ExitStatus),
}
