//! What a host and whoever drives its terminal say to each other: frames of a length, a kind and a few plain fields.
//!
//! Frame: u32 LE length of what follows, u8 kind, fields in little-endian. Only this program speaks it, with itself and its
//! other versions: a kind that is not known is passed over, and [`Hello::version`] tells what to expect.
//!
//! Here is what can be said; as bytes it is in `codec`, and bytes are cut into frames in `frames`.

mod codec;
mod frames;

use std::path::PathBuf;

use nerve_term::event::{ExitStatus, Origin, Size, TsNs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::codec::encode_output;
pub use self::frames::{BadFrame, Frames};

/// The version spoken here. Since 2, sizes and snapshots are told where they were, also to those who connect late.
pub const VERSION: u32 = 2;
/// Bytes of one [`HostEvent::Output`] or [`HostRequest::Input`] at most.
pub const CHUNK: usize = 128 * 1024;

/// What a host tells of itself when somebody connects. The terminal's descriptor comes with it (`SCM_RIGHTS`), to see who has
/// the foreground.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// See [`VERSION`].
    pub version: u32,
    /// The program's process id.
    pub child: i32,
    /// Columns now.
    pub cols: u16,
    /// Rows now.
    pub rows: u16,
    /// Output bytes so far.
    pub off: u64,
    /// The first output byte that the host still has in memory.
    pub oldest: u64,
    /// Output bytes that are in the recording's file, if one is written.
    pub recorded: Option<u64>,
    /// The recording's file.
    pub recording: Option<PathBuf>,
    /// What failed so far and was outlived.
    pub faults: Vec<String>,
    /// What the one who started the host wrote on it.
    pub label: Value,
}

/// To a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRequest {
    /// Send the output from this byte on, then all that follows. Answered by [`HostEvent::Behind`] if it is not in memory any more.
    Subscribe {
        /// Output bytes that are known already.
        off: u64,
        /// If they are not there, begin with the oldest that are.
        allow_gap: bool,
    },
    /// Bytes for the program.
    Input {
        /// Who wrote them.
        origin: Origin,
        /// At most [`CHUNK`].
        bytes: Vec<u8>,
    },
    /// Another size for the terminal.
    Resize(Size),
    /// End the program, then the host.
    Stop,
    /// The program's end was seen: nobody else needs to be told.
    AckExit,
    /// Keep this in the host's entry, for whoever drives the terminal next.
    Remember(Value),
    /// The connection is a viewer, with this window for the program. StartReport again when the window changes; a connection that ends is
    /// forgotten.
    View(Window),
}

/// What a viewer wants of the terminal's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Nothing: it shows what there is.
    Keep,
    /// The program is to fit into this, and into the windows of all others that share.
    Shares(Size),
    /// The program is to have exactly this, whoever else looks. Of several, the latest that came counts.
    Sets(Size),
}

/// From a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// The first frame of a connection.
    Hello(Box<Hello>),
    /// The program wrote.
    Output {
        /// When.
        at: TsNs,
        /// Output bytes before.
        off: u64,
        /// At most [`CHUNK`].
        bytes: Vec<u8>,
    },
    /// The size counts from here on.
    Resized(Size),
    /// A snapshot was taken here.
    Snapshot {
        /// When.
        at: TsNs,
        /// Its id.
        id: u64,
        /// Output bytes before it.
        anchor: u64,
        /// Its name; empty if it has none.
        label: String,
    },
    /// Something failed that the session outlives.
    Fault(String),
    /// What was asked for is not in memory any more: the recording has it, up to `recorded`.
    Behind {
        /// Output bytes in the recording's file.
        recorded: Option<u64>,
    },
    /// The program ended.
    Exited(ExitStatus),
    /// No more output will come.
    Closed,
    /// Somebody else has typed something for the program.
    Typed {
        /// Who.
        origin: Origin,
    },
    /// There are as many viewers as there may be: the connection ends. Why, in words.
    Full(String),
}
