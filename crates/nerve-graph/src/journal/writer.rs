//! The thread that writes a run's records to disk. Callers only fill a buffer.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::error::JournalError;
use super::record::{EncodeError, JournalRecord};

/// Maximum time a record waits to be written together with others.
const MAX_BATCH_DELAY: Duration = Duration::from_millis(1);
/// Buffer size that triggers a write without delay.
const FLUSH_BYTES: usize = 64 << 10;
/// Buffer size that blocks callers.
const MAX_BUFFER_BYTES: usize = 8 << 20;

/// The write end of a journal. Dropping it writes the rest of the buffer and releases the lock.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signals the thread that there is work.
    work: Condvar,
    /// Signals callers that the buffer was taken, or that writing has stopped.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    /// Time of the first record in the buffer.
    since: Option<Instant>,
    /// Bytes recorded so far, and how many of them must be synced.
    recorded: u64,
    sync_requested: u64,
    fault: Option<String>,
    sealed: bool,
    closing: bool,
}

/// Progress of the thread.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    synced: u64,
    failed: bool,
}

impl Writer {
    /// Starts the thread. The caller has locked the file.
    pub(super) fn start(file: File, path: PathBuf) -> io::Result<Writer> {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new(), room: Condvar::new() });
        let (sender, progress) = watch::channel(Progress::default());
        let thread = WriterThread { shared: Arc::clone(&shared), file, path, progress: sender };
        let thread = thread::Builder::new().name("nerve-journal".to_string()).spawn(move || thread.run())?;
        Ok(Writer { shared, progress, thread: Some(thread) })
    }

    pub(super) fn record(&self, record: &JournalRecord<'_>) {
        let mut state = self.shared.state.lock();
        while state.buffer.len() >= MAX_BUFFER_BYTES && state.fault.is_none() {
            self.shared.room.wait(&mut state);
        }
        if state.fault.is_some() || state.sealed {
            return;
        }
        let before = state.buffer.len();
        if let Err(reason) = record.encode(&mut state.buffer) {
            state.refuse(reason);
        }
        let after = state.buffer.len();
        state.recorded += (after - before) as u64;
        // Waking the thread is a system call: only the first record of a batch and a full batch do so.
        if before == 0 && after > 0 {
            state.since = Some(Instant::now());
            self.shared.work.notify_one();
        } else if before < FLUSH_BYTES && after >= FLUSH_BYTES {
            self.shared.work.notify_one();
        }
    }

    pub(super) fn seal(&self) {
        self.shared.state.lock().sealed = true;
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.shared.state.lock().sealed
    }

    pub(super) async fn flush(&self) -> Result<(), JournalError> {
        let mut progress = self.progress.clone();
        let recorded = self.request_sync(&progress);
        // Fails if the thread is gone, which leaves a fault.
        let _ = progress.wait_for(|now| now.synced >= recorded || now.failed).await;
        self.fault().map_or(Ok(()), |fault| Err(JournalError::Fault(fault)))
    }

    /// Requests a sync of all records so far; returns their number of bytes.
    fn request_sync(&self, progress: &watch::Receiver<Progress>) -> u64 {
        let mut state = self.shared.state.lock();
        if progress.borrow().synced < state.recorded && state.sync_requested < state.recorded {
            state.sync_requested = state.recorded;
            self.shared.work.notify_one();
        }
        state.recorded
    }

    pub(super) fn fault(&self) -> Option<String> {
        self.shared.state.lock().fault.clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // The panic has been logged.
            let _ = thread.join();
        }
    }
}

impl State {
    /// Stops writing: the records before this one form a journal that can be resumed.
    fn refuse(&mut self, reason: EncodeError) {
        self.fault = Some(format!("cannot write a record of the run: {}", reason.message()));
    }

    fn has_work(&self, synced: u64) -> bool {
        self.closing || self.sync_requested > synced || self.buffer.len() >= FLUSH_BYTES
    }
}

struct WriterThread {
    shared: Arc<Shared>,
    file: File,
    path: PathBuf,
    progress: watch::Sender<Progress>,
}

/// The next job of the thread.
struct Job {
    sync: bool,
    /// Bytes recorded up to the end of this job's buffer.
    recorded: u64,
    last: bool,
}

impl WriterThread {
    fn run(mut self) {
        let mut batch = Vec::new();
        let mut synced = 0;
        loop {
            let job = self.next_job(&mut batch, synced);
            if let Err(error) = self.write_batch(&batch, job.sync) {
                self.fail(&error);
                break;
            }
            if job.sync {
                synced = job.recorded;
                self.progress.send_modify(|progress| progress.synced = synced);
            }
            if job.last {
                break;
            }
        }
    }

