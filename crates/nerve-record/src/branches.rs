//! The folders with the files of branches, `<root>/<session>-<n>/`, and a note next to each: `<session>-<n>.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nerve_types::files::{read_json, replace_unsynced};
use serde::{Deserialize, Serialize};

use crate::files::{self, FileStore, FilesError};
use crate::snapshots::FilesRef;

/// The folder, next to those of the branches, for the conversation copies that agents are started with.
pub const CONVERSATIONS: &str = "conversations";

/// Maximum size of a note; a larger one is not read.
const MAX_BYTES: u64 = 1 << 20;

/// The origin of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The recording that the branch continues.
    pub recording: PathBuf,
    /// Number of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Reference to the kept files.
    pub files: FilesRef,
    /// The git branch of the files, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Time of creation; nanoseconds since the Unix epoch.
    pub made_at_ns: u64,
}

impl Note {
    /// Returns the path of the note for a branch's folder.
    pub fn sidecar_path(folder: &Path) -> PathBuf {
        let mut name = folder.as_os_str().to_os_string();
        name.push(".json");
        name.into()
    }

    /// Loads the note of a folder; `None` if it is missing or unreadable.
    pub fn load(folder: &Path) -> Option<Note> {
        read_json(&Note::sidecar_path(folder), MAX_BYTES).ok()
    }

    /// Writes the note next to the folder (mode 0600).
    ///
    /// # Errors
    /// Any I/O error.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace_unsynced(&Note::sidecar_path(folder), &text)
    }
}

/// A folder with the files of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Path of the folder.
    pub path: PathBuf,
    /// The note, if there is a readable one.
    pub note: Option<Note>,
}

/// Changes that exist only in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// None: all files are as restored, or committed.
    None,
    /// A description of the changes.
    Some(String),
    /// The reason why the changes cannot be determined.
    Unknown(String),
}

/// Lists the folders in `root`, sorted by name. A missing root is empty.
pub fn list(root: &Path) -> Vec<Folder> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != CONVERSATIONS
    };
    let mut folders: Vec<Folder> = entries
        .filter(is_folder)
        .map(|entry| Folder { note: Note::load(&entry.path()), path: entry.path() })
        .collect();
    folders.sort_by(|one, other| one.path.cmp(&other.path));
    folders
}

impl Folder {
    /// Determines what would be lost with the folder. Blocks: reads the files and runs git.
    pub fn changes(&self, store: &FileStore) -> Changes {
        let Some(note) = &self.note else {
            return Changes::Unknown("no note of what was restored".to_string());
        };
        let changed = files::find_provider(&note.files, store)
            .and_then(|(provider, key)| provider.changes(&key, &self.path, note.branch.as_deref()));
        match changed {
            Ok(None) => Changes::None,
            Ok(Some(description)) => Changes::Some(description),
            Err(error) => Changes::Unknown(error.to_string()),
        }
    }

    /// Removes the folder and its note, changed or not. Also deletes the git branch unless it has commits on no other
    /// branch, and returns the number of those commits.
    ///
    /// # Errors
    /// [`FilesError`]; folder and note still exist then.
    pub fn remove(&self, store: &FileStore) -> Result<u64, FilesError> {
        let restored = self.note.as_ref().and_then(|note| {
            let provider = files::find_provider(&note.files, store).ok()?.0;
            Some((provider, note.branch.as_deref()))
        });
        let commits = match restored {
            Some((provider, branch)) => provider.discard(&self.path, branch)?,
            // The repository no longer exists, or the folder has no note.
            None => {
                fs::remove_dir_all(&self.path).map_err(|source| FilesError::Io {
                    action: "remove",
                    path: self.path.clone(),
                    source,
                })?;
                0
            }
        };
        // The folder no longer exists; a leftover note does no harm.
        let _ = fs::remove_file(Note::sidecar_path(&self.path));
        Ok(commits)
    }

    /// Returns when the folder or its note was last modified, whichever is later; `None` if unknown.
    pub fn last_modified(&self) -> Option<SystemTime> {
        let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let note_time = self.note.as_ref().and_then(|_| time(&Note::sidecar_path(&self.path)));
        time(&self.path).map(|at| note_time.map_or(at, |note_time| note_time.max(at)))
    }
}
