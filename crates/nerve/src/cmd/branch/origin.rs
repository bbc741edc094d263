//! The session that a branch goes on from, as far as it is known: its facts and its snapshots, from beside its recording. A session that
//! runs and is not recorded has both beside a file that is not there, as long as its host is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_core::host::registry::{entry, host_of_unrecorded};
use nerve_record::meta::Meta;
use nerve_record::shelf::is_live;
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_server::paths::Places;

use crate::cmd::exec::session;
use crate::cmd::recording;
use crate::exit::{FAILED, Failure, NOT_FOUND};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Its recording, or what stands for one.
    pub(crate) file: PathBuf,
    pub(crate) meta: Meta,
    pub(crate) snapshots: Vec<SnapshotLine>,
}

impl Origin {
    /// Reads what is beside that file.
    ///
    /// # Errors
    /// Nothing is, or it cannot be read: [`Failure`], with what to do.
    pub(crate) fn read(file: &Path) -> Result<Origin> {
        let meta = load_meta(file)?;
        let snapshots = snapshots::read(file)
            .with_context(|| format!("cannot read {}", snapshots::path_of(file).display()))?;
        Ok(Origin { file: file.to_path_buf(), meta, snapshots })
    }

    /// The id of its host, if it is not recorded.
    pub(crate) fn unrecorded(&self) -> Option<&str> {
        host_of_unrecorded(&self.file)
    }

    /// It has no end yet.
    pub(super) fn is_running(&self) -> bool {
        let is_alive = |id| entry(&Places::from_env().hosts(), id).is_some_and(|entry| entry.is_alive());
        self.unrecorded().map_or_else(|| is_live(&self.file), is_alive)
    }
}

/// The file of the session that is named: a recording, by its file, its id or the beginning of one, else a session that runs and is not
/// recorded, by its id or its host's. The newest recording, if nothing is named.
///
/// # Errors
/// There is none, or nothing is in it.
pub(super) fn resolve_file(named: Option<&str>) -> Result<PathBuf> {
    let unrecorded = |named| session::recording(Some(named), &Places::from_env()).ok().flatten();
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
            let message = "what was known of the session has gone with it: it was not recorded";
            return Failure::new(NOT_FOUND, message).hint("record it with --out-file to go on from it later");
        }
        let path = Meta::path_of(file);
        Failure::new(
            NOT_FOUND,
            format!("nothing says which program was recorded, and where: {} is not there", path.display()),
        )
        .hint("only sessions that nerve itself has recorded can be gone on with")
    };
    let meta = Meta::load(file).map_err(|error| {
        Failure::new(FAILED, error.to_string())
            .hint("without what it says of the session, no branch can be made")
    })?;
    Ok(meta.ok_or_else(missing)?)
}
