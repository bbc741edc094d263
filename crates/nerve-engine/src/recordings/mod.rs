//! Finds recordings, and running sessions without one.

mod final_rows;
pub mod library;

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nerve_api::reply::RecordingFile;
use nerve_api::request::GetRecordingFile;
use nerve_host::registry::{Entry, entries};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_record::ahr::{AhrError, Part, Reader};
use nerve_record::library::is_live;
use nerve_record::lookup::{Candidate, Finder, LookupError, Name, NodePath, is_path, select};
use nerve_record::recording_range::RecordingRange;
use nerve_record::store::{Store, id_of};
use nerve_types::TsNs;
use serde_json::Value;

pub use self::final_rows::final_rows;

use crate::data_dirs::DataDirs;
use crate::page::check_limit;

/// Maximum bytes of a range of a recording's file.
const MAX_RANGE: u64 = 1 << 20;
/// Bytes of a range without a limit.
const DEFAULT_RANGE: u64 = 256 << 10;
/// Hint for an unknown recording.
const LIST_HINT: &str = "list the recordings: `LIST_RECORDINGS`";

/// Returns the newest recording below `root`.
///
/// # Errors
/// NotFound: there are no recordings.
pub fn newest(root: &Path) -> Result<PathBuf, EngineError> {
    Store::new(root).all().into_iter().next().ok_or_else(|| {
        EngineError::not_found(format!("no recordings in {}", root.display()))
            .hint("give a file, or record one: nerve record -- CMD")
    })
}

/// Finds a recording: a file, or by its name, see [`nerve_record::lookup`].
///
/// # Errors
/// NotFound, InvalidRequest (ambiguous or invalid name, no recording).
pub fn find(dirs: &DataDirs, name: &str) -> Result<PathBuf, EngineError> {
    match find_session(dirs, name)? {
        Candidate { path: Some(path), is_recorded: true, .. } => Ok(path),
        Candidate { id, .. } => Err(EngineError::invalid_request(format!("session '{id}' is not recorded"))
            .hint(format!("show it while it runs: nerve attach {id}"))),
    }
}

/// Finds a recording like [`find`], or a session that runs without one.
///
/// # Errors
/// NotFound, InvalidRequest (ambiguous or invalid name).
pub fn find_session(dirs: &DataDirs, name: &str) -> Result<Candidate, EngineError> {
    let file = Path::new(name);
    if is_path(name) || (name.contains('/') && file.is_file()) {
        return find_file(dirs, file);
    }
    match find_named(dirs, name) {
        // A file with another extension, unless the name is ambiguous.
        Err(LookupError::NotFound { .. } | LookupError::Invalid { .. }) if file.is_file() => {
            find_file(dirs, file)
        }
        result => result.map_err(lookup_error),
    }
}

fn find_named(dirs: &DataDirs, name: &str) -> Result<Candidate, LookupError> {
    let name = Name::parse(name)?;
    // Nothing is left of a session that was not recorded and has ended.
    let has_data = |entry: &&Entry| entry.recording.is_some() || entry.is_alive();
    let sessions = entries(&dirs.hosts).iter().filter(has_data).map(candidate).collect();
    let store = Store::new(&dirs.recordings);
    Finder::new(&store, sessions).find(&name)
}

/// Describes the recording in a file. The session of a running host may have another id than its file.
fn find_file(dirs: &DataDirs, file: &Path) -> Result<Candidate, EngineError> {
    if !file.exists() {
        return Err(EngineError::not_found(format!("no recording '{}'", file.display())).hint(LIST_HINT));
    }
    let hosts = entries(&dirs.hosts);
    let running = hosts.iter().find(|entry| entry.belongs_to(file) && entry.is_alive());
    let described = running.map_or_else(|| Candidate::of_file(file), candidate);
    Ok(Candidate { path: Some(file.to_path_buf()), ..described })
}

