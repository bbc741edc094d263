//! Events of a terminal: output, input, resizes, snapshots and the exit, each with time and byte offset.

use crate::{ExitStatus, Size, TsNs};

/// The source of a piece of terminal input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
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
        self.into()
    }
}

/// An event in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Time at which the pump read it.
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
