//! The protocol between a host and its clients.
//!
//! Frame: u32 length of the rest, u8 kind, fields; all numbers little-endian. Only nerve itself speaks it, possibly in
//! different versions: unknown kinds are ignored, and [`Hello::version`] states the version.

mod codec;
mod frames;

use std::path::PathBuf;

use nerve_types::{ExitStatus, Origin, Size, TsNs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::codec::encode_output;
pub use self::frames::{BadFrame, Frames};

/// The current version. Since version 2, late subscribers also receive size changes and snapshots at their positions.
pub const VERSION: u32 = 2;
/// Limit of the bytes in one [`HostEvent::Output`] or [`HostRequest::Input`].
pub const CHUNK: usize = 128 * 1024;

/// The greeting of a host. The terminal's descriptor comes with it (`SCM_RIGHTS`), so that clients can query the foreground
/// process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// See [`VERSION`].
    pub version: u32,
    /// The program's process id.
    pub child: i32,
    /// Current columns.
    pub cols: u16,
    /// Current rows.
    pub rows: u16,
    /// Output bytes so far.
    pub off: u64,
    /// Offset of the oldest output byte in the host's memory.
    pub oldest: u64,
    /// Output bytes in the recording's file, if there is one.
    pub recorded: Option<u64>,
    /// Path of the recording.
    pub recording: Option<PathBuf>,
    /// The newest faults.
    pub faults: Vec<String>,
    /// Number of faults so far; 0 from hosts of older versions, which send the oldest.
    #[serde(default)]
    pub total_faults: usize,
    /// Data of the starter, see [`super::HostSpec::label`].
    pub label: Value,
    /// True if a client has typed since the last [`HostRequest::Remember`].
    #[serde(default)]
    pub was_typed: bool,
}

impl Hello {
    /// Returns the number of faults so far, and those after the first `known`, as far as they are still known.
    pub(crate) fn faults_after(&self, known: usize) -> (usize, &[String]) {
        let total = self.total_faults.max(self.faults.len());
        let new = total.saturating_sub(known).min(self.faults.len());
        (total, &self.faults[self.faults.len() - new..])
    }
}

/// A message from a client to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRequest {
    /// Send the output from byte `off` on, and everything after it. Answered by [`HostEvent::Behind`] if it is no longer in
    /// memory.
    Subscribe {
        /// Output bytes that the client already has.
        off: u64,
        /// If the bytes are gone, begin with the oldest available.
        allow_gap: bool,
    },
    /// Bytes for the program.
    Input {
        /// Source of the bytes.
        origin: Origin,
        /// At most [`CHUNK`] bytes.
        bytes: Vec<u8>,
    },
    /// Change the size of the terminal.
    Resize(Size),
    /// Stop the program, then the host.
    Stop,
    /// Acknowledge the program's exit.
    AckExit,
    /// Store this state in the host's entry, for the next driver of the terminal.
    Remember(Value),
    /// Become a viewer with this window, or update the window. It counts until the connection ends.
    View(Window),
}

/// A viewer's influence on the size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// None: it displays the terminal as it is.
    Keep,
    /// The terminal must fit into this window and those of all other sharing viewers.
    Shares(Size),
    /// The terminal has exactly this size. The latest such viewer wins.
    Sets(Size),
}

/// A message from a host to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// The first frame of a connection.
    Hello(Box<Hello>),
    /// Output of the program.
    Output {
        /// Time of the output.
        at: TsNs,
        /// Offset of the first byte.
        off: u64,
        /// At most [`CHUNK`] bytes.
        bytes: Vec<u8>,
    },
    /// The size of the terminal from here on.
    Resized(Size),
    /// A snapshot was taken here.
    Snapshot {
        /// Time of the snapshot.
        at: TsNs,
        /// Id of the snapshot.
        id: u64,
        /// Output bytes before it.
        anchor: u64,
        /// Label; may be empty.
        label: String,
    },
    /// A non-fatal failure.
    Fault(String),
    /// The requested output is no longer in memory. The recording has it up to `recorded`.
    Behind {
        /// Output bytes in the recording's file.
        recorded: Option<u64>,
    },
    /// The program ended.
    Exited(ExitStatus),
    /// The output is complete.
    Closed,
    /// Another client sent input to the program.
    Typed {
        /// Source of the input.
        origin: Origin,
    },
    /// The limit of viewers is reached and the connection ends. The message for the user.
    Full(String),
}
