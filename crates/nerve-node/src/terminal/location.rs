//! Where a node's terminal is.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use nerve_host::registry::Entry;
use nerve_mux::Window;
use nerve_mux::pane::{PaneEntry, Panes};
use nerve_record::executions::log::ExecutionLog;
use nerve_types::activity::TsMs;

/// Location of a node's terminal outside this process.
#[derive(Debug, Default)]
pub(crate) struct TerminalLocation {
    /// The recording of the terminal.
    pub(crate) recording: Option<PathBuf>,
    /// The path that replaces the recording's if there is none ([`Entry::unrecorded`]).
    pub(crate) unrecorded: Option<PathBuf>,
    /// The fixed part of the location as shown in the node's info: names and values.
    pub(crate) place: Vec<(&'static str, String)>,
    /// The pane that shows the terminal.
    pub(crate) window: Option<Window>,
    /// The program runs in a pane that nerve did not create.
    pub(crate) is_foreign: bool,
}

impl TerminalLocation {
    /// Returns the location of a node in a host.
    pub(crate) fn of_host(entry: &Entry, window: Option<Window>) -> TerminalLocation {
        let Entry { recording, unrecorded, id, .. } = entry.clone();
        TerminalLocation { recording, unrecorded, place: vec![("host_id", id)], window, is_foreign: false }
    }

    /// Returns the location of a node whose program runs in a pane.
    pub(crate) fn of_pane(panes: &Panes, entry: &PaneEntry) -> TerminalLocation {
        let window = Some(Window::of_pane(panes, entry));
        TerminalLocation {
            recording: entry.recording.clone(),
            unrecorded: None,
            place: entry.place(),
            window,
            is_foreign: true,
        }
    }

    /// Returns the id of the output stream that the backend's offsets refer to. Only a host continues its count for the next
    /// server.
    pub(super) fn output_stream(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let host = self.place.iter().find(|(name, _)| *name == "host_id");
        let created = TsMs::from(SystemTime::now());
        host.map_or_else(
            || format!("{:x}-{}", created.0, NEXT.fetch_add(1, Ordering::Relaxed)),
            |(_, id)| id.clone(),
        )
    }

    pub(super) fn execution_log(&self) -> Option<ExecutionLog> {
        match (&self.recording, &self.unrecorded) {
            (Some(recording), _) => Some(ExecutionLog::new(recording.clone())),
            (None, unrecorded) => unrecorded.clone().map(ExecutionLog::ephemeral),
        }
    }
}
