//! Lists and restores snapshots. They are found in the list next to the recording and by the names of their stored
//! files.

use std::path::{Path, PathBuf};

use nerve_api::reply::{SnapshotFiles, SnapshotInfo, SnapshotRestored};
use nerve_node::error::{EngineError, ErrorKind};
use nerve_record::files::{self, FileStore, SnapshotKey};
use nerve_record::lookup::Candidate;
use nerve_record::meta::Meta;
use nerve_record::snapshots::FilesRef;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

use super::enclosing_session::EnclosingSession;
use super::{files_error, files_reply, read_lines};
use crate::data_dirs::DataDirs;
use crate::recordings;

/// Selects snapshots.
#[derive(Debug, Clone, Default)]
pub struct SnapshotQuery {
    /// Session: a name or a file, see [`recordings::find_session`]. Default: the enclosing session, else all snapshots with
    /// files.
    pub session: Option<String>,
    /// Git work tree to search. Default: where the snapshot was taken.
    pub dir: Option<PathBuf>,
    /// Directory of the caller. Its git work tree is searched if `dir` is not set. Default: the recorded directory.
    pub current_dir: Option<PathBuf>,
    /// The session that encloses the caller.
    pub enclosing: EnclosingSession,
}

/// A known snapshot.
struct SnapshotEntry {
    session: String,
    id: u64,
    /// Time, byte offset and label; `None` if the recording was not found.
    mark: Option<(TsNs, u64, Option<String>)>,
    files: Option<FilesRef>,
}

/// Restores the files of a snapshot to a directory that is empty or does not exist. Blocks.
///
/// # Errors
/// NotFound (no snapshot, no files), InvalidRequest (ambiguous, directory not empty), Process.
pub fn restore_snapshot(
    query: &SnapshotQuery,
    id: u64,
    to: &Path,
    dirs: &DataDirs,
) -> Result<SnapshotRestored, EngineError> {
    let store = FileStore::new(&dirs.snapshots);
    let entries = load_entries(query, &store, dirs)?;
    let matching: Vec<&SnapshotEntry> = entries.iter().filter(|entry| entry.id == id).collect();
    let (session, files) = match matching[..] {
        [] => {
            let message = format!("no snapshot {id}{}", query.session_suffix());
            return Err(EngineError::not_found(message).hint("list them: `LIST_SNAPSHOTS`"));
        }
        [SnapshotEntry { session, files: Some(files), .. }] => (session, files),
        [_] => {
            return Err(EngineError::not_found(format!("snapshot {id} has no stored files")));
        }
        _ => {
            let sessions: Vec<&str> = matching.iter().map(|entry| &*entry.session).collect();
            let message = format!("snapshot {id} is ambiguous: sessions {}", sessions.join(", "));
            return Err(EngineError::invalid_request(message).hint("select one with `recording`"));
        }
    };
    let (provider, key) = files::find_provider(files, &store).map_err(files_error)?;
    let left_out = provider.restore(&key, to).map_err(files_error)?;
    let (session, to) = (session.clone(), to.display().to_string());
    Ok(SnapshotRestored {
        snapshot_id: id,
        recording_id: session,
        to,
        files: stored_files_reply(files, &store),
        left_out,
    })
}

/// Lists the snapshots of the selected session: first those listed next to its recording, then those known only from
/// their files. Without a session, lists all snapshots with files. Blocks.
///
/// # Errors
/// NotFound (no recording), InvalidRequest (ambiguous or no id), Process.
pub fn list_snapshots(query: &SnapshotQuery, dirs: &DataDirs) -> Result<Vec<SnapshotInfo>, EngineError> {
    let store = FileStore::new(&dirs.snapshots);
    let entries = load_entries(query, &store, dirs)?;
    Ok(entries.into_iter().map(|entry| entry.into_reply(&store)).collect())
}

impl SnapshotEntry {
    fn into_reply(self, store: &FileStore) -> SnapshotInfo {
        let SnapshotEntry { session, id, mark, files } = self;
        let (at, anchor_byte, label) =
            mark.map_or((None, None, None), |(at, anchor, label)| (Some(at), Some(anchor), label));
        SnapshotInfo {
            snapshot_id: id,
            recording_id: session,
            taken_at: at.map(TsMs::from),
            anchor_byte,
            label,
            files: files.as_ref().map(|files| stored_files_reply(files, store)),
        }
    }
}

