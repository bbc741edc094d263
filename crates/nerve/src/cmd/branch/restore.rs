//! The files of a branch: put in place, and removed again when no node came of it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use nerve_record::files::{self, FileStore, Restored};
use nerve_server::paths::{Places, private_directory};

use super::plan::{Files, Plan};
use crate::cmd::snapshot;

/// Puts the files where the plan has them. Blocks.
///
/// # Errors
/// [`crate::exit::Failure`]; nothing is left behind.
pub(super) fn restore(plan: &Plan) -> Result<(Restored, Undo)> {
    let undo = |files: Files| Undo { files, copy: None, is_armed: true };
    let Files::Restored { files, to, branch } = &plan.files else {
        return Ok((Restored { left_out: Vec::new(), branch: None }, undo(Files::InPlace)));
    };
    let places = Places::from_env();
    if to.starts_with(places.branches()) {
        private_directory(&places.branches())?;
    }
    let existed = to.exists();
    let store = FileStore::new(places.snapshots());
    let (provider, key) = files::provider_of(files, &store).map_err(|error| snapshot::failed(error, ""))?;
    let restored = provider.restore_to_work_on(&key, to, branch).map_err(|error| {
        if !existed {
            let _ = std::fs::remove_dir_all(to);
        }
        snapshot::failed(error, "")
    })?;
    let undo = undo(plan.files.clone());
    // The agent may have worked in a directory that had no files yet.
    let made = std::fs::create_dir_all(&plan.cwd);
    made.with_context(|| format!("cannot make {}", plan.cwd.display()))?;
    Ok((restored, undo))
}

/// What was made for a node that is not there yet: removed when this is dropped, should it never be.
pub(super) struct Undo {
    files: Files,
    /// The copy of a transcript.
    copy: Option<PathBuf>,
    is_armed: bool,
}

impl Undo {
    /// The copy of a transcript goes with it.
    pub(super) fn with(mut self, copy: Option<PathBuf>) -> Undo {
        self.copy = copy;
        self
    }

    /// Stays, if nothing else is said.
    pub(super) fn disarmed(mut self) -> Undo {
        self.is_armed = false;
        self
    }

    /// Removes it. Blocks.
    pub(super) fn now(mut self) {
        self.is_armed = true;
    }

    fn remove(&self) -> Result<()> {
        if let Some(copy) = &self.copy {
            std::fs::remove_file(copy)?;
        }
        if let Files::Restored { files, to, branch } = &self.files {
            let (provider, _) = files::provider_of(files, &FileStore::new(Places::from_env().snapshots()))?;
            provider.take_back(to, branch)?;
        }
        Ok(())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.is_armed {
            // Something else has failed, and is told.
            let _ = self.remove();
        }
    }
}
