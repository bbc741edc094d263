//! What is shown beside what the viewer knows.

use std::time::Duration;

use nerve_term::event::TsNs;
use nerve_term::terminal::Snapshot;

use crate::timeline::clock;

/// What is shown beside what the viewer knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusInfo {
    /// What is shown: a file's name, an id.
    pub name: String,
    /// How far the recording has been played, and how long it is; `None` for one that has no times.
    pub time: Option<(Duration, Duration)>,
    /// How fast it plays; `None` while it does not.
    pub speed: Option<f64>,
    /// Something is wrong with it, in words.
    pub fault: Option<String>,
    /// The agent's state, and what says so, both in words.
    pub state: Option<(String, String)>,
    /// Bytes of the recording so far.
    pub recorded: Option<u64>,
    /// It could be recorded, and is not.
    pub unrecorded: bool,
    /// When the recording began: snapshots have times then.
    pub begin: Option<TsNs>,
    /// What the user's terminal can do.
    pub capabilities: Capabilities,
}

impl StatusInfo {
    /// When it was, counted from the begin.
    pub(crate) fn since(&self, at: TsNs) -> Option<String> {
        self.begin.map(|begin| clock(at.max(begin).since(begin)))
    }

    /// A snapshot's name and its time, as something is called that has been named before.
    pub(crate) fn of_snapshot(&self, snapshot: &Snapshot) -> String {
        let label = snapshot.label.as_ref().map(|label| format!(" '{label}'")).unwrap_or_default();
        let at = self.since(snapshot.at).map(|at| format!(", {at}")).unwrap_or_default();
        format!("{label}{at}")
    }
}

/// What the user's terminal can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// The kitty keyboard protocol: Ctrl+Shift+Up and its like arrive.
    pub kitty_keyboard: bool,
    /// Its colours in a word or two; empty where nobody asked.
    pub colours: &'static str,
}
