//! Paths of recordings, `<root>/YYYY/MM/<id>.ahr`, and of their sidecars.

use std::fs::{self, DirBuilder, DirEntry};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nerve_types::TsNs;

/// File extension of recordings.
pub const EXTENSION: &str = "ahr";

/// Maximum characters of a recording's id.
pub const MAX_ID_CHARS: usize = 64;

/// Maximum number of candidates listed in an error.
const MAX_LISTED: usize = 8;
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
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|source| StoreError::Io { folder: folder.into(), source })?;
        }
        Ok(path)
    }

    /// Finds a recording by path, id, or unique prefix of an id. A path contains a `/` or ends in `.ahr`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Ambiguous`] with the candidates, [`StoreError::Id`] for anything else.
    pub fn find(&self, id_or_path: &str) -> Result<PathBuf, StoreError> {
        let path = Path::new(id_or_path);
        if id_or_path.contains('/') || path.extension().is_some_and(|extension| extension == EXTENSION) {
            return if path.is_file() {
                Ok(path.into())
            } else {
                Err(StoreError::NotFound { what: id_or_path.into(), root: None })
            };
        }
        check_id(id_or_path)?;
        let all = self.all();
        let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<&PathBuf> {
            all.iter().filter(|path| id_of(path).is_some_and(wanted)).collect()
        };
        let mut found = of(&|id| id == id_or_path);
        if found.is_empty() {
            found = of(&|id| id.starts_with(id_or_path));
        }
        match found[..] {
            [] => Err(StoreError::NotFound { what: id_or_path.into(), root: Some(self.root.clone()) }),
            [path] => Ok(path.clone()),
            _ => Err(StoreError::Ambiguous {
                what: id_or_path.into(),
                paths: found.into_iter().cloned().collect(),
            }),
        }
    }

    /// Lists all recordings, most recently modified first. Skips unreadable folders.
    pub fn all(&self) -> Vec<PathBuf> {
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for year in folders(&self.root, 4) {
            for month in folders(&year, 2) {
                found.extend(entries(&month).filter_map(|entry| recording(&entry)));
            }
        }
        found.sort_by(|one, other| other.cmp(one));
        found.into_iter().map(|(_, path)| path).collect()
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

/// Returns a recording and its modification time; `None` for other files.
fn recording(entry: &DirEntry) -> Option<(SystemTime, PathBuf)> {
    let path = entry.path();
    id_of(&path)?;
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    Some((metadata.modified().ok()?, path))
}

/// An error in finding a recording.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An invalid id.
    #[error("invalid recording id {id:?}: use 1 to {MAX_ID_CHARS} of A-Z, a-z, 0-9, '_' and '-'")]
    Id {
        /// The id, shortened.
        id: String,
    },
    /// No recording matches.
    #[error("no recording {what:?}{}", folder_suffix(.root.as_deref()))]
    NotFound {
        /// The id or path.
        what: String,
        /// The searched folder, for an id.
        root: Option<PathBuf>,
    },
    /// Several recordings match.
    #[error("{what:?} matches several recordings: {}", listing(paths))]
    Ambiguous {
        /// The id or prefix.
        what: String,
        /// The matching recordings, newest first.
        paths: Vec<PathBuf>,
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
    let named: Vec<String> = ids.iter().take(MAX_SUGGESTED).map(begin).collect();
    let more = if ids.len() > MAX_SUGGESTED { ", …" } else { "" };
    let how = match ids.iter().all(|id| id.starts_with(wanted)) {
        true => format!("give at least {chars} characters"),
        false => "use the host id".to_string(),
    };
    format!("{how}: {}{more}", named.join(" or "))
}

fn folder_suffix(root: Option<&Path>) -> String {
    root.map(|root| format!(" in {}", root.display())).unwrap_or_default()
}

fn listing(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().take(MAX_LISTED).map(|path| path.display().to_string()).collect();
    let more = match paths.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}
