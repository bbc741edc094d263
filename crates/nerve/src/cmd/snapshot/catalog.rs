//! `nerve snapshot restore` and `list`. Snapshots are found in the list next to the recording and by the names of
//! their stored files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nerve_record::activity::TsMs;
use nerve_record::files::{self, FileStore, SnapshotKey};
use nerve_record::snapshots::{self, FilesRef};
use nerve_record::store::{self, Store, StoreError};
use nerve_server::paths::ServerPaths;
use nerve_types::TsNs;
use serde_json::{Value, json};

use super::{RECORDING, failed, file_store, files_json, this_session, variable};
use crate::cli::snapshot::{ListArgs, RestoreArgs, SnapshotSource};
use crate::exit::{FAILED, Failure, NOT_FOUND, USAGE};
use crate::out;

/// A known snapshot.
struct SnapshotEntry {
    session: String,
    id: u64,
    /// Nanoseconds since the Unix epoch, byte offset and label; `None` if the recording was not found.
    mark: Option<(u64, u64, Option<String>)>,
    files: Option<FilesRef>,
}

/// Restores the files of a snapshot.
pub(super) fn restore(args: RestoreArgs) -> Result<()> {
    let store = file_store();
    let entries = load_entries(&args.source, &store)?;
    let found: Vec<&SnapshotEntry> = entries.iter().filter(|entry| entry.id == args.id).collect();
    let (session, files) = match found[..] {
        [] => {
            let message = format!("no snapshot {}{}", args.id, of_session_text(&args.source));
            return Err(Failure::new(NOT_FOUND, message).hint("list them: nerve snapshot list").into());
        }
        [SnapshotEntry { session, files: Some(files), .. }] => (session, files),
        [_] => {
            let message = format!("snapshot {} has no stored files", args.id);
            return Err(Failure::new(NOT_FOUND, message).into());
        }
        _ => {
            let sessions: Vec<&str> = found.iter().map(|entry| &*entry.session).collect();
            let message = format!("snapshot {} is ambiguous: sessions {}", args.id, sessions.join(", "));
            return Err(Failure::new(USAGE, message).hint("select one with --session").into());
        }
    };
    let to = std::path::absolute(&args.to).with_context(|| format!("cannot find {}", args.to.display()))?;
    let (provider, key) = files::provider_of(files, &store).map_err(|error| failed(error, ""))?;
    let left_out = provider.restore(&key, &to).map_err(|error| failed(error, ""))?;
    if args.json {
        return out::json(&json!({
            "id": args.id, "session": session, "to": to, "files": files_json(files), "left_out": left_out,
        }));
    }
    for what in left_out {
        out::warning(format_args!("not restored: {what}"));
    }
    out::line(format_args!("snapshot {} restored to {}", args.id, to.display()))
}

/// Lists snapshots.
pub(super) fn list(args: ListArgs) -> Result<()> {
    let source = SnapshotSource { session: args.recording.or(args.source.session), dir: args.source.dir };
    let entries = load_entries(&source, &file_store())?;
    if args.json {
        return out::json(&entries.iter().map(SnapshotEntry::json).collect());
    }
    if entries.is_empty() {
        out::note(format_args!("no snapshots{}", of_session_text(&source)));
    }
    let rows: Vec<Vec<String>> = entries.iter().map(SnapshotEntry::row).collect();
    out::table(&["id", "session", "time", "byte", "files", "label"], &rows)
}

impl SnapshotEntry {
    fn json(&self) -> Value {
        let (ts_ns, anchor, label) = self
            .mark
            .clone()
            .map_or((None, None, None), |(ts_ns, anchor, label)| (Some(ts_ns), Some(anchor), label));
        json!({
            "id": self.id, "session": self.session, "ts_ns": ts_ns, "anchor_byte": anchor, "label": label,
            "files": self.files.as_ref().map(files_json),
        })
    }

