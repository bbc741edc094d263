//! LIST_SNAPSHOTS, TAKE_SNAPSHOT and RESTORE_SNAPSHOT: snapshots of recorded sessions on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nerve_api::event::EventKind;
use nerve_api::reply::{SnapshotList, SnapshotRestored, SnapshotTaken};
use nerve_api::request::{ListSnapshots, NodeRef, RestoreSnapshot, TakeSnapshot};
use nerve_host::registry::entry;
use nerve_node::error::{EngineError, ErrorKind};
use nerve_record::files::{DEFAULT_LIMIT, FileStore};
use nerve_record::lookup::is_path;

use super::context::RequestContext;
use super::file_job::absolute_path;
use crate::engine::Engine;
use crate::snapshots::{
    SnapshotOptions, SnapshotOutcome, SnapshotQuery, SnapshotTarget, list_snapshots, restore_snapshot,
    take_snapshot,
};

/// Default maximum number of listed snapshots.
const DEFAULT_LAST: usize = 1000;

/// Minimum time for the files of a snapshot. git may hang, for example on a network file system, and other requests wait for it.
const MIN_TIME: Duration = Duration::from_mins(10);
/// Bytes of the limit of a snapshot for which it gets another second.
const BYTES_PER_SECOND: u64 = 16 << 20;

/// Selects a recorded session, by its node or its recording.
pub(super) enum SessionSelector {
    Node(NodeRef),
    /// A name of a recording or session, or an absolute path.
    Named(String),
}

impl SessionSelector {
    /// Reads the parameters `node_id`, `session_id` and `recording`.
    ///
    /// # Errors
    /// InvalidRequest: both a node and a recording, or a relative path.
    pub(super) fn parse(
        node: Option<String>,
        session: Option<String>,
        recording: Option<String>,
    ) -> Result<Option<SessionSelector>, EngineError> {
        match (node, recording) {
            (Some(_), Some(_)) => {
                Err(EngineError::invalid_request("node_id and recording: only one of them can be given"))
            }
            (Some(node), None) => Ok(Some(SessionSelector::Node(NodeRef::new(node, session)))),
            (None, Some(name)) => {
                if is_path(&name) {
                    absolute_path("recording", &name)?;
                }
                Ok(Some(SessionSelector::Named(name)))
            }
            (None, None) => Ok(None),
        }
    }
}

impl Engine {
    /// Lists the snapshots of a recorded session.
    ///
    /// # Errors
    /// NotFound (no node, no recording), InvalidRequest, Process.
    pub async fn list_snapshots(
        &self,
        request: ListSnapshots,
        _: RequestContext,
    ) -> Result<SnapshotList, EngineError> {
        let ListSnapshots { node_id, session_id, recording, dir, last } = request;
        let query = self.snapshot_query(SessionSelector::parse(node_id, session_id, recording)?, dir)?;
        let mut snapshots = self.file_job(move |dirs| list_snapshots(&query, dirs)).await?;
        let excess = snapshots.len().saturating_sub(last.unwrap_or(DEFAULT_LAST));
        snapshots.drain(..excess);
        Ok(SnapshotList { snapshots })
    }

    /// Takes a snapshot of a running recorded session. The snapshot is completed even if the future is dropped.
    ///
    /// # Errors
    /// NotFound (no node, no running session), InvalidRequest, AlreadyExists, Timeout, Process.
    pub async fn take_snapshot(
        &self,
        request: TakeSnapshot,
        context: RequestContext,
    ) -> Result<SnapshotTaken, EngineError> {
        let TakeSnapshot {
            node_id,
            session_id,
            recording,
            label,
            snapshot_id,
            dir,
            limit,
            no_files,
            timeout,
        } = request;
        let Some(selector) = SessionSelector::parse(node_id, session_id, recording)? else {
            return Err(EngineError::invalid_request("node_id or recording is required"));
        };
        let options = SnapshotOptions {
            label,
            id: snapshot_id,
            dir: dir.map(|dir| absolute_path("dir", &dir)).transpose()?,
            limit: limit.unwrap_or(DEFAULT_LIMIT),
            no_files,
            timeout: timeout.map_or(SnapshotOptions::default().timeout, |timeout| timeout.duration()),
        };
        let label = options.label.clone();
        let outcome = self.snapshot_session(selector, options).await?;
        outcome.note_error.iter().for_each(|warning| context.warnings.add(warning.clone()));
        outcome.into_reply(label)
    }

    /// Restores the files of a snapshot. They are complete even if the future is dropped.
    ///
    /// # Errors
    /// NotFound (no node, no recording, no snapshot), InvalidRequest, Process.
    pub async fn restore_snapshot(
        &self,
        request: RestoreSnapshot,
        _: RequestContext,
    ) -> Result<SnapshotRestored, EngineError> {
        let RestoreSnapshot { snapshot_id: id, to, node_id, session_id, recording, dir } = request;
        let to = absolute_path("to", &to)?;
        let query = self.snapshot_query(SessionSelector::parse(node_id, session_id, recording)?, dir)?;
        self.file_job(move |dirs| restore_snapshot(&query, id, &to, dirs)).await
    }

