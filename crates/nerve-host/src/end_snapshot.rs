//! The snapshot taken at the end of a session, from which it can be continued later.
//!
//! The mark is part of the recording. The files are stored after the recording is complete, for a bounded time. If the
//! directory is too large or the disk too slow, only a note about it is kept next to the recording.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_record::files::{self, DEFAULT_LIMIT, FileStore, SnapshotKey, SnapshotRequest};
use nerve_record::snapshots::{self, SnapshotLine};
use nerve_types::TsNs;
use tokio::sync::oneshot;

use crate::HostSpec;
use crate::protocol::HostEvent;
use crate::pump::Pump;

/// Label of the snapshot, and its kind in the list of snapshots.
pub const END: &str = "end";
/// Time limit for storing the files. Clients that wait for the end of the session wait for this too.
const FILES_TIMEOUT: Duration = Duration::from_secs(8);
/// Time limit for removing an unfinished copy.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(4);

/// The snapshot of a session whose program has ended.
pub(super) struct PendingEndSnapshot {
    recording: PathBuf,
    session: String,
    cwd: Option<PathBuf>,
    store: Option<PathBuf>,
    id: u64,
    at: TsNs,
    anchor: u64,
}

impl PendingEndSnapshot {
    /// Plans the snapshot; `None` if none is wanted. `last`: the highest snapshot id in use.
    pub(super) fn plan(spec: &HostSpec, last: u64, at: TsNs, anchor: u64) -> Option<PendingEndSnapshot> {
        let (end, recording) = (spec.end.as_ref()?, spec.recording.clone()?);
        let listed = snapshots::read(&recording).unwrap_or_default();
        let last = listed.iter().map(|line| line.id).fold(last, u64::max);
        Some(PendingEndSnapshot {
            recording,
            session: spec.session_id.clone(),
            cwd: spec.cwd.clone(),
            store: end.files.clone(),
            id: last.saturating_add(1),
            at,
            anchor,
        })
    }

    /// Writes the mark into the recording.
    pub(super) fn record(&self, pump: &mut Pump) {
        pump.snapshot(self.at, self.id, END);
    }

    /// Returns the event for subscribed clients.
    pub(super) fn event(&self) -> HostEvent {
        HostEvent::Snapshot { at: self.at, id: self.id, anchor: self.anchor, label: END.to_string() }
    }

    /// Adds the snapshot to the list and stores the files. Returns the reason if the files could not be stored.
    pub(super) async fn store(self) -> Option<String> {
        self.store_within(FILES_TIMEOUT).await
    }

    async fn store_within(self, timeout: Duration) -> Option<String> {
        let (sender, mut result) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        // Not a runtime task: the runtime would wait for it at shutdown.
        let thread = std::thread::Builder::new().name("end-snapshot".into()).spawn(move || {
            let _ = sender.send(self.store_blocking(&stopped));
        });
        if let Err(error) = thread {
            return Some(format!("cannot start a thread: {error}"));
        }
        if let Ok(result) = tokio::time::timeout(timeout, &mut result).await {
            return result.ok()?.err();
        }
        stop.store(true, Ordering::Relaxed);
        // The thread removes its unfinished copy. If a hanging disk prevents that, the next session that ends does it.
        match tokio::time::timeout(CLEANUP_TIMEOUT, result).await {
            // The thread finished just in time.
            Ok(Ok(Ok(()))) => None,
            _ => Some(format!("keeping them took longer than {} s", timeout.as_secs())),
        }
    }

    fn store_blocking(&self, stop: &AtomicBool) -> Result<(), String> {
        let line = SnapshotLine {
            id: self.id,
            ts_ns: self.at.0,
            label: Some(END.to_string()),
            kind: END.to_string(),
            anchor_byte: self.anchor,
            files: None,
        };
        let list_error = |error: std::io::Error| format!("cannot write the list of snapshots: {error}");
        snapshots::append(&self.recording, &line).map_err(list_error)?;
        let (Some(store), Some(cwd)) = (&self.store, &self.cwd) else { return Ok(()) };
        let keep = || {
            let store = FileStore::new(store);
            store.sweep();
            let key = SnapshotKey::new(&self.session, self.id)?;
            let provider = files::choose(cwd, &store, DEFAULT_LIMIT)?;
            provider.take(&key, &SnapshotRequest { at: self.at, label: Some(END), stop: Some(stop) })
        };
        let copy = keep().map_err(|error: files::FilesError| error.to_string())?;
        snapshots::append(&self.recording, &SnapshotLine { files: Some(copy.files), ..line })
            .map_err(list_error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn snapshot(dir: &Path, work: PathBuf, store: &Path) -> PendingEndSnapshot {
        PendingEndSnapshot {
            recording: dir.join("s.ahr"),
            session: "s".into(),
            cwd: Some(work),
            store: Some(store.into()),
            id: 1,
            at: TsNs(1),
            anchor: 0,
        }
    }

    #[tokio::test]
    async fn slow_copy_leaves_a_note_and_no_partial_files() {
        let dir = tempfile::tempdir().unwrap();
        let [work, store] = ["work", "store"].map(|name| dir.path().join(name));
        std::fs::create_dir(&work).unwrap();
        for at in 0..2000 {
            std::fs::write(work.join(at.to_string()), "x").unwrap();
        }
        let snapshot = snapshot(dir.path(), work, &store);
        let note = snapshot.store_within(Duration::ZERO).await;
        assert_eq!(note.as_deref(), Some("keeping them took longer than 0 s"));
        assert!(!store.join("s/scratch").exists() && !store.join("s/1").exists());
        assert_eq!(snapshots::read(&dir.path().join("s.ahr")).unwrap().len(), 1);
    }

    #[tokio::test]
    async fn abandoned_copies_are_removed_unless_locked() {
        let dir = tempfile::tempdir().unwrap();
        let [work, store] = ["work", "store"].map(|name| dir.path().join(name));
        std::fs::create_dir(&work).unwrap();
        for session in ["left", "held"] {
            std::fs::create_dir_all(store.join(session).join("scratch/copy")).unwrap();
            std::fs::write(store.join(session).join("lock"), "").unwrap();
        }
        let held = std::fs::File::open(store.join("held/lock")).unwrap();
        held.lock().unwrap();
        let snapshot = snapshot(dir.path(), work, &store);
        assert_eq!(snapshot.store().await, None);
        assert!(!store.join("left/scratch").exists() && store.join("held/scratch/copy").exists());
        assert!(store.join("s/1").is_dir());
    }
}
