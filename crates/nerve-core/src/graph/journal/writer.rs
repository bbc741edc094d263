//! The thread that puts a run's facts on the disk. Whoever records a fact only fills a buffer.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::error::JournalError;
use super::record::{Fact, Unwritten};

/// A fact waits no longer than this for others to be written with it.
const LINGER: Duration = Duration::from_millis(1);
/// So much is written at once without waiting.
const FLUSH_BYTES: usize = 64 << 10;
/// Whoever records waits when so much is not written.
const FULL_BYTES: usize = 8 << 20;

/// The writing end of a journal. The last one that is dropped writes what is left and gives up the lock.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do for the thread.
    work: Condvar,
    /// The buffer has been taken, or never will be.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    /// When the first fact in the buffer was recorded.
    since: Option<Instant>,
    /// Bytes recorded so far, and how many of them somebody wants on the disk.
    recorded: u64,
    wanted: u64,
    fault: Option<String>,
    sealed: bool,
    closing: bool,
}

/// What the thread has done.
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
        let thread = Thread { shared: Arc::clone(&shared), file, path, progress: sender };
        let thread = thread::Builder::new().name("nerve-journal".to_string()).spawn(move || thread.run())?;
        Ok(Writer { shared, progress, thread: Some(thread) })
    }

    pub(super) fn record(&self, fact: &Fact<'_>) {
        let mut state = self.shared.lock();
        while state.buffer.len() >= FULL_BYTES && state.fault.is_none() {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.fault.is_some() || state.sealed {
            return;
        }
        let before = state.buffer.len();
        if let Err(reason) = fact.encode(&mut state.buffer) {
            state.refuse(reason);
        }
        let after = state.buffer.len();
        state.recorded += (after - before) as u64;
        // A wake-up is a system call: one for the first fact of a batch, one for a batch that is full.
        if before == 0 && after > 0 {
            state.since = Some(Instant::now());
            self.shared.work.notify_one();
        } else if before < FLUSH_BYTES && after >= FLUSH_BYTES {
            self.shared.work.notify_one();
        }
    }

    pub(super) fn seal(&self) {
        self.shared.lock().sealed = true;
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.shared.lock().sealed
    }

    pub(super) async fn settle(&self) -> Result<(), JournalError> {
        let mut progress = self.progress.clone();
        let recorded = self.want_synced(&progress);
        // It ends with an error when the thread is gone, which leaves a fault.
        let _ = progress.wait_for(|now| now.synced >= recorded || now.failed).await;
        self.fault().map_or(Ok(()), |fault| Err(JournalError::Fault(fault)))
    }

    /// Asks for all that is recorded to be put on the disk; returns how much that is.
    fn want_synced(&self, progress: &watch::Receiver<Progress>) -> u64 {
        let mut state = self.shared.lock();
        if progress.borrow().synced < state.recorded && state.wanted < state.recorded {
            state.wanted = state.recorded;
            self.shared.work.notify_one();
        }
        state.recorded
    }

    pub(super) fn fault(&self) -> Option<String> {
        self.shared.lock().fault.clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there is in the log already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What is in a state is right after each statement, so a panic elsewhere does not matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Nothing more is written: the facts before this one are a journal that can be resumed.
    fn refuse(&mut self, reason: Unwritten) {
        self.fault = Some(format!("a fact of the run cannot be written: {}", reason.why()));
    }

    fn has_work(&self, synced: u64) -> bool {
        self.closing || self.wanted > synced || self.buffer.len() >= FLUSH_BYTES
    }
}

struct Thread {
    shared: Arc<Shared>,
    file: File,
    path: PathBuf,
    progress: watch::Sender<Progress>,
}

/// What the thread is to do now.
struct Job {
    sync: bool,
    /// Bytes recorded up to the end of this job's buffer.
    recorded: u64,
    last: bool,
}

impl Thread {
    fn run(mut self) {
        let mut batch = Vec::new();
        let mut synced = 0;
        loop {
            let job = self.wait(&mut batch, synced);
            if let Err(error) = self.perform(&batch, job.sync) {
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

    /// Waits until there is something to do, and swaps the full buffer for an empty one.
    fn wait(&self, batch: &mut Vec<u8>, synced: u64) -> Job {
        let mut state = self.shared.lock();
        while !state.has_work(synced) {
            let left = state.since.map(|since| LINGER.saturating_sub(since.elapsed()));
            state = match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let woken = self.shared.work.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.shared.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        batch.clear();
        // After one huge fact.
        batch.shrink_to(FULL_BYTES);
        std::mem::swap(&mut state.buffer, batch);
        state.since = None;
        if batch.len() >= FULL_BYTES {
            self.shared.room.notify_all();
        }
        Job { sync: state.wanted > synced, recorded: state.recorded, last: state.closing }
    }

    fn perform(&mut self, batch: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(batch)?;
        if sync { self.file.sync_data() } else { Ok(()) }
    }

    fn fail(&self, error: &io::Error) {
        let fault = format!("the run's journal {} cannot be written: {error}", self.path.display());
        tracing::error!("{fault}");
        {
            let mut state = self.shared.lock();
            state.fault = Some(fault);
            state.buffer = Vec::new();
        }
        self.shared.room.notify_all();
        self.progress.send_modify(|progress| progress.failed = true);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Explicitly: a child that is just being started may hold a copy of the descriptor.
        let _ = self.file.unlock();
        let mut state = self.shared.lock();
        if !state.closing && state.fault.is_none() {
            state.fault = Some("the journal's thread is gone".to_string());
        }
        self.shared.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{FLUSH_BYTES, FULL_BYTES, Writer};
    use crate::graph::journal::{Fact, JournalError};
    use nerve_term::event::TsNs;
    use serde_json::{Value, json};
    use std::fs::{self, File, OpenOptions};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    fn writer(path: &Path) -> Writer {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Writer::start(file, path.into()).unwrap()
    }

    fn finished(value: &Value) -> Fact<'_> {
        Fact::Finished { at: TsNs(1), step: "a", key: 1, value, ms: 0, tokens: None }
    }

    fn until(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            assert!(Instant::now() < deadline, "not in time: {what}");
            std::thread::yield_now();
        }
    }

    fn lines(path: &Path) -> usize {
        fs::read(path).unwrap().iter().filter(|byte| **byte == b'\n').count()
    }

    #[test]
    fn facts_reach_the_file_by_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        for count in 1..4 {
            writer.record(&finished(&json!(count)));
            until("the fact is in the file", || lines(&path) == count);
        }
    }

    #[test]
    fn settled_facts_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            writer.settle().await.unwrap();
            for count in 1..20 {
                writer.record(&finished(&json!(null)));
                writer.settle().await.unwrap();
                assert_eq!(lines(&path), count);
                writer.settle().await.unwrap();
            }
        });
    }

    #[test]
    fn several_can_record_and_settle_at_once_and_nothing_is_lost() {
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
                            runtime.block_on(writer.settle()).unwrap();
                        }
                    }
                });
            }
        });
        drop(writer);
        assert_eq!(lines(&path), 2000);
    }

    #[test]
    fn recording_waits_for_room_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        let value = json!("x".repeat(FLUSH_BYTES));
        let count = 3 * FULL_BYTES / FLUSH_BYTES;
        for _ in 0..count {
            writer.record(&finished(&value));
            assert!(writer.shared.lock().buffer.len() < FULL_BYTES + 2 * FLUSH_BYTES);
        }
        drop(writer);
        assert_eq!(lines(&path), count);
    }

    /// Writing to /dev/full says that the disk is full.
    #[test]
    fn a_full_disk_is_said_and_stops_nobody() {
        let path = PathBuf::from("/dev/full");
        let writer = Writer::start(File::options().write(true).open(&path).unwrap(), path.clone()).unwrap();
        assert_eq!(writer.fault(), None);
        writer.record(&finished(&json!(1)));
        until("the fault is known", || writer.fault().is_some());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(writer.settle()).unwrap_err();
        assert!(matches!(error, JournalError::Fault(_)));
        assert!(error.to_string().contains("/dev/full cannot be written: No space left"), "{error}");
        // Twice as much as would make it wait.
        let value = json!("x".repeat(FULL_BYTES));
        writer.record(&finished(&value));
        writer.record(&finished(&value));
        assert!(writer.shared.lock().buffer.is_empty());
    }

    #[test]
    fn whoever_settles_hears_of_a_full_disk() {
        let path = PathBuf::from("/dev/full");
        let writer = Writer::start(File::options().write(true).open(&path).unwrap(), path.clone()).unwrap();
        writer.record(&finished(&json!(1)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(writer.settle()).is_err());
        assert!(runtime.block_on(writer.settle()).is_err());
    }

    #[test]
    fn a_fact_that_cannot_be_written_ends_the_journal_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let writer = writer(&path);
        writer.record(&finished(&json!(1)));
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        writer.record(&Fact::Resumed { at: TsNs(1), definition: Some(&deep) });
        writer.record(&finished(&json!(2)));
        assert!(writer.fault().unwrap().contains("120 levels"));
        drop(writer);
        assert_eq!(lines(&path), 1);
    }
}