    /// Takes a snapshot and publishes its event.
    pub(super) async fn snapshot_session(
        &self,
        selector: SessionSelector,
        options: SnapshotOptions,
    ) -> Result<SnapshotOutcome, EngineError> {
        let (node, host) = match &selector {
            SessionSelector::Node(at) => (Some(at.with_session()), Some(self.host_id(at)?)),
            SessionSelector::Named(_) => (None, None),
        };
        let engine = self.clone();
        self.file_job(move |dirs| {
            let target = match (selector, host) {
                (SessionSelector::Node(at), host) => {
                    let entry = host.and_then(|id| entry(&dirs.hosts, &id)).filter(|entry| entry.is_alive());
                    SnapshotTarget::from_host(&entry.ok_or_else(|| not_recorded_error(&at))?)
                }
                (SessionSelector::Named(name), _) => SnapshotTarget::find(&dirs.hosts, &name)?,
            };
            let (limit, store) = (time_limit(options.limit), FileStore::new(&dirs.snapshots));
            let stop = Arc::new(AtomicBool::new(false));
            let mut outcome =
                stop_after(limit, &stop, || take_snapshot(target, &options, &store, Some(&stop)))?;
            if stop.load(Ordering::Relaxed) {
                outcome.files = outcome.files.map_err(|error| time_limit_error(&error, limit));
            }
            let event = EventKind::SnapshotTaken {
                snapshot_id: outcome.key.id(),
                recording_id: outcome.key.session().to_string(),
                anchor_byte: outcome.confirmed.anchor,
                label: options.label.clone(),
                has_files: matches!(outcome.files, Ok(Some(_))),
            };
            engine.inner.events.publish(node.as_ref(), event);
            Ok(outcome)
        })
        .await
    }

    /// Returns the recording of a node, or the id of its session if it is not recorded.
    pub(super) fn recording_name(&self, at: &NodeRef) -> Result<String, EngineError> {
        let metadata = self.node(at)?.info().metadata;
        let of_host = || {
            let dirs = self.inner.data_dirs.as_ref()?;
            Some(entry(&dirs.hosts, metadata.known_text("host_id")?)?.session_id)
        };
        metadata
            .known_text("recording_path")
            .map(str::to_string)
            .or_else(of_host)
            .ok_or_else(|| not_recorded_error(at))
    }

    fn host_id(&self, at: &NodeRef) -> Result<String, EngineError> {
        let metadata = self.node(at)?.info().metadata;
        metadata.known_text("host_id").map(str::to_string).ok_or_else(|| not_recorded_error(at))
    }

    fn snapshot_query(
        &self,
        selector: Option<SessionSelector>,
        dir: Option<String>,
    ) -> Result<SnapshotQuery, EngineError> {
        let session = match selector {
            None => None,
            Some(SessionSelector::Node(at)) => Some(self.recording_name(&at)?),
            Some(SessionSelector::Named(name)) => Some(name),
        };
        let dir = dir.map(|dir| absolute_path("dir", &dir)).transpose()?;
        Ok(SnapshotQuery { session, dir, ..SnapshotQuery::default() })
    }
}

/// Returns the time limit of a snapshot with this limit in bytes.
fn time_limit(bytes: u64) -> Duration {
    MIN_TIME.saturating_add(Duration::from_secs(bytes / BYTES_PER_SECOND))
}

/// Runs `work` on this thread of the runtime, and sets `stop` when the time is over.
fn stop_after<T>(limit: Duration, stop: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let stop = Arc::clone(stop);
    let timer = tokio::spawn(async move {
        tokio::time::sleep(limit).await;
        stop.store(true, Ordering::Relaxed);
    });
    let result = work();
    timer.abort();
    result
}

fn time_limit_error(error: &EngineError, limit: Duration) -> EngineError {
    let message = format!("{}; the time limit is {} s", error.message, limit.as_secs());
    EngineError::new(ErrorKind::Timeout, message)
        .hint("check that 'git status' ends in that directory, or use `no_files`")
}

fn not_recorded_error(at: &NodeRef) -> EngineError {
    EngineError::invalid_request(format!("node '{}' has no recording and no host", at.node))
        .hint("snapshots need a recorded terminal: a node of kind 'pty' on a server, or 'nerve record'")
}

#[cfg(test)]
mod tests {
    use nerve_testkit::{DEADLINE, wait_until};

    use super::*;

    #[tokio::test]
    async fn hanging_work_is_stopped() {
        let stop = Arc::new(AtomicBool::new(false));
        let is_set = |stop: &AtomicBool| stop.load(Ordering::Relaxed);
        let work = move || stop_after(Duration::ZERO, &stop, || wait_until(DEADLINE, || is_set(&stop)));
        assert!(tokio::task::spawn_blocking(work).await.unwrap());
        assert_eq!(time_limit(DEFAULT_LIMIT), Duration::from_secs(600 + 64));
        assert!(time_limit(u64::MAX) > time_limit(DEFAULT_LIMIT));
    }
}
