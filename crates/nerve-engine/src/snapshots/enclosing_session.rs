//! The recorded session that a process runs in.

use std::path::{Path, PathBuf};

use nerve_host::UNRECORDED;
use nerve_record::store;

/// Variable with the path of the recording, set for the recorded program.
const RECORDING: &str = "NERVE_RECORDING";
/// Variable with the session id.
const SESSION: &str = "NERVE_SESSION_ID";
/// Variables with the recorder's socket. The second is the name used by the earlier `ah` recorder.
const SOCKETS: [&str; 2] = ["NERVE_RECORDER_SOCKET", "AH_RECORDER_IPC_SOCKET"];

/// The session that encloses a process, as its environment describes it. Empty by default: a server has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnclosingSession {
    session: Option<String>,
    recording: Option<String>,
    unrecorded: Option<String>,
    socket: Option<String>,
}

impl EnclosingSession {
    /// Reads the environment of this process.
    pub fn from_env() -> EnclosingSession {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        EnclosingSession {
            session: variable(SESSION),
            recording: variable(RECORDING),
            unrecorded: variable(UNRECORDED),
            socket: SOCKETS.into_iter().find_map(variable),
        }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> Option<String> {
        let of_recording = || store::id_of(Path::new(self.recording.as_ref()?)).map(str::to_string);
        self.session.clone().or_else(of_recording)
    }

    /// Returns the recording, as a path.
    pub(super) fn recording(&self) -> Option<&str> {
        self.recording.as_deref()
    }

    /// Returns the recording, or the path that stands for it.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.recording.as_ref().or(self.unrecorded.as_ref()).map(PathBuf::from)
    }

    /// Returns the address of the recorder.
    pub(super) fn socket(&self) -> Option<&str> {
        self.socket.as_deref()
    }
}
