//! Paths of recordings, `<root>/YYYY/MM/<id>.ahr`, and of their sidecars.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_types::TsNs;
use nerve_types::files::{is_abandoned, private_folder};

/// File extension of recordings.
pub const EXTENSION: &str = "ahr";

/// Maximum characters of a recording's id.
pub const MAX_ID_CHARS: usize = 64;

/// Maximum number of suggested prefixes.
const MAX_SUGGESTED: usize = 3;

/// The folder of all recordings: `<state>/recordings`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Creates a store for `root`, without creating the folder.
    pub fn new(root: impl Into<PathBuf>) -> Store {
        Store { root: root.into() }
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path for the recording `id` that began at `started`, by year and month in UTC.
    ///
    /// # Errors
    /// [`StoreError::Id`] if `id` cannot be part of a path, see [`check_id`].
    pub fn path_for(&self, id: &str, started: TsNs) -> Result<PathBuf, StoreError> {
        check_id(id)?;
        // u64 nanoseconds end in the year 2554, well within the range of a Timestamp.
        let date = Timestamp::from_nanosecond(i128::from(started.0))
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .to_zoned(TimeZone::UTC)
            .date();
        let mut path = self.root.join(format!("{:04}", date.year()));
        path.push(format!("{:02}", date.month()));
        path.push(format!("{id}.{EXTENSION}"));
        Ok(path)
    }

    /// Returns [`Store::path_for`] after creating its folders (mode 0700).
    ///
    /// # Errors
    /// [`StoreError::Id`], or [`StoreError::Io`] if a folder cannot be created.
    pub fn prepare(&self, id: &str, started: TsNs) -> Result<PathBuf, StoreError> {
        let path = self.path_for(id, started)?;
        if let Some(folder) = path.parent() {
            private_folder(folder).map_err(|source| StoreError::Io { folder: folder.into(), source })?;
        }
        Ok(path)
    }

    /// Lists the paths of all recordings, last written first. Skips unreadable folders.
    pub fn all(&self) -> Vec<PathBuf> {
        self.by_last_write().into_iter().map(|recording| recording.path).collect()
    }

    /// Lists all recordings, last written first. Skips unreadable folders.
    pub fn by_last_write(&self) -> Vec<StoredRecording> {
        let mut found: Vec<StoredRecording> = self
            .months()
            .flat_map(|month| entries(&month).filter_map(|entry| recording(&entry)).collect::<Vec<_>>())
            .collect();
        found.sort_by(|one, other| other.cmp(one));
        found
    }

    /// Returns the recordings with this id, last written first. Several months can have one.
    pub fn with_id(&self, id: &str) -> Vec<StoredRecording> {
        let file = |month: PathBuf| StoredRecording::read(month.join(format!("{id}.{EXTENSION}")));
        let mut found: Vec<StoredRecording> = self.months().filter_map(file).collect();
        found.sort_by(|one, other| other.cmp(one));
        found
    }

    /// Removes sidecars that processes left unfinished over an hour ago. Failures are left to the next sweep.
    pub fn sweep(&self) {
        for path in self.files().filter(|path| is_abandoned(path)) {
            let _ = fs::remove_file(path);
        }
    }

    /// Lists the paths of all recordings and sidecars. Skips unreadable folders.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.months().flat_map(|month| entries(&month).map(|file| file.path()).collect::<Vec<_>>())
    }

    fn months(&self) -> impl Iterator<Item = PathBuf> {
        folders(&self.root, 4).flat_map(|year| folders(&year, 2).collect::<Vec<_>>())
    }
}

/// A recording's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredRecording {
    /// Time of the last write.
    pub written: SystemTime,
    /// Path.
    pub path: PathBuf,
}

impl StoredRecording {
    /// Reads the time of a file; `None` unless it is a regular file.
    fn read(path: PathBuf) -> Option<StoredRecording> {
        let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some(StoredRecording { written: metadata.modified().ok()?, path })
    }
}

/// Returns the id in a recording's path.
pub fn id_of(recording: &Path) -> Option<&str> {
    recording.file_name()?.to_str()?.strip_suffix(".ahr")
}

/// Returns the path `<stem>.<suffix>` of a sidecar: `sidecar_path("x.ahr", "meta.json")` is `x.meta.json`. A name
/// without the extension is its own stem.
pub fn sidecar_path(recording: &Path, suffix: &str) -> PathBuf {
    let mut name = match recording.extension() {
        Some(extension) if extension == EXTENSION => recording.with_extension(""),
        _ => recording.to_path_buf(),
    }
    .into_os_string();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Checks that `id` can name a recording: 1–64 of `A-Z a-z 0-9 _ -`.
///
/// # Errors
/// [`StoreError::Id`].
pub fn check_id(id: &str) -> Result<(), StoreError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=MAX_ID_CHARS).contains(&id.len()) && id.bytes().all(allowed) {
        Ok(())
    } else {
        // An id from the network can be long.
        Err(StoreError::Id { id: id.chars().take(MAX_ID_CHARS + 1).collect() })
    }
}

/// Lists the folders in `folder` whose names have exactly this many digits.
fn folders(folder: &Path, digits: usize) -> impl Iterator<Item = PathBuf> {
    entries(folder)
        .filter(move |entry| {
            let name = entry.file_name();
            name.len() == digits
                && name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
        })
        .map(|entry| entry.path())
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok)
}

/// Returns the recording of a directory entry; `None` for other files.
fn recording(entry: &DirEntry) -> Option<StoredRecording> {
    let path = entry.path();
    id_of(&path)?;
    StoredRecording::read(path)
}

/// An error in preparing the path of a recording.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An invalid id.
    #[error("invalid recording id {id:?}: use 1 to {MAX_ID_CHARS} of A-Z, a-z, 0-9, '_' and '-'")]
    Id {
        /// The id, shortened.
        id: String,
    },
    /// A folder cannot be created.
    #[error("cannot create the folder {}: {source}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Returns the prefix length that distinguishes these ids. An id that is a prefix of another has to be given in full.
pub fn unique_prefix_len(ids: &[&str]) -> usize {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let common = |pair: &[&str]| pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
    sorted.windows(2).filter(|pair| pair[0] != pair[1]).map(common).max().unwrap_or_default() + 1
}

/// Suggests distinguishing prefixes to use instead of the ambiguous `wanted`.
pub fn suggest_ids(wanted: &str, ids: &[&str]) -> String {
    let chars = unique_prefix_len(ids);
    let begin = |id: &&str| format!("'{}'", id.chars().take(chars).collect::<String>());
    let prefixes: Vec<String> = ids.iter().take(MAX_SUGGESTED).map(begin).collect();
    let more = if ids.len() > MAX_SUGGESTED { ", …" } else { "" };
    let advice = match ids.iter().all(|id| id.starts_with(wanted)) {
        true => format!("give at least {chars} characters"),
        false => "use an id".to_string(),
    };
    format!("{advice}: {}{more}", prefixes.join(" or "))
}
