//! The origin of a branch: metadata and snapshots next to its recording. An unrecorded session has them next to the
//! path that a recording would have, as long as its host exists.

use std::path::{Path, PathBuf};

use nerve_host::registry::{entry, host_of_unrecorded};
use nerve_node::error::EngineError;
use nerve_record::library::is_live;
use nerve_record::lookup::Candidate;
use nerve_record::meta::Meta;
use nerve_record::snapshots::SnapshotLine;

use crate::data_dirs::DataDirs;
use crate::recordings;
use crate::snapshots::read_lines;

/// The session that a branch continues.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The recording, or the placeholder path of an unrecorded session.
    pub file: PathBuf,
    /// Metadata of the session.
    pub meta: Meta,
    /// Snapshots of the session, in the order in which they were taken.
    pub snapshots: Vec<SnapshotLine>,
}

impl Origin {
    /// Reads the metadata and snapshots next to `file`.
    ///
    /// # Errors
    /// NotFound, Process: they are missing or cannot be read.
    pub fn read(file: &Path) -> Result<Origin, EngineError> {
        let meta = load_meta(file)?;
        let snapshots = read_lines(file)?;
        Ok(Origin { file: file.to_path_buf(), meta, snapshots })
    }

    /// Finds a recording or a session that runs without one, and reads it.
    ///
    /// # Errors
    /// NotFound, InvalidRequest (ambiguous), Process (no recording, no metadata).
    pub fn find(name: &str, dirs: &DataDirs) -> Result<Origin, EngineError> {
        match recordings::find_session(dirs, name)? {
            Candidate { path: Some(file), is_recorded: true, .. } => Origin::from_recording(&file),
            Candidate { path: Some(file), .. } => Origin::read(&file),
            Candidate { id, .. } => {
                Err(EngineError::not_found(format!("cannot branch: session '{id}' keeps no data"))
                    .hint("only sessions recorded by nerve can be branched"))
            }
        }
    }

    /// Checks and reads a recording.
    ///
    /// # Errors
    /// NotFound; Process: it is empty or no recording, or its metadata is missing.
    pub fn from_recording(file: &Path) -> Result<Origin, EngineError> {
        recordings::check(file)?;
        Origin::read(file)
    }

    /// Host id of an unrecorded session.
    pub(super) fn unrecorded(&self) -> Option<&str> {
        host_of_unrecorded(&self.file)
    }

    /// Returns true if the session is still running.
    pub(super) fn is_running(&self, dirs: &DataDirs) -> bool {
        let is_alive = |id| entry(&dirs.hosts, id).is_some_and(|entry| entry.is_alive());
        self.unrecorded().map_or_else(|| is_live(&self.file), is_alive)
    }
}

fn load_meta(file: &Path) -> Result<Meta, EngineError> {
    let missing = || {
        if host_of_unrecorded(file).is_some() {
            return EngineError::not_found("cannot branch: the session was not recorded and has ended")
                .hint("only recorded sessions can be branched after their end");
        }
        let path = Meta::sidecar_path(file);
        EngineError::not_found(format!("cannot branch: metadata {} not found", path.display()))
            .hint("only sessions recorded by nerve can be branched")
    };
    let meta = Meta::load(file).map_err(|error| {
        EngineError::process(error.to_string()).hint("a branch needs the session's metadata")
    })?;
    meta.ok_or_else(missing)
}
