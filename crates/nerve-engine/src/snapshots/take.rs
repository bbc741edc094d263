//! Takes a snapshot: marks the recording, then stores the files of the session's directory.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nerve_api::reply::SnapshotTaken;
use nerve_node::error::EngineError;
use nerve_record::files::{
    self, DEFAULT_LIMIT, FileSnapshot, FileStore, FilesError, KeyError, SnapshotKey, SnapshotRequest,
};
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_types::{TsNs, text_limit};

use super::recorder::{ConfirmError, Confirmation};
use super::target::SnapshotTarget;
use super::{files_error, files_reply};

/// Time limit for the recorder's confirmation.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// Label.
    pub label: Option<String>,
    /// Number. Default: the next free one in the session.
    pub id: Option<u64>,
    /// Directory to store. Default: the target's directory.
    pub dir: Option<PathBuf>,
    /// Limit for the bytes to copy or to add to a git repository.
    pub limit: u64,
    /// Marks the recording without storing files.
    pub no_files: bool,
    /// Time limit for the recorder's confirmation.
    pub timeout: Duration,
}

impl Default for SnapshotOptions {
    fn default() -> SnapshotOptions {
        SnapshotOptions {
            label: None,
            id: None,
            dir: None,
            limit: DEFAULT_LIMIT,
            no_files: false,
            timeout: CONFIRM_TIMEOUT,
        }
    }
}

/// A snapshot that was marked in the recording.
#[derive(Debug)]
pub struct SnapshotOutcome {
    /// Session and number.
    pub key: SnapshotKey,
    /// Confirmation of the recorder.
    pub confirmed: Confirmation,
    /// The stored files, `None` if none were wanted, or why storing failed.
    pub files: Result<Option<FileSnapshot>, EngineError>,
    /// Reason why the files could not be listed next to the recording.
    pub note_error: Option<String>,
}

impl SnapshotOutcome {
    /// Converts the snapshot to a reply.
    ///
    /// # Errors
    /// The files could not be stored.
    pub fn into_reply(self, label: Option<String>) -> Result<SnapshotTaken, EngineError> {
        let taken = self.files?;
        Ok(SnapshotTaken {
            snapshot_id: self.key.id(),
            recording_id: self.key.session().to_string(),
            label,
            anchor_byte: self.confirmed.anchor,
            taken_at: TsNs(self.confirmed.at_ns).into(),
            files: taken.as_ref().map(|taken| files_reply(&taken.files)),
            left_out: taken.map(|taken| taken.left_out).unwrap_or_default(),
        })
    }
}

/// Takes a snapshot. Blocks: copies files and runs `git`. Setting `stop` cancels storing the files.
///
/// # Errors
/// The snapshot is not in the recording, or it is unknown whether it is.
pub fn take_snapshot(
    target: SnapshotTarget,
    options: &SnapshotOptions,
    store: &FileStore,
    stop: Option<&AtomicBool>,
) -> Result<SnapshotOutcome, EngineError> {
    let SnapshotTarget { recorder, session, file: recording, dir } = target;
    let SnapshotOptions { label, no_files, limit, timeout, .. } = options;
    let invalid_key = |error: KeyError| EngineError::invalid_request(error.to_string());
    check_label(label.as_deref())?;
    SnapshotKey::new(&session, 0).map_err(invalid_key)?;
    // Checks the directory before anything is written to the recording.
    let dir = options.dir.as_ref().or(dir.as_ref());
    let provider = match dir {
        _ if *no_files => None,
        Some(dir) => Some(files::choose(dir, store, *limit).map_err(files_error)?),
        None => {
            let message = format!("cannot store the files of session {session:?}: its directory is unknown");
            return Err(EngineError::invalid_request(message)
                .hint("choose a directory with `dir`, or use `no_files`"));
        }
    };
    let lines = recording.as_deref().map(snapshots::read).transpose().unwrap_or_default().unwrap_or_default();
    let used = lines.iter().map(|line| line.id);
    let id = match options.id {
        Some(id) => id,
        None => store.next_id(&session, used).map_err(|error| {
            let mut error = files_error(error);
            error.hint.get_or_insert_with(|| "give a number with `id`".to_string());
            error
        })?,
    };
    let key = SnapshotKey::new(&session, id).map_err(invalid_key)?;
    let confirmed = recorder.request_snapshot(id, label.as_deref(), *timeout).map_err(|error| {
        if let (ConfirmError::NotRecorded(_), None) = (&error, options.id) {
            // On failure the numbers only have a gap.
            let _ = store.release_id(&session, id);
        }
        error.into_error()
    })?;
    let request = SnapshotRequest { at: TsNs(confirmed.at_ns), label: label.as_deref(), stop };
    let files = provider.map(|provider| provider.take(&key, &request)).transpose();
    let files = files.map_err(|error| without_files_error(error, id, &confirmed));
    let note_error = match (&recording, &files) {
        (Some(recording), Ok(taken)) => note(recording, label, id, &confirmed, taken.as_ref()),
        _ => None,
    };
    Ok(SnapshotOutcome { key, confirmed, files, note_error })
}

fn check_label(label: Option<&str>) -> Result<(), EngineError> {
    text_limit::check_label(label.unwrap_or_default()).map_err(|error| {
        EngineError::invalid_request(error.to_string()).hint("put long texts into a file of the work tree")
    })
}

/// Lists the stored files next to the recording. Keeps the recorder's own entry. Returns a message if that fails.
fn note(
    recording: &Path,
    label: &Option<String>,
    id: u64,
    confirmed: &Confirmation,
    taken: Option<&FileSnapshot>,
) -> Option<String> {
    let noted = snapshots::read(recording).unwrap_or_default().into_iter().find(|line| line.id == id);
    if noted.is_some() && taken.is_none() {
        return None;
    }
    let line = SnapshotLine {
        id,
        ts_ns: confirmed.at_ns,
        label: label.clone(),
        kind: noted.map_or_else(|| "manual".to_string(), |line| line.kind),
        anchor_byte: confirmed.anchor,
        files: taken.map(|taken| taken.files.clone()),
    };
    // Not fatal: the files can also be found by session and number.
    let error = snapshots::append(recording, &line).err()?;
    Some(format!("cannot list the files next to {}: {error}", recording.display()))
}

fn without_files_error(error: FilesError, id: u64, confirmed: &Confirmation) -> EngineError {
    let failure = files_error(error);
    let message = format!(
        "snapshot {id} was recorded at byte {}, but without files: {}",
        confirmed.anchor, failure.message
    );
    EngineError { message, ..failure }
}
