//! Takes snapshots that are requested in the viewer, one at a time, in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nerve_engine::snapshots::{SnapshotOptions, SnapshotOutcome, SnapshotTarget, take_snapshot};
use nerve_host::registry::Entry;
use nerve_node::error::EngineError;
use nerve_record::files::{FileSnapshot, FileStore};
use nerve_server::paths::ServerPaths;
use tokio::sync::mpsc;

use super::background_job::BackgroundJob;
use super::branch_job::one_line;
use crate::exit::Failure;
use crate::out;

/// Time limit for a cancelled snapshot to clean up.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// The message for a snapshot; `Err` if it failed or is incomplete.
pub(crate) type SnapshotResult = Result<String, String>;

/// The running snapshot, if any.
#[derive(Default)]
pub(crate) struct SnapshotJob {
    running: Option<BackgroundJob<SnapshotResult>>,
    /// Set to cancel the running snapshot.
    cancelled: Arc<AtomicBool>,
}

impl SnapshotJob {
    /// Starts to take a snapshot of the program in a host. Must be called on a runtime.
    ///
    /// # Errors
    /// Returns why no snapshot can be taken now.
    pub(crate) fn begin(&mut self, host: &Entry) -> Result<(), String> {
        if self.running.is_some() {
            return Err("a snapshot is being taken: wait for it".into());
        }
        let host = host.id.clone();
        let (sender, results) = mpsc::unbounded_channel();
        let cancelled = Arc::clone(&self.cancelled);
        // Runs on its own thread: the runtime would wait for its blocking threads at shutdown.
        let work = move || drop(sender.send(take(&host, &cancelled)));
        let begun = thread::Builder::new().name("snapshot".into()).spawn(work);
        begun.map_err(|error| format!("cannot take a snapshot: cannot start a thread: {error}"))?;
        let on_panic = || Err("the snapshot failed unexpectedly".into());
        let notice = "the snapshot is still being taken; Ctrl+C cancels it";
        self.running = Some(BackgroundJob::new(results, on_panic, notice));
        Ok(())
    }

    /// Returns the result of the running job; pending without one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> SnapshotResult {
        let Some(job) = &mut self.running else { return std::future::pending().await };
        let result = job.next().await;
        self.running = None;
        result
    }

    /// Waits for the running job after the viewer has closed, and prints the result. A signal cancels the job.
    pub(crate) async fn finish(self) {
        let Some(mut job) = self.running else { return };
        if let Some(result) = job.next_unless_stopped().await {
            return report(result);
        }
        self.cancelled.store(true, Ordering::Relaxed);
        match tokio::time::timeout(CLEANUP_TIMEOUT, job.next()).await {
            Ok(result) => report(result),
            Err(_) => out::warning("the snapshot was cancelled"),
        }
    }
}

fn report(result: SnapshotResult) {
    match result {
        Ok(result) => out::note(result),
        Err(reason) => out::warning(reason),
    }
}

fn take(host: &str, cancelled: &AtomicBool) -> SnapshotResult {
    let dirs = ServerPaths::from_env().data;
    let outcome = SnapshotTarget::find(&dirs.hosts, host).and_then(|target| {
        let store = FileStore::new(&dirs.snapshots);
        take_snapshot(target, &SnapshotOptions::default(), &store, Some(cancelled))
    });
    match outcome {
        Ok(SnapshotOutcome { key, files, note_error, .. }) => describe(key.id(), files, note_error),
        Err(error) => {
            let reason = one_line(for_key_binding(Failure::from(error)));
            Err(format!("the snapshot failed: {reason}"))
        }
    }
}

fn describe(
    id: u64,
    files: Result<Option<FileSnapshot>, EngineError>,
    note_error: Option<String>,
) -> SnapshotResult {
    let left_out = match files {
        Ok(snapshot) => snapshot.map(|snapshot| snapshot.left_out).unwrap_or_default(),
        Err(error) => return Err(one_line(for_key_binding(Failure::from(error)))),
    };
    let mut result = format!("snapshot {id} taken");
    if let Some(first) = left_out.first() {
        result.push_str(&format!("; {} files not stored: {first}", left_out.len()));
    }
    if let Some(error) = note_error {
        result.push_str(&format!("; {error}"));
    }
    Ok(result)
}

/// Prefixes hints about options with the command, because a key has no options.
fn for_key_binding(failure: Failure) -> Failure {
    let is_about_options = failure.hint.as_deref().is_some_and(|hint| hint.contains("--"));
    match failure.hint {
        Some(hint) if is_about_options => {
            Failure { hint: Some(format!("with 'nerve snapshot': {hint}")), ..failure }
        }
        hint => Failure { hint, ..failure },
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use nerve_record::snapshots::FilesRef;

    use super::*;

    #[test]
    fn result_is_one_line() {
        let files = FilesRef { provider: "git".into(), source: PathBuf::from("/w"), reference: "r".into() };
        let kept = |left_out: &[&str]| {
            let left_out = left_out.iter().map(ToString::to_string).collect();
            Ok(Some(FileSnapshot { files: files.clone(), left_out }))
        };
        let result = |files, unnoted: Option<&str>| describe(4, files, unnoted.map(str::to_string));
        assert_eq!(result(kept(&[]), None), Ok("snapshot 4 taken".into()));
        assert_eq!(
            result(kept(&["a: a socket", "b: a socket"]), Some("cannot note it")),
            Ok("snapshot 4 taken; 2 files not stored: a: a socket; cannot note it".into())
        );
        let error = EngineError::process("snapshot 4 is\n without files");
        assert_eq!(
            result(Err(error.hint("raise --limit")), None),
            Err("snapshot 4 is without files; with 'nerve snapshot': raise --limit".into())
        );
    }
}