/// Describes the session of a host. A tool has no node.
pub fn candidate(entry: &Entry) -> Candidate {
    let label = |key: &str| entry.label.get(key).and_then(Value::as_str);
    let started = TsNs(entry.started);
    Candidate {
        id: entry.session_id.clone(),
        host: Some(entry.id.clone()),
        node: label("node").map(|node| NodePath::new(label("session"), node)),
        written: entry
            .recording
            .as_deref()
            .and_then(|path| Candidate::of_file(path).written)
            .or(Some(started)),
        path: entry.session_file().map(Path::to_path_buf),
        is_recorded: entry.recording.is_some(),
    }
}

/// Finds the host that a name means among `hosts`. The hosts of other servers' nodes than `server`'s are found only by id.
///
/// # Errors
/// None or several match.
pub fn find_host<'a>(
    hosts: &[&'a Entry],
    name: &Name,
    server: Option<&str>,
) -> Result<&'a Entry, LookupError> {
    let describe = |entry: &'a Entry| {
        let is_other = server.is_some() && entry.label.get("server").and_then(Value::as_str) != server;
        let described = candidate(entry);
        (Candidate { node: described.node.filter(|_| !is_other), ..described }, entry)
    };
    let mut newest_first: Vec<(Candidate, &Entry)> = hosts.iter().map(|entry| describe(entry)).collect();
    newest_first.sort_by_key(|(candidate, _)| Reverse(candidate.written));
    let (candidates, entries): (Vec<Candidate>, Vec<&Entry>) = newest_first.into_iter().unzip();
    let selected = select(name, &candidates)?;
    let position = candidates.iter().position(|candidate| candidate == selected);
    Ok(entries[position.unwrap_or_default()])
}

/// Returns the running sessions without a recording, newest first.
pub fn unrecorded(hosts: &[Entry]) -> Vec<Entry> {
    let runs = |entry: &&Entry| entry.unrecorded.is_some() && entry.is_alive();
    hosts.iter().rev().filter(runs).cloned().collect()
}

/// Reads a range of a recording's file.
pub(crate) fn read_range(request: &GetRecordingFile, dirs: &DataDirs) -> Result<RecordingFile, EngineError> {
    let limit = request.limit.unwrap_or(DEFAULT_RANGE);
    check_limit(limit, 1..=MAX_RANGE)?;
    let path = find(dirs, &request.recording)?;
    let range = RecordingRange::read(&path, request.offset, limit)
        .map_err(|error| EngineError::process(format!("cannot read {}: {error}", path.display())))?;
    Ok(RecordingFile {
        recording_id: id_of(&path).unwrap_or_default().to_string(),
        file_bytes: range.file_len,
        offset: request.offset,
        data: BASE64_STANDARD.encode(range.bytes),
        checksum: range.checksum,
        live: range.is_live,
        metadata: range.metadata,
        snapshots: range.snapshots,
    })
}

/// Checks that a file contains a recording or is being recorded. Without the check an empty or foreign file would look
/// like an empty session.
///
/// # Errors
/// NotFound; Process: the file is empty, unreadable, or contains no block of a recording.
pub fn check(recording: &Path) -> Result<(), EngineError> {
    let mut reader = Reader::open(recording).map_err(unreadable_error)?;
    let mut lost = None;
    loop {
        match reader.next().map_err(unreadable_error)? {
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
pub fn unreadable_error(error: AhrError) -> EngineError {
    let kind = match &error {
        AhrError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Process,
    };
    EngineError::new(kind, error.to_string())
}

/// Converts the error of a lookup.
pub fn lookup_error(error: LookupError) -> EngineError {
    let kind = match &error {
        LookupError::NotFound { .. } | LookupError::TooFew { .. } => ErrorKind::NotFound,
        LookupError::Invalid { .. } | LookupError::Ambiguous { .. } => ErrorKind::InvalidRequest,
    };
    let hint = match (error.suggestion(), kind) {
        (Some(question), ErrorKind::NotFound) if question.ends_with('?') => format!("{question} {LIST_HINT}"),
        (Some(suggestion), ErrorKind::NotFound) => format!("{suggestion}; {LIST_HINT}"),
        (Some(suggestion), _) => suggestion,
        (None, _) => LIST_HINT.to_string(),
    };
    EngineError::new(kind, error.to_string()).hint(hint)
}
