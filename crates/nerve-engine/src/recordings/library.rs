//! The library of recordings: lists and prunes it. All functions block and need no server: the engine and the command
//! line share them.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_api::reply::{PrunedRecording, RecordingInfo, RecordingsPruned};
use nerve_api::request::PruneRecordings;
use nerve_api::value::PruneReason;
use nerve_node::error::EngineError;
use nerve_record::library::{self, Reason, Retention, remove, select_expired};
use nerve_record::store::Store;
use nerve_types::TsNs;
use nerve_types::activity::TsMs;

use crate::branches::{BranchFolders, PruneOptions};
use crate::data_dirs::DataDirs;

/// Returns the recordings that were written last, newest first, at most `last`. Unreadable ones are skipped.
pub fn list_recordings(last: Option<usize>, dirs: &DataDirs) -> Vec<RecordingInfo> {
    let store = Store::new(&dirs.recordings);
    library::list(&store, last.unwrap_or(usize::MAX)).into_iter().map(info).collect()
}

/// Returns the time that is `age` ago.
pub(crate) fn before_now(age: Duration) -> TsNs {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TsNs::default() + now.saturating_sub(age)
}

fn info(recording: library::RecordingInfo) -> RecordingInfo {
    let time = |at: TsNs| TsMs::from(at).iso();
    RecordingInfo {
        recording_id: recording.id,
        path: recording.path.display().to_string(),
        written_at: recording.written.map(time),
        started_at: recording.started.map(time),
        duration_ms: recording.duration.map(nerve_types::millis),
        bytes: recording.bytes,
        cols: recording.size.map(|size| size.cols),
        rows: recording.size.map(|size| size.rows),
        command: recording.command,
        cwd: recording.cwd.map(|cwd| cwd.display().to_string()),
        node_id: recording.node,
        session_id: recording.session,
        server_name: recording.server,
        profile: recording.profile,
        conversation_id: recording.conversation_id,
        exit: recording.exit.map(Into::into),
        snapshots: recording.snapshots,
        live: recording.live,
        empty: recording.empty,
    }
}

/// Removes old recordings and the folders of branches that are no longer needed. Passes a warning for each recording that
/// is kept against the rules.
///
/// # Errors
/// InvalidRequest: no rule is given.
pub fn prune_recordings(
    request: &PruneRecordings,
    dirs: &DataDirs,
    warn: &mut dyn FnMut(String),
) -> Result<RecordingsPruned, EngineError> {
    let PruneRecordings { older_than, max_size, branches, force, dry_run } = *request;
    if older_than.is_none() && max_size.is_none() && !branches {
        return Err(EngineError::invalid_request("older_than, max_size or branches is required"));
    }
    let store = Store::new(&dirs.recordings);
    if !dry_run {
        store.sweep();
    }
    let all = library::list(&store, usize::MAX);
    let not_before = older_than.map(|age| before_now(age.duration()));
    let (mut removed, mut paths) = (Vec::new(), BTreeSet::new());
    for (info, reason) in select_expired(&all, Retention { not_before, bytes: max_size }) {
        let path = info.path.display();
        match if dry_run { Ok(true) } else { remove(&info.path) } {
            Ok(true) => {}
            Ok(false) => {
                warn(format!("{} kept: it is being recorded", info.id));
                continue;
            }
            Err(error) => {
                warn(format!("cannot remove {path}: {error}"));
                continue;
            }
        }
        paths.insert(info.path.clone());
        removed.push(PrunedRecording {
            recording_id: info.id.clone(),
            path: path.to_string(),
            bytes: info.bytes,
            reason: match reason {
                Reason::Age => PruneReason::Age,
                Reason::Bytes => PruneReason::Size,
            },
        });
    }
    Ok(RecordingsPruned {
        bytes: removed.iter().map(|recording| recording.bytes).sum(),
        removed,
        branches: BranchFolders::scan(dirs).prune(&paths, PruneOptions { all: branches, force, dry_run }),
        total: all.len() as u64,
        dry_run,
    })
}
