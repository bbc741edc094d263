//! The files of a branch: put in place, and removed again when no node came of it.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nerve_core::fork::branch::Placed;
use nerve_record::branches::Note;
use nerve_record::files::{self, FileStore, FilesError, Restored, WorkPlace};
use nerve_record::snapshots::FilesRef;
use nerve_server::paths::{Places, private_directory};

use super::files::{Files, Folder};
use super::plan::Plan;
use crate::cmd::snapshot;
use crate::exit::Failure;

/// Others may have taken the folder that was planned, and the branch: so often the next one is tried.
const TRIES: usize = 100;

/// Puts the files where the plan has them, or where another one has them, should somebody have been there meanwhile: gives back the plan
/// that came true. Blocks.
///
/// # Errors
/// [`crate::exit::Failure`]; nothing is left behind.
pub(super) fn restore(mut plan: Plan) -> Result<(Plan, Restored, Undo)> {
    for _ in 1..TRIES {
        if let Some((restored, undo)) = put(&plan, true)? {
            return Ok((plan, restored, undo));
        }
        plan = plan.once_more()?;
    }
    let put = put(&plan, false)?;
    let (restored, undo) = put.context("others make branches of the same session all the time")?;
    Ok((plan, restored, undo))
}

/// `None`: somebody else has what it would have made, which is no error as long as `may_lose`.
fn put(plan: &Plan, may_lose: bool) -> Result<Option<(Restored, Undo)>> {
    let undo = |files: Files| Undo { files, copy: Placed::NOTHING, is_armed: true };
    let Files::Restored { files, to, folder, branch } = &plan.files else {
        return Ok(Some((Restored { left_out: Vec::new(), branch: None }, undo(Files::InPlace))));
    };
    let places = Places::from_env();
    if to.starts_with(places.branches()) {
        private_directory(&places.branches())?;
    }
    let store = FileStore::new(places.snapshots());
    let (provider, key) = files::provider_of(files, &store).map_err(|error| snapshot::failed(error, ""))?;
    let place = WorkPlace { to, is_new: *folder != Folder::Empty, branch };
    let restored = match provider.restore_to_work_on(&key, &place) {
        Ok(restored) => restored,
        Err(FilesError::BranchExists { .. }) if may_lose => return Ok(None),
        Err(FilesError::PathExists { .. }) if may_lose && *folder == Folder::Own => return Ok(None),
        Err(error) => return Err(refused(error).into()),
    };
    let undo = undo(plan.files.clone());
    if to.starts_with(places.branches().canonicalize().unwrap_or_default()) {
        note(plan, files, restored.branch.clone(), to)?;
    }
    // The agent may have worked in a directory that had no files yet.
    let made = std::fs::create_dir_all(&plan.cwd);
    made.with_context(|| format!("cannot make {}", plan.cwd.display()))?;
    Ok(Some((restored, undo)))
}

fn refused(error: FilesError) -> Failure {
    let is_full = match &error {
        FilesError::NoRoom { .. } => true,
        FilesError::Io { source, .. } => source.kind() == ErrorKind::StorageFull,
        _ => false,
    };
    let failure = snapshot::failed(error, "");
    match is_full {
        true => failure.hint("make room, or give --to an empty directory on another disk"),
        false => failure,
    }
}

/// Notes what the folder is of, for who wants to know whether it is needed any more.
fn note(plan: &Plan, files: &FilesRef, branch: Option<String>, to: &Path) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let recording = plan.recording.canonicalize().unwrap_or_else(|_| plan.recording.clone());
    let note = Note {
        recording,
        snapshot: plan.snapshot.as_ref().map(|line| line.id),
        files: files.clone(),
        branch,
        made_at_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
    };
    note.store(to).with_context(|| format!("cannot write {}", Note::path_of(to).display()))
}

/// What was made for a node that is not there yet: removed when this is dropped, should it never be.
pub(super) struct Undo {
    files: Files,
    /// The copy of a conversation.
    copy: Placed,
    is_armed: bool,
}

impl Undo {
    /// The copy of a conversation goes with it.
    pub(super) fn with(mut self, copy: Placed) -> Undo {
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
        let copy = self.copy.remove();
        if let Files::Restored { files, to, branch, .. } = &self.files {
            let (provider, _) = files::provider_of(files, &FileStore::new(Places::from_env().snapshots()))?;
            let _ = std::fs::remove_file(Note::path_of(to));
            provider.take_back(to, branch)?;
        }
        Ok(copy?)
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
