//! Finds recordings, and running sessions without one.

use std::io;
use std::path::{Path, PathBuf};

use nerve_host::registry::{Entry, entries};
use nerve_record::ahr::{AhrError, Part, Reader};
use nerve_record::library::is_live;
use nerve_record::store::{Store, StoreError, id_of, suggest_ids};

use nerve_node::error::{EngineError, ErrorKind};

/// Hint for an unknown recording.
const LIST_HINT: &str = "list the recordings: `LIST_RECORDINGS`";

/// Returns the newest recording below `root`.
///
/// # Errors
/// NotFound: there are no recordings.
pub fn newest(root: &Path) -> Result<PathBuf, EngineError> {
    Store::new(root).all().into_iter().next().ok_or_else(|| {
        EngineError::not_found(format!("no recordings in {}", root.display()))
            .hint("give a file, or record one: nerve record --out-file -- CMD")
    })
}

/// Finds a recording by file, id or unique id prefix. `root`: the directory of recordings.
///
/// # Errors
/// NotFound, InvalidRequest (ambiguous or no id).
pub fn find(root: &Path, name: &str) -> Result<PathBuf, EngineError> {
    Store::new(root).find(name).or_else(|error| {
        // A file with another extension, unless the name is an ambiguous id prefix.
        let file = PathBuf::from(name);
        if !matches!(error, StoreError::Ambiguous { .. }) && file.exists() {
            Ok(file)
        } else {
            Err(lookup_error(error))
        }
    })
}

/// Finds a recording by id or unique id prefix. `root`: the directory of recordings.
///
/// # Errors
/// See [`find`].
pub fn find_by_id(root: &Path, id: &str) -> Result<PathBuf, EngineError> {
    Store::new(root).find(id).map_err(lookup_error)
}

/// Finds a running session without a recording by its id, its host's, or a unique prefix of its id. Returns the path that
/// stands for its recording. `hosts`: the directory of their entries.
pub fn find_unrecorded(hosts: &Path, name: &str) -> Option<PathBuf> {
    let running = unrecorded(&entries(hosts));
    let is_it = |entry: &&Entry| entry.session_id == name || entry.id == name;
    let begins = |entry: &&Entry| !name.is_empty() && entry.session_id.starts_with(name);
    let exactly = running.iter().find(is_it);
    let found = exactly.or_else(|| {
        let mut found = running.iter().filter(begins);
        found.next().filter(|_| found.next().is_none())
    });
    found.and_then(|entry| entry.unrecorded.clone())
}

/// Returns the running sessions without a recording, newest first.
pub fn unrecorded(hosts: &[Entry]) -> Vec<Entry> {
    let runs = |entry: &&Entry| entry.unrecorded.is_some() && entry.is_alive();
    hosts.iter().rev().filter(runs).cloned().collect()
}

/// Checks that a file contains a recording or is being recorded. Without the check an empty or foreign file would look
/// like an empty session.
///
/// # Errors
/// NotFound; Process: the file is empty, unreadable, or contains no block of a recording.
pub fn check(recording: &Path) -> Result<(), EngineError> {
    let mut reader = Reader::open(recording).map_err(unreadable)?;
    let mut lost = None;
    loop {
        match reader.next().map_err(unreadable)? {
            Some(Part::Block(_)) => return Ok(()),
            Some(Part::Lost(stretch)) => lost = lost.or(Some(stretch)),
            None => break,
        }
    }
    let path = recording.display();
    let message = match lost {
        _ if is_live(recording) => return Ok(()),
        None => format!("recording {path} is empty"),
        Some(lost) if lost.tail => format!("recording {path} is unreadable: {}", lost.reason),
        Some(_) => format!("{path} is not a recording: it contains no block"),
    };
    Err(EngineError::process(message).hint(LIST_HINT))
}

/// Converts an error of reading a recording.
pub fn unreadable(error: AhrError) -> EngineError {
    let kind = match &error {
        AhrError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Process,
    };
    EngineError::new(kind, error.to_string())
}

fn lookup_error(error: StoreError) -> EngineError {
    let hint = match &error {
        StoreError::Ambiguous { what, paths } => {
            suggest_ids(what, &paths.iter().filter_map(|path| id_of(path)).collect::<Vec<_>>())
        }
        _ => LIST_HINT.to_string(),
    };
    EngineError::new(store_error_kind(&error), error.to_string()).hint(hint)
}

pub(crate) fn store_error_kind(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::NotFound { .. } => ErrorKind::NotFound,
        StoreError::Ambiguous { .. } | StoreError::Id { .. } => ErrorKind::InvalidRequest,
        StoreError::Io { .. } => ErrorKind::Process,
    }
}
