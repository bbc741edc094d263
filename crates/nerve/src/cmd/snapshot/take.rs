//! Taking a snapshot: its mark in the recording, then the files of the directory that it is of.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use nerve_record::files::{self, About, FilesError, Key, Taken};
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_record::ssz::snapshot::MAX_LABEL_IN_FRAME;
use nerve_term::event::TsNs;

use super::recorder::{ConfirmError, Confirmation};
use super::target::SnapshotTarget;
use super::{failed, file_store};
use crate::cli::snapshot::TakeArgs;
use crate::exit::{Failure, USAGE};

/// A snapshot that is in the recording.
#[derive(Debug)]
pub(crate) struct SnapshotOutcome {
    /// Its session, and its number there.
    pub(crate) key: Key,
    pub(super) confirmed: Confirmation,
    /// The files that are kept, if they were wanted; or why they are not.
    pub(crate) files: Result<Option<Taken>, Failure>,
    /// Why nobody who looks beside the recording learns of the files, in words.
    pub(crate) note_error: Option<String>,
}

/// Takes one. Blocks: files are copied, and `git` is run. `stop`: set by whoever does not wait for the files any longer.
///
/// # Errors
/// It is not in the recording, or nobody knows whether it is.
pub(crate) fn take_snapshot(args: &TakeArgs, stop: Option<&AtomicBool>) -> Result<SnapshotOutcome> {
    let SnapshotTarget { recorder, session, file: recording, dir } = SnapshotTarget::find(args)?;
    check_label(args.label.as_deref())?;
    Key::new(&session, 0).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let store = file_store();
    // Only looks: a directory that cannot be kept is told before anything is in the recording.
    let dir = args.dir.as_deref().or(dir.as_deref()).unwrap_or(Path::new("."));
    let provider = (!args.no_files).then(|| files::choose(dir, &store, args.limit.0)).transpose();
    let provider = provider.map_err(|error| failed(error, ""))?;
    let lines = recording.as_deref().map(snapshots::read).transpose().unwrap_or_default().unwrap_or_default();
    let used = lines.iter().map(|line| line.id);
    let id = match args.id {
        Some(id) => id,
        None => store.next_id(&session, used).map_err(|error| failed(error, "or give a number with --id"))?,
    };
    let key = Key::new(&session, id).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let confirmed =
        recorder.request_snapshot(id, args.label.as_deref(), args.timeout.0).map_err(|error| {
            if let (ConfirmError::NotRecorded(_), None) = (&error, args.id) {
                // Without it there is a gap in the numbers, and no more.
                let _ = store.take_back_id(&session, id);
            }
            error.failure()
        })?;
    let about = About { at: TsNs(confirmed.at_ns), label: args.label.as_deref(), stop };
    let files = provider.map(|provider| provider.take(&key, &about)).transpose();
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
        let message = format!("the label has {bytes} bytes, more than {MAX_LABEL_IN_FRAME}");
        return Err(Failure::new(USAGE, message)
            .hint("write what is long into a file of the work tree")
            .into());
    }
    Ok(())
}

/// Writes beside the recording how the files can be had; says why it cannot. What the recorder noted of the snapshot stays.
fn note(
    recording: &Path,
    label: &Option<String>,
    id: u64,
    confirmed: &Confirmation,
    taken: Option<&Taken>,
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
    // The files are kept, and found by session and number too.
    let error = snapshots::append(recording, &line).err()?;
    Some(format!("cannot note the files beside {}: {error}", recording.display()))
}

fn without_files(error: FilesError, id: u64, confirmed: &Confirmation) -> Failure {
    let failure = failed(error, "");
    let message = format!(
        "snapshot {id} is in the recording at byte {}, but without files: {}",
        confirmed.anchor, failure.message
    );
    Failure { message, ..failure }
}