    /// Waits for work, and swaps the filled buffer for an empty one.
    fn next_job(&self, batch: &mut Vec<u8>, synced: u64) -> Job {
        let mut state = self.shared.state.lock();
        while !state.has_work(synced) {
            let remaining = state.since.map(|since| MAX_BATCH_DELAY.saturating_sub(since.elapsed()));
            match remaining {
                Some(Duration::ZERO) => break,
                Some(remaining) => {
                    self.shared.work.wait_for(&mut state, remaining);
                }
                None => self.shared.work.wait(&mut state),
            }
        }
        batch.clear();
        // Frees the memory of a huge record.
        batch.shrink_to(MAX_BUFFER_BYTES);
        std::mem::swap(&mut state.buffer, batch);
        state.since = None;
        if batch.len() >= MAX_BUFFER_BYTES {
            self.shared.room.notify_all();
        }
        Job { sync: state.sync_requested > synced, recorded: state.recorded, last: state.closing }
    }

    fn write_batch(&mut self, batch: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(batch)?;
        if sync { self.file.sync_data() } else { Ok(()) }
    }

    fn fail(&self, error: &io::Error) {
        let fault = format!("cannot write the run's journal {}: {error}", self.path.display());
        tracing::error!("{fault}");
        {
            let mut state = self.shared.state.lock();
            state.fault = Some(fault);
            state.buffer = Vec::new();
        }
        self.shared.room.notify_all();
        self.progress.send_modify(|progress| progress.failed = true);
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // Explicitly: a child process being started may hold a copy of the descriptor.
        let _ = self.file.unlock();
        let mut state = self.shared.state.lock();
        if !state.closing && state.fault.is_none() {
            state.fault = Some("the journal's writer thread is gone".to_string());
        }
        self.shared.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{FLUSH_BYTES, MAX_BUFFER_BYTES, Writer};
    use crate::journal::{JournalError, JournalRecord};
    use nerve_types::TsNs;
    use serde_json::{Value, json};
    use std::fs::{self, File, OpenOptions};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    fn writer(path: &Path) -> Writer {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Writer::start(file, path.into()).unwrap()
    }

    fn finished(value: &Value) -> JournalRecord<'_> {
        JournalRecord::Finished { at: TsNs(1), step: "a", key: 1, value, ms: 0, tokens: None }
    }

    fn until(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            assert!(Instant::now() < deadline, "timed out: {what}");
            std::thread::yield_now();
        }
    }

    fn lines(path: &Path) -> usize {
        fs::read(path).unwrap().iter().filter(|byte| **byte == b'\n').count()
    }

    #[test]
    fn records_reach_file_without_flush() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        for count in 1..4 {
            writer.record(&finished(&json!(count)));
            until("the record is in the file", || lines(&path) == count);
        }
    }

    #[test]
    fn flushed_records_are_in_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            writer.flush().await.unwrap();
            for count in 1..20 {
                writer.record(&finished(&json!(null)));
                writer.flush().await.unwrap();
                assert_eq!(lines(&path), count);
                writer.flush().await.unwrap();
            }
        });
    }

    #[test]
    fn concurrent_records_are_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    for count in 0..500 {
                        writer.record(&finished(&json!("x".repeat(count))));
                        if count % 50 == 0 {
                            runtime.block_on(writer.flush()).unwrap();
                        }
                    }
                });
            }
        });
        drop(writer);
        assert_eq!(lines(&path), 2000);
    }

    #[test]
    fn full_buffer_blocks_until_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        let value = json!("x".repeat(FLUSH_BYTES));
        let count = 3 * MAX_BUFFER_BYTES / FLUSH_BYTES;
        for _ in 0..count {
            writer.record(&finished(&value));
            assert!(writer.shared.state.lock().buffer.len() < MAX_BUFFER_BYTES + 2 * FLUSH_BYTES);
        }
        drop(writer);
        assert_eq!(lines(&path), count);
    }

    /// Writing to /dev/full fails with "no space left on device".
    #[test]
    fn full_disk_sets_fault_and_does_not_block() {
        let path = PathBuf::from("/dev/full");
        let writer = Writer::start(File::options().write(true).open(&path).unwrap(), path.clone()).unwrap();
        assert_eq!(writer.fault(), None);
        writer.record(&finished(&json!(1)));
        until("the fault is set", || writer.fault().is_some());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(writer.flush()).unwrap_err();
        assert!(matches!(error, JournalError::Fault(_)));
        assert!(error.to_string().contains("journal /dev/full: No space left"), "{error}");
        // Twice the size that blocks callers.
        let value = json!("x".repeat(MAX_BUFFER_BYTES));
        writer.record(&finished(&value));
        writer.record(&finished(&value));
        assert!(writer.shared.state.lock().buffer.is_empty());
    }

    #[test]
    fn flush_reports_full_disk() {
        let path = PathBuf::from("/dev/full");
        let writer = Writer::start(File::options().write(true).open(&path).unwrap(), path.clone()).unwrap();
        writer.record(&finished(&json!(1)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(writer.flush()).is_err());
        assert!(runtime.block_on(writer.flush()).is_err());
    }

    #[test]
    fn rejected_record_ends_journal_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        writer.record(&finished(&json!(1)));
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        writer.record(&JournalRecord::Resumed { at: TsNs(1), definition: Some(&deep) });
        writer.record(&finished(&json!(2)));
        assert!(writer.fault().unwrap().contains("120 levels"));
        drop(writer);
        assert_eq!(lines(&path), 1);
    }
}
