//! The origin of a branch: metadata and snapshots next to its recording. An unrecorded session has them next to the
//! path that a recording would have, as long as its host exists.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_host::registry::{entry, host_of_unrecorded};
use nerve_record::library::is_live;
use nerve_record::meta::Meta;
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_server::paths::ServerPaths;

use crate::cmd::exec::session;
use crate::cmd::recording;
use crate::exit::{FAILED, Failure, NOT_FOUND};

/// The session that a branch continues.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The recording, or the placeholder path of an unrecorded session.
    pub(crate) file: PathBuf,
    pub(crate) meta: Meta,
    pub(crate) snapshots: Vec<SnapshotLine>,
}

impl Origin {
    /// Reads the metadata and snapshots next to `file`.
    ///
    /// # Errors
    /// [`Failure`] if they are missing or cannot be read.
    pub(crate) fn read(file: &Path) -> Result<Origin> {
        let meta = load_meta(file)?;
        let snapshots = snapshots::read(file)
            .with_context(|| format!("cannot read {}", snapshots::path_of(file).display()))?;
        Ok(Origin { file: file.to_path_buf(), meta, snapshots })
    }

    /// Host id of an unrecorded session.
    pub(crate) fn unrecorded(&self) -> Option<&str> {
        host_of_unrecorded(&self.file)
    }

    /// Returns true if the session is still running.
    pub(super) fn is_running(&self) -> bool {
        let is_alive = |id| entry(&ServerPaths::from_env().hosts(), id).is_some_and(|entry| entry.is_alive());
        self.unrecorded().map_or_else(|| is_live(&self.file), is_alive)
    }
}

/// Finds a recording by file, id or id prefix, or an unrecorded running session by its id or its host's. Returns the
/// newest recording if `named` is `None`.
///
/// # Errors
/// The recording does not exist or is empty.
pub(super) fn resolve_file(named: Option<&str>) -> Result<PathBuf> {
    let unrecorded = |named| session::recording(Some(named), &ServerPaths::from_env()).ok().flatten();
    let file = match recording::find_named(named) {
        Ok(file) => file,
        Err(error) => return named.and_then(unrecorded).ok_or(error),
    };
    recording::check(&file)?;
    Ok(file)
}

fn load_meta(file: &Path) -> Result<Meta> {
    let missing = || {
        if host_of_unrecorded(file).is_some() {
            let message = "cannot branch: the session was not recorded and has ended";
            return Failure::new(NOT_FOUND, message).hint("record with --out-file to branch later");
        }
        let path = Meta::path_of(file);
        Failure::new(NOT_FOUND, format!("cannot branch: metadata {} not found", path.display()))
            .hint("only sessions recorded by nerve can be branched")
    };
    let meta = Meta::load(file).map_err(|error| {
        Failure::new(FAILED, error.to_string()).hint("a branch needs the session's metadata")
    })?;
    Ok(meta.ok_or_else(missing)?)
}
