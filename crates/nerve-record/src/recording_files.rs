//! The state of a recording and of the files next to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::library::is_live;
use crate::meta::Meta;
use crate::snapshots::list_path;

/// The state of a recording, its metadata and its snapshots in the file system. Equal states mean that nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingFiles {
    recording: PathBuf,
    /// Length of each file and time of its last change; `None` for a missing one.
    versions: [Option<(u64, SystemTime)>; 3],
    is_live: bool,
}

impl RecordingFiles {
    /// Reads the state.
    pub fn of(recording: &Path) -> RecordingFiles {
        let version = |path: &Path| {
            let file = fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        RecordingFiles {
            recording: recording.into(),
            versions: [
                version(recording),
                version(&Meta::sidecar_path(recording)),
                version(&list_path(recording)),
            ],
            is_live: is_live(recording),
        }
    }

    /// Returns true if the files are no longer in this state.
    pub fn has_changed(&self) -> bool {
        RecordingFiles::of(&self.recording) != *self
    }

    /// Returns the folder with the files.
    pub fn folder(&self) -> &Path {
        self.recording.parent().unwrap_or(Path::new(""))
    }
}