    fn row(&self) -> Vec<String> {
        let dash = || "-".to_string();
        let (time, byte, label) = match &self.mark {
            Some((ts_ns, anchor, label)) => {
                (TsMs::from(TsNs(*ts_ns)).iso(), anchor.to_string(), label.clone().unwrap_or_default())
            }
            None => (dash(), dash(), String::new()),
        };
        let files = self.files.as_ref().map_or_else(dash, |files| files.provider.clone());
        vec![self.id.to_string(), self.session.clone(), time, byte, files, label]
    }
}

/// Lists the snapshots of the selected session: first those listed next to its recording, then those known only from
/// their files. Without a session, lists all snapshots with files here.
fn load_entries(source: &SnapshotSource, store: &FileStore) -> Result<Vec<SnapshotEntry>> {
    let recording = find_recording(source)?;
    let session = match &recording {
        Some(path) => store::id_of(path).map(str::to_string).or_else(this_session),
        None => source.session.clone().or_else(this_session),
    };
    let dir = source.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let mut entries = match &recording {
        Some(path) => read_entries(path, session.as_deref().unwrap_or_default(), source.dir.as_deref())?,
        None => Vec::new(),
    };
    // Files are stored under the session id; the recording's file may have another name.
    let mut names = vec![session.clone()];
    if recording.is_some() && source.session.is_none() {
        names.push(this_session());
    }
    for (key, files) in files::list_snapshots(&dir, store).map_err(|error| failed(error, ""))? {
        let is_selected = session.is_none() || names.iter().flatten().any(|name| name == key.session());
        let existing = entries.iter_mut().find(|entry| entry.id == key.id() && session.is_some());
        match existing {
            Some(existing) if is_selected => existing.files = existing.files.take().or(Some(files)),
            None if is_selected => entries.push(entry_from_files(&key, files)),
            _ => {}
        }
    }
    Ok(entries)
}

fn entry_from_files(key: &SnapshotKey, files: FilesRef) -> SnapshotEntry {
    SnapshotEntry { session: key.session().to_string(), id: key.id(), mark: None, files: Some(files) }
}

fn read_entries(recording: &Path, session: &str, moved_to: Option<&Path>) -> Result<Vec<SnapshotEntry>> {
    let lines = snapshots::read(recording)
        .with_context(|| format!("cannot read {}", snapshots::path_of(recording).display()))?;
    let entries = lines.into_iter().map(|line| SnapshotEntry {
        session: session.to_string(),
        id: line.id,
        mark: Some((line.ts_ns, line.anchor_byte, line.label)),
        files: line.files.map(|files| match moved_to {
            Some(dir) => FilesRef { source: dir.to_path_buf(), ..files },
            None => files,
        }),
    });
    Ok(entries.collect())
}

/// Finds the recording of the selected session; `None` without a recording or a session.
fn find_recording(source: &SnapshotSource) -> Result<Option<PathBuf>> {
    let Some(wanted) = source.session.clone().or_else(|| variable(RECORDING)).or_else(this_session) else {
        return Ok(None);
    };
    let is_path = wanted.contains('/') || Path::new(&wanted).extension().is_some();
    match Store::new(ServerPaths::from_env().state.join("recordings")).find(&wanted) {
        Ok(path) => Ok(Some(path)),
        // A session need not have a recording file.
        Err(StoreError::NotFound { .. } | StoreError::Id { .. }) if !is_path || source.session.is_none() => {
            Ok(None)
        }
        Err(error @ StoreError::NotFound { .. }) => Err(Failure::new(NOT_FOUND, error.to_string()).into()),
        Err(error @ (StoreError::Id { .. } | StoreError::Ambiguous { .. })) => {
            Err(Failure::new(USAGE, error.to_string()).into())
        }
        Err(error) => Err(Failure::new(FAILED, error.to_string()).into()),
    }
}

fn of_session_text(source: &SnapshotSource) -> String {
    let session = source.session.clone().or_else(this_session);
    session.map(|session| format!(" of session {session:?}")).unwrap_or_default()
}