/// Converts a reference to files. The source of copies that are known only from the store is unknown.
fn stored_files_reply(files: &FilesRef, store: &FileStore) -> SnapshotFiles {
    let mut reply = files_reply(files);
    reply.source = reply.source.filter(|_| files.source != store.root());
    reply
}

impl SnapshotQuery {
    /// Returns ` of session "ID"`, or nothing.
    pub fn session_suffix(&self) -> String {
        let session = self.session.clone().or_else(|| self.enclosing.id());
        session.map(|session| format!(" of session {session:?}")).unwrap_or_default()
    }
}

fn load_entries(
    query: &SnapshotQuery,
    store: &FileStore,
    dirs: &DataDirs,
) -> Result<Vec<SnapshotEntry>, EngineError> {
    let enclosing = query.enclosing.id();
    let (recording, session, unknown) = match find_session(query, dirs) {
        Ok(Some(Candidate { id, path, .. })) => (path, Some(id), None),
        Ok(None) => (None, query.session.clone().or_else(|| enclosing.clone()), None),
        // The name can be a session of which only the files are left.
        Err(error) if error.kind == ErrorKind::NotFound => (None, query.session.clone(), Some(error)),
        Err(error) => return Err(error),
    };
    let recorded_dir = || Meta::load(recording.as_deref()?).ok()??.cwd.filter(|dir| dir.is_dir());
    let dir = query.dir.clone().or_else(|| query.current_dir.clone()).or_else(recorded_dir);
    // The root directory is usually no work tree: only copies are listed then.
    let dir = dir.unwrap_or_else(|| PathBuf::from("/"));
    let mut entries = match &recording {
        Some(path) => read_entries(path, session.as_deref().unwrap_or_default(), query.dir.as_deref())?,
        None => Vec::new(),
    };
    // Files are stored under the session id; the recording's file may have another name.
    let mut names = vec![session.clone()];
    if recording.is_some() && query.session.is_none() {
        names.push(enclosing);
    }
    for (key, files) in files::list_snapshots(&dir, store).map_err(files_error)? {
        let is_selected = session.is_none() || names.iter().flatten().any(|name| name == key.session());
        let existing = entries.iter_mut().find(|entry| entry.id == key.id() && session.is_some());
        match existing {
            Some(existing) if is_selected => existing.files = existing.files.take().or(Some(files)),
            None if is_selected => entries.push(entry_from_files(&key, files)),
            _ => {}
        }
    }
    for entry in &mut entries {
        entry.files = entry.files.take().filter(|files| files::is_kept(files, store));
    }
    unknown.filter(|_| entries.is_empty()).map_or(Ok(entries), Err)
}

fn entry_from_files(key: &SnapshotKey, files: FilesRef) -> SnapshotEntry {
    SnapshotEntry { session: key.session().to_string(), id: key.id(), mark: None, files: Some(files) }
}

fn read_entries(
    recording: &Path,
    session: &str,
    moved_to: Option<&Path>,
) -> Result<Vec<SnapshotEntry>, EngineError> {
    let lines = read_lines(recording)?;
    let entries = lines.into_iter().map(|line| SnapshotEntry {
        session: session.to_string(),
        id: line.id,
        mark: Some((TsNs(line.ts_ns), line.anchor_byte, line.label)),
        files: line.files.map(|files| match moved_to {
            Some(dir) => FilesRef { source: dir.to_path_buf(), ..files },
            None => files,
        }),
    });
    Ok(entries.collect())
}

/// Finds the selected session; `None` if none is selected, or the enclosing one has no list.
fn find_session(query: &SnapshotQuery, dirs: &DataDirs) -> Result<Option<Candidate>, EngineError> {
    if let Some(wanted) = &query.session {
        return recordings::find_session(dirs, wanted).map(Some);
    }
    let enclosing = query.enclosing.recording().map(str::to_string).or_else(|| query.enclosing.id());
    match enclosing.map(|enclosing| recordings::find_session(dirs, &enclosing)) {
        Some(Err(error)) if error.kind != ErrorKind::NotFound => Err(error),
        found => Ok(found.and_then(Result::ok)),
    }
}
