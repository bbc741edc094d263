//! The folders with the files of branches, `<root>/<session>-<n>/`, and what is noted of each beside it: `<session>-<n>.json`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nerve_term::event::TsNs;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::files::{self, FileStore, FilesError};
use crate::snapshots::FilesRef;

/// The folder of copies of conversations that agents are started with, among those of the branches.
pub const CONVERSATIONS: &str = "conversations";

/// A longer note is not read.
const MAX_BYTES: u64 = 1 << 20;

/// What a branch was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The recording that it goes on from.
    pub recording: PathBuf,
    /// The snapshot's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// How its files were kept.
    pub files: FilesRef,
    /// The branch of git that they are on, if they are on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// When it was made; nanoseconds since the Unix epoch.
    pub made_at_ns: u64,
}

impl Note {
    /// The file beside a branch's folder.
    pub fn path_of(folder: &Path) -> PathBuf {
        let mut name = folder.as_os_str().to_os_string();
        name.push(".json");
        name.into()
    }

    /// When the branch was made.
    pub fn made_at(&self) -> TsNs {
        TsNs(self.made_at_ns)
    }

    /// What is noted of a folder; `None` if nothing is, or nothing that can be read.
    pub fn load(folder: &Path) -> Option<Note> {
        let mut bytes = Vec::new();
        File::open(Note::path_of(folder)).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Notes it beside the folder (mode 0600).
    ///
    /// # Errors
    /// What the operating system says.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        let path = Note::path_of(folder);
        let mut file = NamedTempFile::with_prefix_in(".note-", path.parent().unwrap_or(Path::new(".")))?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.persist(path)?;
        Ok(())
    }
}

/// A folder with the files of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// What is noted of it, if anything is.
    pub note: Option<Note>,
}

/// What is in a folder and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// Nothing: its files are those that were restored, or committed.
    None,
    /// Something: in words.
    Some(String),
    /// That cannot be told: why.
    Unknown(String),
}

/// The folders in `root`, sorted by name. A root that is not there has none.
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
    /// Whether something would be lost with it. Blocks: it reads the files, and asks git.
    pub fn changes(&self, store: &FileStore) -> Changes {
        let Some(note) = &self.note else {
            return Changes::Unknown("nothing is noted of what was restored".to_string());
        };
        let changed = files::provider_of(&note.files, store)
            .and_then(|(provider, key)| provider.changes(&key, &self.path, note.branch.as_deref()));
        match changed {
            Ok(None) => Changes::None,
            Ok(Some(what)) => Changes::Some(what),
            Err(error) => Changes::Unknown(error.to_string()),
        }
    }

    /// Removes it with what is noted of it, changed or not. Of git, its branch goes too unless it has commits that are on no other: how
    /// many those are.
    ///
    /// # Errors
    /// [`FilesError`]; the folder is there, with what is noted of it.
    pub fn remove(&self, store: &FileStore) -> Result<u64, FilesError> {
        let known = self.note.as_ref().and_then(|note| {
            let provider = files::provider_of(&note.files, store).ok()?.0;
            Some((provider, note.branch.as_deref()))
        });
        let commits = match known {
            Some((provider, branch)) => provider.discard(&self.path, branch)?,
            // The repository is gone, or nobody knows of one.
            None => {
                fs::remove_dir_all(&self.path).map_err(|source| FilesError::Io {
                    action: "remove",
                    path: self.path.clone(),
                    source,
                })?;
                0
            }
        };
        // The folder is gone, whatever becomes of what is noted of it.
        let _ = fs::remove_file(Note::path_of(&self.path));
        Ok(commits)
    }

    /// When it or what is noted of it was last written to, whichever is later; `None` if that cannot be told.
    pub fn last_modified(&self) -> Option<SystemTime> {
        let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let noted = self.note.as_ref().and_then(|_| time(&Note::path_of(&self.path)));
        time(&self.path).map(|at| noted.map_or(at, |noted| noted.max(at)))
    }
}
