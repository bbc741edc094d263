//! Selects the files of a branch and their target folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nerve_host::end_snapshot::END;
use nerve_node::error::EngineError;
use nerve_record::files::{self, FileStore};
use nerve_record::meta::Meta;
use nerve_record::snapshots::{FilesRef, SnapshotLine};

use super::options::BranchOptions;
use crate::data_dirs::DataDirs;
use crate::snapshots::files_error;

/// Source of a branch's files.
#[derive(Debug, Clone)]
pub enum FileSource {
    /// The snapshot's files, restored to their own folder.
    Restored {
        /// Storage of the files.
        files: FilesRef,
        /// Folder that receives them.
        to: PathBuf,
        /// Kind of that folder.
        folder: TargetFolder,
        /// Git branch of the files.
        branch: String,
    },
    /// The current files in the recorded directory.
    InPlace,
}

/// Kind of the target folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetFolder {
    /// A new folder chosen by nerve.
    Own,
    /// A folder given by the user that does not exist yet.
    New,
    /// An empty folder given by the user.
    Empty,
}

/// The files of a branch and the working directory of its agent.
pub(super) struct FilePlan {
    pub(super) files: FileSource,
    /// Working directory of the agent.
    pub(super) cwd: PathBuf,
    /// The directory of the snapshot's files, and the one to which they are restored.
    pub(super) moved: Option<(PathBuf, PathBuf)>,
}

/// Plans the files of a branch. Blocks: runs git.
pub(super) fn plan_files(
    snapshot: Option<&SnapshotLine>,
    meta: &Meta,
    recorded_dir: &Path,
    dirs: &DataDirs,
    options: &BranchOptions,
) -> Result<FilePlan, EngineError> {
    if options.in_place {
        if !recorded_dir.is_dir() {
            let message = format!("recorded directory {} not found", recorded_dir.display());
            return Err(EngineError::not_found(message).hint("omit `in_place`, or restore the directory"));
        }
        return Ok(FilePlan { files: FileSource::InPlace, cwd: recorded_dir.to_path_buf(), moved: None });
    }
    let Some(files) = snapshot.and_then(|line| line.files.clone()) else {
        return Err(no_files_error(snapshot, meta, recorded_dir));
    };
    let files = match &options.dir {
        Some(dir) => FilesRef { source: resolve_links(dir), ..files },
        None => files,
    };
    let store = FileStore::new(&dirs.snapshots);
    let (provider, key) = files::find_provider(&files, &store).map_err(files_error)?;
    let folder_name = |number: u64| format!("{}-{number}", key.session());
    let folder = |number: u64| dirs.branches.join(folder_name(number));
    let mut number = 1;
    while folder(number).symlink_metadata().is_ok()
        || provider.has_branch(&git_branch(&folder_name(number))).map_err(files_error)?
    {
        number += 1;
    }
    let to = resolve_links(options.to.as_ref().unwrap_or(&folder(number)));
    let kind = match options.to {
        None => TargetFolder::Own,
        Some(_) if to.exists() => TargetFolder::Empty,
        Some(_) => TargetFolder::New,
    };
    let is_full = || std::fs::read_dir(&to).is_ok_and(|mut entries| entries.next().is_some());
    // A conflict in a folder chosen by nerve is detected when it is created.
    if kind != TargetFolder::Own && (is_full() || to.is_file()) {
        let failure = EngineError::invalid_request(format!("{} is not empty", to.display()));
        return Err(failure.hint("choose an empty or new directory with `to`"));
    }
    if to.starts_with(&files.source) {
        let message = format!("cannot restore to {}: it is inside {}", to.display(), files.source.display());
        return Err(EngineError::invalid_request(message).hint("choose a directory outside with `to`"));
    }
    let source =
        snapshot.and_then(|line| line.files.as_ref()).map_or(PathBuf::new(), |files| files.source.clone());
    let cwd = recorded_dir.strip_prefix(&source).map_or(to.clone(), |inside| to.join(inside));
    // Removes a trailing `/`, which agents treat as another directory.
    let cwd = cwd.components().collect();
    let branch = git_branch(&folder_name(number));
    let files = FileSource::Restored { files, to: to.clone(), folder: kind, branch };
    Ok(FilePlan { files, cwd, moved: Some((source, to)) })
}

/// Returns the git branch name of a branch.
fn git_branch(name: &str) -> String {
    format!("nerve/{name}")
}

fn no_files_error(snapshot: Option<&SnapshotLine>, meta: &Meta, cwd: &Path) -> EngineError {
    let why = meta.end_note.as_ref().filter(|_| snapshot.is_none_or(|line| line.kind == END));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let message = match snapshot {
        Some(line) => format!("snapshot {} has no files{why}", line.id),
        None => format!("the recording has no snapshot at its end, so its files are unknown{why}"),
    };
    EngineError::process(message).hint(format!("use the current files in {} with `in_place`", cwd.display()))
}

/// Resolves links in a path whose last components may not exist.
pub(super) fn resolve_links(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path.as_path();
    loop {
        if let Ok(resolved) = existing.canonicalize() {
            return missing.iter().rev().fold(resolved, |path, name| path.join(name));
        }
        let (Some(name), Some(parent)) = (existing.file_name(), existing.parent()) else { return path };
        missing.push(name.to_os_string());
        existing = parent;
    }
}
