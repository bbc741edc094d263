//! Restores the files of a branch, and removes them again if its node cannot be started.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nerve_node::error::EngineError;
use nerve_record::branches::Note;
use nerve_record::files::{self, FileStore, FilesError, RestoreDir, RestoreResult};
use nerve_record::snapshots::FilesRef;
use nerve_transcript::recorded::branch::ConversationCopy;
use nerve_types::files::private_folder;

use super::files::{FileSource, TargetFolder};
use super::plan::Plan;
use crate::snapshots::files_error;

/// Maximum number of attempts to find a folder and branch name that no other command has taken.
const MAX_TRIES: usize = 100;

/// Restores the files of the plan. If its folder or branch has been taken meanwhile, makes a new plan. Returns the
/// executed plan. Blocks.
///
/// # Errors
/// NotFound, InvalidRequest, Process; nothing is left behind.
pub(super) fn restore(mut plan: Plan) -> Result<(Plan, RestoreResult, RestoreGuard), EngineError> {
    for _ in 1..MAX_TRIES {
        if let Some((restored, guard)) = restore_once(&plan, true)? {
            return Ok((plan, restored, guard));
        }
        plan = plan.replan()?;
    }
    let outcome = restore_once(&plan, false)?;
    let (restored, guard) =
        outcome.ok_or_else(|| EngineError::busy("too many concurrent branches of this session"))?;
    Ok((plan, restored, guard))
}

/// Restores the files once. Returns `None` if the folder or branch has been taken and `may_retry` is set.
fn restore_once(plan: &Plan, may_retry: bool) -> Result<Option<(RestoreResult, RestoreGuard)>, EngineError> {
    let store = FileStore::new(&plan.dirs.snapshots);
    let guard = |files: FileSource| RestoreGuard {
        files,
        store: store.clone(),
        copy: ConversationCopy::NONE,
        is_armed: true,
    };
    let FileSource::Restored { files, to, folder, branch } = &plan.files else {
        return Ok(Some((RestoreResult { left_out: Vec::new(), branch: None }, guard(FileSource::InPlace))));
    };
    let branches = &plan.dirs.branches;
    if to.starts_with(branches) {
        make_private(branches)?;
    }
    let (provider, key) = files::find_provider(files, &store).map_err(files_error)?;
    let dir = RestoreDir { to, is_new: *folder != TargetFolder::Empty, branch };
    let restored = match provider.restore_work_tree(&key, &dir) {
        Ok(restored) => restored,
        Err(FilesError::BranchExists { .. }) if may_retry => return Ok(None),
        Err(FilesError::PathExists { .. }) if may_retry && *folder == TargetFolder::Own => return Ok(None),
        Err(error) => return Err(restore_error(error)),
    };
    let guard = guard(plan.files.clone());
    if to.starts_with(branches.canonicalize().unwrap_or_default()) {
        write_note(plan, files, restored.branch.clone(), to)?;
    }
    // The recorded directory may have been empty, so the snapshot lacks it.
    let created = std::fs::create_dir_all(&plan.cwd);
    created.map_err(|error| failed("create", &plan.cwd, error))?;
    Ok(Some((restored, guard)))
}

/// Creates the directory of the branches for this user only. Others could replace the agents' files in it.
fn make_private(branches: &Path) -> Result<(), EngineError> {
    private_folder(branches).map_err(|error| failed("create", branches, error))?;
    let meta = branches.symlink_metadata().map_err(|error| failed("look at", branches, error))?;
    let is_own = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    if !is_own || meta.mode() & 0o077 != 0 {
        return Err(failed("use", branches, "others have access to it, or it is not a directory"));
    }
    Ok(())
}

fn failed(what: &str, path: &Path, why: impl Display) -> EngineError {
    EngineError::process(format!("cannot {what} {}: {why}", path.display()))
}

fn restore_error(error: FilesError) -> EngineError {
    let is_full = match &error {
        FilesError::NoRoom { .. } => true,
        FilesError::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
        _ => false,
    };
    let failure = files_error(error);
    match is_full {
        true => failure.hint("free disk space, or choose an empty directory on another disk with `to`"),
        false => failure,
    }
}

/// Writes the folder's origin next to it, for `recordings prune` and `recordings branches`.
fn write_note(plan: &Plan, files: &FilesRef, branch: Option<String>, to: &Path) -> Result<(), EngineError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let recording = plan.recording.canonicalize().unwrap_or_else(|_| plan.recording.clone());
    let note = Note {
        recording,
        snapshot: plan.snapshot.as_ref().map(|line| line.id),
        files: files.clone(),
        branch,
        made_at_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
    };
    note.store(to).map_err(|error| failed("write", &Note::sidecar_path(to), error))
}

/// Removes the files and the conversation of a failed branch on drop, unless disarmed.
pub(super) struct RestoreGuard {
    files: FileSource,
    store: FileStore,
    /// The copied conversation.
    copy: ConversationCopy,
    is_armed: bool,
}

impl RestoreGuard {
    /// Adds a copied conversation, which is removed, too.
    pub(super) fn with_conversation(mut self, copy: ConversationCopy) -> RestoreGuard {
        self.copy = copy;
        self
    }

    /// Keeps everything on drop.
    pub(super) fn disarm(mut self) -> RestoreGuard {
        self.is_armed = false;
        self
    }

    /// Removes everything, even if disarmed. Blocks.
    pub(super) fn remove(mut self) {
        self.is_armed = true;
    }

    fn try_remove(&self) -> Result<(), EngineError> {
        let copy = self.copy.remove();
        if let FileSource::Restored { files, to, branch, .. } = &self.files {
            let (provider, _) = files::find_provider(files, &self.store).map_err(files_error)?;
            let _ = std::fs::remove_file(Note::sidecar_path(to));
            provider.undo_restore(to, branch).map_err(files_error)?;
        }
        copy.map_err(|error| EngineError::process(error.to_string()))
    }
}

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        if self.is_armed {
            // The original error is reported instead.
            let _ = self.try_remove();
        }
    }
}
