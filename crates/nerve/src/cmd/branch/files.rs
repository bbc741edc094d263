//! The files of a branch: which, and where they go.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nerve_core::host::end::END;
use nerve_record::files::{self, FileStore};
use nerve_record::meta::Meta;
use nerve_record::snapshots::{FilesRef, SnapshotLine};
use nerve_server::paths::Places;

use super::plan::BranchOptions;
use crate::cmd::snapshot;
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};

/// The files of a branch.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// Those of the snapshot, in a folder of their own.
    Restored {
        files: FilesRef,
        to: PathBuf,
        folder: Folder,
        /// Of git, the branch they are on.
        branch: String,
    },
    /// As they are now.
    InPlace,
}

/// Which folder that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folder {
    /// One of its own, which nobody has had yet.
    Own,
    /// One that was asked for and is not there yet.
    New,
    /// One that was asked for and is empty.
    Empty,
}

/// The files, the directory to work in, and which directory is now which.
pub(super) type FilePlan = (Files, PathBuf, Option<(PathBuf, PathBuf)>);

pub(super) fn plan_files(
    snapshot: Option<&SnapshotLine>,
    meta: &Meta,
    here: &Path,
    places: &Places,
    options: &BranchOptions,
) -> Result<FilePlan> {
    if options.in_place {
        if !here.is_dir() {
            let message = format!("the recorded directory {} is gone", here.display());
            return Err(Failure::new(NOT_FOUND, message).hint("leave out --in-place, or put it back").into());
        }
        return Ok((Files::InPlace, here.to_path_buf(), None));
    }
    let Some(files) = snapshot.and_then(|line| line.files.clone()) else {
        return Err(no_files(snapshot, meta, here).into());
    };
    let files = match &options.dir {
        Some(dir) => FilesRef { source: real(dir), ..files },
        None => files,
    };
    let store = FileStore::new(places.snapshots());
    let (provider, key) = files::provider_of(&files, &store).map_err(|error| snapshot::failed(error, ""))?;
    let named = |n: u64| format!("{}-{n}", key.session());
    let folder = |n: u64| places.branches().join(named(n));
    let mut n = 1;
    while folder(n).symlink_metadata().is_ok()
        || provider.has_branch(&git_branch(&named(n))).map_err(|error| snapshot::failed(error, ""))?
    {
        n += 1;
    }
    let to = real(options.to.as_ref().unwrap_or(&folder(n)));
    let kind = match options.to {
        None => Folder::Own,
        Some(_) if to.exists() => Folder::Empty,
        Some(_) => Folder::New,
    };
    let is_full = || std::fs::read_dir(&to).is_ok_and(|mut entries| entries.next().is_some());
    // One of its own that somebody else fills by now is seen when it is made.
    if kind != Folder::Own && (is_full() || to.is_file()) {
        let failure = Failure::new(USAGE, format!("{} is not empty", to.display()));
        return Err(failure.hint("give --to a directory that is empty or not there yet").into());
    }
    if to.starts_with(&files.source) {
        let message =
            format!("{} is in {}, whose files stay as they are", to.display(), files.source.display());
        return Err(Failure::new(USAGE, message).hint("give --to a directory beside it").into());
    }
    let source =
        snapshot.and_then(|line| line.files.as_ref()).map_or(PathBuf::new(), |files| files.source.clone());
    let cwd = here.strip_prefix(&source).map_or(to.clone(), |inside| to.join(inside));
    // With a `/` at its end it would be another directory's name.
    let cwd = cwd.components().collect();
    let branch = git_branch(&named(n));
    Ok((Files::Restored { files, to: to.clone(), folder: kind, branch }, cwd, Some((source, to))))
}

/// A branch's name in git.
fn git_branch(name: &str) -> String {
    format!("nerve/{name}")
}

fn no_files(snapshot: Option<&SnapshotLine>, meta: &Meta, here: &Path) -> Failure {
    let why = meta.end_note.as_ref().filter(|_| snapshot.is_none_or(|line| line.kind == END));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let message = match snapshot {
        Some(line) => format!("snapshot {} has no files{why}", line.id),
        None => format!("the recording ends without a snapshot, so its files are not known{why}"),
    };
    Failure::new(FAILED, message)
        .hint(format!("--in-place goes on in {}, with its files as they are now", here.display()))
}

/// The path without links, also of what is not there yet.
pub(super) fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut missing: Vec<OsString> = Vec::new();
    let mut there = path.as_path();
    loop {
        if let Ok(found) = there.canonicalize() {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        let (Some(name), Some(parent)) = (there.file_name(), there.parent()) else { return path };
        missing.push(name.to_os_string());
        there = parent;
    }
}
