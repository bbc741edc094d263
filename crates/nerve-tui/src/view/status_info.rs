//! Information for the status line that the viewer does not have itself.

use std::time::Duration;

use nerve_types::TsNs;
use nerve_vt::terminal::Snapshot;

use crate::view::timeline::clock;

/// Information about the session and the terminal, for the status line and the task entry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusInfo {
    /// Display name: a file name or an id.
    pub name: String,
    /// Playback position and duration; `None` for a recording without times.
    pub time: Option<(Duration, Duration)>,
    /// Playback speed; `None` while paused.
    pub speed: Option<f64>,
    /// A problem to report.
    pub fault: Option<String>,
    /// The agent's state and its evidence.
    pub state: Option<(String, String)>,
    /// Size of the recording in bytes.
    pub recorded: Option<u64>,
    /// The session could be recorded and is not.
    pub unrecorded: bool,
    /// Start of the recording, to which snapshot times are relative.
    pub begin: Option<TsNs>,
    /// Capabilities of the user's terminal.
    pub capabilities: Capabilities,
}

impl StatusInfo {
    /// Formats a time relative to the start.
    pub(crate) fn since(&self, at: TsNs) -> Option<String> {
        self.begin.map(|begin| clock(at.max(begin).since(begin)))
    }

    /// Formats a snapshot's label and time, to be appended to its id.
    pub(crate) fn of_snapshot(&self, snapshot: &Snapshot) -> String {
        let label = snapshot.label.as_ref().map(|label| format!(" '{label}'")).unwrap_or_default();
        let at = self.since(snapshot.at).map(|at| format!(", {at}")).unwrap_or_default();
        format!("{label}{at}")
    }
}

/// Capabilities of the user's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// True if the terminal supports the kitty keyboard protocol, so that keys like Ctrl+Shift+Up arrive.
    pub kitty_keyboard: bool,
    /// Number of colours as a short text; empty if unknown.
    pub colours: &'static str,
}
