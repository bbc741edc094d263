//! The snapshots of recordings in git repositories.

use std::collections::BTreeMap;
use std::path::Path;

use nerve_api::reply::{PrunedRecording, RecordingInfo};
use nerve_engine::data_dirs::DataDirs;
use nerve_record::branches::{self, Note};
use nerve_record::files::{FileStore, FilesError, remove_from_git};
use nerve_record::snapshots::{self, FilesRef};

use super::stored_data::FileTotal;

/// The snapshots by the paths of their recordings.
pub(super) struct GitSnapshots(BTreeMap<String, Vec<FilesRef>>);

impl GitSnapshots {
    /// Reads the lists of the recordings, before they are removed with them.
    pub(super) fn read(recordings: &[RecordingInfo]) -> GitSnapshots {
        let files_of = |recording: &RecordingInfo| {
            let lines = snapshots::read(Path::new(&recording.path)).unwrap_or_default();
            let files = lines.into_iter().filter_map(|line| line.files);
            (recording.path.clone(), files.filter(|files| files.provider == "git").collect())
        };
        GitSnapshots(recordings.iter().map(files_of).collect())
    }

    /// Removes the snapshots of removed recordings. A snapshot stays if a branch was made from it, because the changes of the branch are
    /// compared with it, or if its folder is gone. Returns the numbers of the removed and of the kept snapshots, without bytes: those belong
    /// to git. Passes a warning for each snapshot that git cannot remove.
    pub(super) fn prune(
        self,
        removed: &[PrunedRecording],
        dirs: &DataDirs,
        dry_run: bool,
        warn: &mut dyn FnMut(String),
    ) -> (FileTotal, FileTotal) {
        let notes = branches::list(&dirs.branches).into_iter().map(|folder| folder.note);
        // A branch without a readable note may come from any snapshot.
        let notes = notes.collect::<Option<Vec<_>>>();
        let store = FileStore::new(&dirs.snapshots);
        let [mut gone, mut kept] = [FileTotal::default(); 2];
        for (path, files) in &self.0 {
            let is_old = removed.iter().any(|recording| recording.path == *path);
            for files in files {
                let is_other = |note: &Note| note.files.reference != files.reference;
                let is_free = notes.as_ref().is_some_and(|notes| notes.iter().all(is_other));
                let can_remove = is_old && is_free && files.source.is_dir();
                let mut failed = |error: &FilesError| {
                    warn(format!("cannot remove {} in {}: {error}", files.reference, files.source.display()));
                };
                let is_removed = can_remove
                    && (dry_run || remove_from_git(files, &store).inspect_err(&mut failed).is_ok());
                let total = if is_removed { &mut gone } else { &mut kept };
                total.files += 1;
            }
        }
        (gone, kept)
    }
}
