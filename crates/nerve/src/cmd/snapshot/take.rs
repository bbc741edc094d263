//! Takes a snapshot: marks the recording, then stores the files of the session's directory.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use nerve_record::files::{self, FileSnapshot, FilesError, SnapshotKey, SnapshotRequest};
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_record::ssz::snapshot::MAX_LABEL_IN_FRAME;
use nerve_types::TsNs;

use super::recorder::{ConfirmError, Confirmation};
use super::target::SnapshotTarget;
use super::{failed, file_store};
use crate::cli::snapshot::TakeArgs;
use crate::exit::{Failure, USAGE};

/// A snapshot that was marked in the recording.
#[derive(Debug)]
pub(crate) struct SnapshotOutcome {
    /// Session and number.
    pub(crate) key: SnapshotKey,
    pub(super) confirmed: Confirmation,
    /// The stored files, `None` with `--no-files`, or why storing failed.
    pub(crate) files: Result<Option<FileSnapshot>, Failure>,
    /// Reason why the files could not be listed next to the recording.
    pub(crate) note_error: Option<String>,
}

/// Takes a snapshot. Blocks: copies files and runs `git`. Setting `stop` cancels storing the files.
///
/// # Errors
/// The snapshot is not in the recording, or it is unknown whether it is.
pub(crate) fn take_snapshot(args: &TakeArgs, stop: Option<&AtomicBool>) -> Result<SnapshotOutcome> {
    let SnapshotTarget { recorder, session, file: recording, dir } = SnapshotTarget::find(args)?;
    check_label(args.label.as_deref())?;
    SnapshotKey::new(&session, 0).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let store = file_store();
    // Checks the directory before anything is written to the recording.
    let dir = args.dir.as_deref().or(dir.as_deref()).unwrap_or(Path::new("."));
    let provider = (!args.no_files).then(|| files::choose(dir, &store, args.limit.0)).transpose();
    let provider = provider.map_err(|error| failed(error, ""))?;
    let lines = recording.as_deref().map(snapshots::read).transpose().unwrap_or_default().unwrap_or_default();
    let used = lines.iter().map(|line| line.id);
    let id = match args.id {
        Some(id) => id,
        None => store.next_id(&session, used).map_err(|error| failed(error, "give a number with --id"))?,
    };
    let key = SnapshotKey::new(&session, id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let confirmed =
        recorder.request_snapshot(id, args.label.as_deref(), args.timeout.0).map_err(|error| {
            if let (ConfirmError::NotRecorded(_), None) = (&error, args.id) {
                // On failure the numbers only have a gap.
                let _ = store.release_id(&session, id);
            }
            error.failure()
        })?;
    let request = SnapshotRequest { at: TsNs(confirmed.at_ns), label: args.label.as_deref(), stop };
    let files = provider.map(|provider| provider.take(&key, &request)).transpose();
    let files = files.map_err(|error| without_files(error, id, &confirmed));
    let note_error = match (&recording, &files) {
        (Some(recording), Ok(taken)) => note(recording, &args.label, id, &confirmed, taken.as_ref()),
        _ => None,
    };
    Ok(SnapshotOutcome { key, confirmed, files, note_error })
}

fn check_label(label: Option<&str>) -> Result<()> {
    let bytes = label.map_or(0, str::len);
    if bytes > MAX_LABEL_IN_FRAME {
        let message = format!("label too long: {bytes} bytes exceed the limit of {MAX_LABEL_IN_FRAME}");
        return Err(Failure::new(USAGE, message).hint("put long texts into a file of the work tree").into());
    }
    Ok(())
}

/// Lists the stored files next to the recording. Keeps the recorder's own entry. Returns a message if it cannot.
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

fn without_files(error: FilesError, id: u64, confirmed: &Confirmation) -> Failure {
    let failure = failed(error, "");
    let message = format!(
        "snapshot {id} was recorded at byte {}, but without files: {}",
        confirmed.anchor, failure.message
    );
    Failure { message, ..failure }
}
