//! Writes a terminal's recording. Events are collected under a lock; a separate thread compresses and writes them.
//!
//! The byte path costs one copy and never waits. Events are on disk within [`ROTATE_AFTER`]. If the disk is slower than the
//! child, the reader of the child waits for [room](Flusher::room). A disk that hangs for 10 s ends the recording, not
//! the session. A full disk, which refuses blocks, interrupts the recording: up to 4 MiB of output are kept in memory and
//! written when the disk takes blocks again. Further output is dropped, with a gap mark.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nerve_record::ahr::{
    AhrError, Body, DEFAULT_QUALITY, Mark, ROTATE_AFTER, Record, RecordError, Sealer, Segment, Writer,
};
use nerve_types::{Event, EventKind, Size, TsNs, os};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use crate::live_index::LiveIndex;
use crate::tap::Tap;

/// Part of [`ROTATE_AFTER`] that is reserved for compressing and writing.
const WRITE_MARGIN: Duration = Duration::from_millis(50);
/// Full segments that may wait for the disk before the child is no longer read: 4 MiB.
const MAX_WAITING: usize = 16;
/// Full segments that a reader may queue without waiting for room.
const MAX_QUEUED: usize = 4 * MAX_WAITING;
/// Number of waiting full segments from which on the fast quality is used.
const FAST_FROM: usize = 2;
/// Brotli quality while the thread is behind: almost as fast as 0, and 13 % smaller.
const FAST_QUALITY: u8 = 1;
/// Brotli quality of full segments: two thirds of the time of [`DEFAULT_QUALITY`], for 7 % more bytes.
const FLOOD_QUALITY: u8 = 3;
/// Reason of a gap: output was missed while no server was attached.
const REATTACHED: u32 = 1;
/// Reason of a gap: the disk was full.
const DISK_FULL: u32 = 3;
/// Time between attempts to write to a disk that refused a block.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a queue that stays full ends the recording.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// The write end of a recording, as a tap.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

/// Flushes a recording to disk. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Flusher {
    shared: Arc<Shared>,
}

/// The state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Output bytes in the file.
    pub off: u64,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    /// Signals work for the thread.
    work: Condvar,
    /// Signals that the thread has written something.
    room: Notify,
    /// Signals the end of the thread.
    over: Condvar,
    /// Signals notices.
    notice: Notify,
}

#[derive(Debug)]
struct State {
    /// The segment being filled.
    segment: Segment,
    /// Time of its first record.
    since: Option<Instant>,
    /// Segments to write, oldest first.
    full: VecDeque<Segment>,
    waiters: Vec<Waiter>,
    /// Time at which the queue became full.
    full_since: Option<tokio::time::Instant>,
    closing: bool,
    over: bool,
    /// A deleted file is being copied, which may take longer than a disk may hang.
    is_restoring: bool,
    written: u64,
    failed: Option<String>,
    outage: Outage,
    notices: Vec<String>,
    /// Records that are not in the recording, during an outage or because they do not fit.
    dropped_records: u64,
    /// Time and size of the last events.
    last: (TsNs, Option<Size>),
}

/// A time in which the disk refuses blocks.
#[derive(Debug, Default)]
struct Outage {
    /// The error; `None` while there is no outage.
    reason: Option<String>,
    /// The disk takes blocks again, but not everything that waited is written.
    is_draining: bool,
    /// Events are dropped until everything that waits is written.
    is_dropping: bool,
    /// Dropped bytes of output.
    dropped: u64,
    /// The disk did not sync blocks that it had taken. The system may have discarded them.
    is_unsynced: bool,
}

#[derive(Debug)]
struct Waiter {
    request: WaiterRequest,
    reply: oneshot::Sender<Result<Written, String>>,
}

/// Work for the thread in addition to writing everything recorded so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaiterRequest {
    None,
    /// Wait for the disk.
    Sync,
    /// Create a deleted file again.
    Restore,
}

impl Recorder {
    /// Creates the file and starts the thread. `quality`: Brotli's, 0–11.
    ///
    /// # Errors
    /// The file exists and is not empty, or cannot be created.
    pub fn create(path: &Path, quality: u8) -> Result<Recorder, AhrError> {
        Recorder::begin(Writer::create(path)?, 0, quality)
    }

    /// Continues an existing recording at its end. Also returns the output bytes it contains.
    ///
    /// # Errors
    /// There is no such recording, it cannot be read or written, or another process is writing it.
    pub fn resume(path: &Path, quality: u8) -> Result<(Recorder, u64), AhrError> {
        let (writer, off) = Writer::resume(path)?;
        Ok((Recorder::begin(writer, off, quality)?, off))
    }

    fn begin(writer: Writer, off: u64, quality: u8) -> Result<Recorder, AhrError> {
        let path = &writer.path().to_path_buf();
        let state = State {
            segment: Segment::new(off),
            since: None,
            full: VecDeque::new(),
            waiters: Vec::new(),
            full_since: None,
            closing: false,
            over: false,
            is_restoring: false,
            written: off,
            failed: None,
            outage: Outage::default(),
            notices: Vec::new(),
            dropped_records: 0,
            last: (TsNs::default(), None),
        };
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Notify::new(),
            over: Condvar::new(),
            notice: Notify::new(),
        });
        let worker = Worker {
            shared: shared.clone(),
            writer,
            sealer: Sealer::default(),
            index: LiveIndex::default(),
            quality,
            retry_at: None,
            is_deleted: false,
        };
        std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || {
                // Otherwise the pump waits for a millisecond at each block: the thread that it wakes preempts it. Elsewhere than on
                // Linux it may.
                let _ = os::set_batch_scheduling();
                worker.run();
            })
            .map_err(|source| AhrError::Io { action: "start a thread for", path: path.into(), source })?;
        Ok(Recorder { shared })
    }

    /// Returns a handle for waiting on the disk.
    pub fn flusher(&self) -> Flusher {
        Flusher { shared: self.shared.clone() }
    }

    fn push(&mut self, record: &Record<'_>) -> Result<(), String> {
        let mut state = self.shared.state.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        if state.track_outage(record) {
            return Ok(());
        }
        if let Err(error) = state.segment.push(record) {
            self.shared.notice.notify_one();
            return state.drop_oversized(record, error);
        }
        if state.segment.is_full() {
            let next = Segment::new(state.segment.end());
            let full = std::mem::replace(&mut state.segment, next);
            state.since = None;
            state.full.push_back(full);
            self.shared.work.notify_one();
            if state.full.len() >= MAX_QUEUED && state.outage.reason.is_none() {
                return Err(self.shared.fail_disk(&mut state));
            }
        } else if state.since.is_none() {
            state.since = Some(Instant::now());
            self.shared.work.notify_one();
        }
        Ok(())
    }
}

impl Tap for Recorder {
    fn name(&self) -> &str {
        "recording"
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        let at = event.at;
        let body = match event.kind {
            EventKind::Output(bytes) => Body::Data { off: event.off, bytes },
            EventKind::Input { bytes, origin, redacted } => {
                self.push(&Record { at, body: Body::Mark(Mark::Input { origin, redacted }) })?;
                Body::Input { bytes }
            }
            EventKind::Resize(size) => Body::Resize { cols: size.cols, rows: size.rows },
            EventKind::Snapshot { id, label } => {
                Body::Snapshot { id, anchor: event.off, label: label.as_bytes() }
            }
            EventKind::Gap => Body::Mark(Mark::Gap(REATTACHED)),
            EventKind::Exit(exit) => Body::Mark(Mark::Exit(exit)),
        };
        self.push(&Record { at, body })
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.shared.state.lock().notices)
    }
}

impl Drop for Recorder {
    /// Writes the rest and the last block, syncs, and waits for that within the timeout, unless the disk already hangs.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closing = true;
        self.shared.work.notify_one();
        if state.failed.is_none() {
            let waiting = |state: &mut State| !state.over;
            // After a timeout there is nothing left to do.
            self.shared.over.wait_while_for(&mut state, waiting, DISK_TIMEOUT);
        }
    }
}

impl Flusher {
    /// Waits until everything recorded so far is in the file; with `sync` also on the disk.
    ///
    /// # Errors
    /// The recording has failed; the message.
    pub async fn flush(&self, sync: bool) -> Result<Written, String> {
        self.request(if sync { WaiterRequest::Sync } else { WaiterRequest::None }).await
    }

    /// Creates the file again if it was deleted, with everything recorded so far.
    ///
    /// # Errors
    /// Another file has its path, or the recording has failed; the message.
    pub async fn restore_file(&self) -> Result<(), String> {
        self.request(WaiterRequest::Restore).await.map(drop)
    }

    async fn request(&self, request: WaiterRequest) -> Result<Written, String> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            state.waiters.push(Waiter { request, reply });
        }
        self.shared.work.notify_one();
        answer.await.unwrap_or_else(|_| Err("the recording is closed".to_string()))
    }

    /// Returns true if the disk keeps up. Otherwise the child should not be read, see [`Flusher::room`].
    pub fn has_room(&self) -> bool {
        let mut state = self.shared.state.lock();
        let is_waiting = state.failed.is_none() && !state.outage.is_refused();
        let has_room = state.full.len() < MAX_WAITING || !is_waiting;
        match has_room {
            true => state.full_since = None,
            false => drop(state.full_since.get_or_insert_with(tokio::time::Instant::now)),
        }
        has_room
    }

    /// Waits until the disk has taken something. After 10 s without progress the recording fails, unless its file is being
    /// restored. Cancel-safe.
    pub async fn room(&self) {
        let since = self.shared.state.lock().full_since.unwrap_or_else(tokio::time::Instant::now);
        if tokio::time::timeout_at(since + DISK_TIMEOUT, self.shared.room.notified()).await.is_ok() {
            return;
        }
        let mut state = self.shared.state.lock();
        match state.is_restoring {
            true => state.full_since = None,
            false => drop(self.shared.fail_disk(&mut state)),
        }
    }

    /// Waits for notices of the recorder: see [`Tap::take_notices`]. Cancel-safe.
    pub async fn noticed(&self) {
        self.shared.notice.notified().await;
    }

    /// Returns the error of the disk while it refuses blocks; after the end of the recording, what was not written is lost.
    pub fn outage(&self) -> Option<String> {
        self.shared.state.lock().outage.reason.clone()
    }

    /// Returns the number of records that were dropped so far.
    pub(crate) fn dropped_records(&self) -> u64 {
        self.shared.state.lock().dropped_records
    }

    /// Returns the recording's path.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

impl Shared {
    /// Ends a recording whose disk hangs, and discards what is queued.
    fn fail_disk(&self, state: &mut State) -> String {
        let message = format!("{}: the disk does not respond", self.path.display());
        state.full.clear();
        state.failed.get_or_insert(message).clone()
    }
}

impl Outage {
    /// Returns true while the disk refuses blocks.
    fn is_refused(&self) -> bool {
        self.reason.is_some() && !self.is_draining
    }
}

impl State {
    /// Updates the state of an outage for a record. Returns true if the record is dropped, because too much waits.
    fn track_outage(&mut self, record: &Record<'_>) -> bool {
        self.last.0 = record.at;
        if let Body::Resize { cols, rows } = record.body {
            self.last.1 = Some(Size::new(cols, rows));
        }
        let limit = if self.outage.is_refused() { MAX_WAITING } else { MAX_QUEUED };
        self.outage.is_dropping |= self.outage.reason.is_some() && self.full.len() >= limit;
        if let (true, Body::Data { bytes, .. }) = (self.outage.is_dropping, record.body) {
            self.outage.dropped += bytes.len() as u64;
        }
        self.dropped_records += u64::from(self.outage.is_dropping);
        self.outage.is_dropping
    }

    /// Drops a record that fits into no segment.
    ///
    /// # Errors
    /// The record is output, whose loss would contradict the offsets of later records.
    fn drop_oversized(&mut self, record: &Record<'_>, error: RecordError) -> Result<(), String> {
        if matches!(record.body, Body::Data { .. }) {
            return Err(error.to_string());
        }
        self.dropped_records += 1;
        self.notices.push(format!("the recording lacks an event: {error}"));
        Ok(())
    }

    /// Puts the segments that the disk refused back at the front of the queue.
    fn begin_outage(&mut self, reason: String, refused: VecDeque<Segment>) {
        self.outage.is_unsynced |= refused.is_empty();
        if self.failed.is_none() {
            refused.into_iter().rev().for_each(|segment| self.full.push_front(segment));
        }
        if self.outage.reason.is_none() {
            self.notices.push(format!("the recording is interrupted: {reason}"));
        }
        (self.outage.reason, self.outage.is_draining) = (Some(reason), false);
    }

    /// Continues after an outage, once everything that waited is written.
    fn end_outage(&mut self) {
        if self.outage.reason.is_none() {
            return;
        }
        if !self.full.is_empty() {
            self.outage.is_draining = true;
            return;
        }
        let missing = match (self.outage.dropped, self.outage.is_unsynced) {
            (0, false) => "nothing is missing".to_string(),
            (0, true) => "its last output before the interruption may be missing".to_string(),
            (dropped, _) => format!("{dropped} bytes of output are missing"),
        };
        self.notices.push(format!("the recording continues: {missing}"));
        self.mark_gap();
        self.outage = Outage::default();
    }

    /// Records that events were dropped.
    fn mark_gap(&mut self) {
        if !std::mem::take(&mut self.outage.is_dropping) {
            return;
        }
        let (at, size) = self.last;
        let resize = size.map(|size| Body::Resize { cols: size.cols, rows: size.rows });
        for body in [Some(Body::Mark(Mark::Gap(DISK_FULL))), resize].into_iter().flatten() {
            // Both always fit into a segment.
            let _ = self.segment.push(&Record { at, body });
        }
        self.since.get_or_insert_with(Instant::now);
    }

    /// Queues the current segment for writing and begins a new one.
    fn rotate(&mut self) {
        if self.closing {
            self.mark_gap();
        }
        let next = Segment::new(self.segment.end());
        let segment = std::mem::replace(&mut self.segment, next);
        self.since = None;
        self.full.push_back(segment);
    }
}

/// The writing thread.
struct Worker {
    shared: Arc<Shared>,
    writer: Writer,
    sealer: Sealer,
    index: LiveIndex,
    quality: u8,
    /// Time of the next attempt, while the disk refuses blocks.
    retry_at: Option<Instant>,
    /// The file was deleted, and this was reported.
    is_deleted: bool,
}

/// Ends all waits when the thread ends, also if it panics.
struct WorkerEnd(Arc<Shared>);

impl Drop for WorkerEnd {
    fn drop(&mut self) {
        let WorkerEnd(shared) = self;
        let mut state = shared.state.lock();
        // Later requests fail with this message.
        state.failed.get_or_insert_with(|| "the recording is closed".to_string());
        state.waiters.clear();
        state.over = true;
        drop(state);
        shared.over.notify_all();
        shared.room.notify_one();
    }
}

/// Work taken from the shared state at once.
struct Batch {
    /// Segments not written yet.
    segments: VecDeque<Segment>,
    waiters: Vec<Waiter>,
    closing: bool,
    behind: bool,
    /// Output bytes in the file after the last written segment.
    written: Option<u64>,
}

impl Worker {
    fn run(mut self) {
        let _end = WorkerEnd(self.shared.clone());
        loop {
            let mut batch = self.next_batch();
            let result = self.write(&mut batch);
            let restored = batch.has(WaiterRequest::Restore).then(|| self.restore());
            let notice = self.notice_of_deletion();
            let mut state = self.shared.state.lock();
            if let Some(off) = batch.written {
                state.written = off;
                state.full_since = None;
            }
            let mut outcome = Ok(Written { off: state.written });
            match result {
                Ok(()) => {
                    self.retry_at = None;
                    state.end_outage();
                }
                Err(error) => {
                    self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
                    let reason = format!("{}: {error}", self.shared.path.display());
                    state.begin_outage(reason.clone(), batch.segments);
                    outcome = Err(reason);
                }
            }
            if let Some(failed) = &state.failed {
                outcome = Err(failed.clone());
            }
            state.notices.extend(notice);
            if !state.notices.is_empty() {
                self.shared.notice.notify_one();
            }
            drop(state);
            self.shared.room.notify_one();
            for Waiter { request, reply } in batch.waiters {
                let outcome = match &restored {
                    Some(Err(error)) if request == WaiterRequest::Restore => Err(error.to_string()),
                    _ => outcome.clone(),
                };
                let _ = reply.send(outcome);
            }
            if batch.closing {
                break;
            }
        }
    }

    /// Creates a deleted file again.
    fn restore(&mut self) -> io::Result<()> {
        self.shared.state.lock().is_restoring = true;
        let restored = self.writer.restore();
        self.shared.state.lock().is_restoring = false;
        restored
    }

    /// Returns a notice if the file was deleted or restored since the last call.
    fn notice_of_deletion(&mut self) -> Option<String> {
        let was_deleted = std::mem::replace(&mut self.is_deleted, self.writer.is_deleted());
        let path = self.shared.path.display();
        match (was_deleted, self.is_deleted) {
            (false, true) => Some(format!(
                "the recording was deleted: {path}; 'nerve doctor --fix' restores it while the program runs"
            )),
            (true, false) => Some(format!("the recording is restored: {path}")),
            _ => None,
        }
    }

    fn next_batch(&self) -> Batch {
        let mut state = self.shared.state.lock();
        loop {
            let requested = state.closing || !state.waiters.is_empty();
            let due = state.since.map(|since| (ROTATE_AFTER - WRITE_MARGIN).saturating_sub(since.elapsed()));
            let retry = self.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
            // While the disk refuses blocks, short segments do not pile up.
            let may_rotate = retry.is_none() || state.full.is_empty();
            if requested || due == Some(Duration::ZERO) && may_rotate {
                state.rotate();
            }
            let is_retry_due = retry.is_none_or(|retry| retry.is_zero());
            if requested || !state.full.is_empty() && is_retry_due {
                return take_batch(&mut state, requested);
            }
            let wait = if state.full.is_empty() { due.filter(|_| state.since.is_some()) } else { retry };
            match wait {
                Some(wait) => {
                    self.shared.work.wait_for(&mut state, wait);
                }
                None => self.shared.work.wait(&mut state),
            }
        }
    }

    /// Writes the segments and removes those written from the batch.
    fn write(&mut self, batch: &mut Batch) -> io::Result<()> {
        while let Some(segment) = batch.segments.front() {
            let ends = batch.closing && batch.segments.len() == 1;
            if !segment.is_empty() || ends {
                let quality = match batch.behind {
                    true => self.quality.min(FAST_QUALITY),
                    false if segment.is_full() && self.quality == DEFAULT_QUALITY => FLOOD_QUALITY,
                    false => self.quality,
                };
                self.writer.append(&self.sealer.seal(segment, quality, ends))?;
                if !segment.is_full() {
                    // Little output: the next block is far away.
                    self.sealer.release();
                    if !batch.closing {
                        self.index.extend(self.writer.path(), segment.end());
                    }
                }
                batch.written = Some(segment.end());
            }
            batch.segments.pop_front();
        }
        if batch.closing || batch.has(WaiterRequest::Sync) {
            self.writer.sync()?;
        }
        Ok(())
    }
}

impl Batch {
    fn has(&self, request: WaiterRequest) -> bool {
        self.waiters.iter().any(|waiter| waiter.request == request)
    }
}

fn take_batch(state: &mut State, requested: bool) -> Batch {
    let behind = state.full.len() > FAST_FROM;
    // One segment at a time frees room early; all of them if a flush is requested.
    let take = if requested { state.full.len() } else { 1 };
    let segments = state.full.drain(..take).collect();
    let waiters = std::mem::take(&mut state.waiters);
    Batch { segments, waiters, closing: state.closing, behind, written: None }
}

#[cfg(test)]
mod tests {
    use nerve_record::ahr::{Part, Reader};
    use nerve_record::index::Index;
    use nerve_testkit::harness::SmallDisk;
    use nerve_testkit::{DEADLINE, wait_until};
    use nerve_types::TsNs;

    use super::*;

    fn data(recorder: &mut Recorder, off: u64, bytes: &[u8]) {
        recorder.event(&Event { at: TsNs(1), off, kind: EventKind::Output(bytes) }).unwrap();
    }

    fn output_of(path: &Path) -> (Vec<u8>, bool) {
        let mut reader = Reader::open(path).unwrap();
        let (mut output, mut last) = (Vec::new(), false);
        while let Some(part) = reader.next().unwrap() {
            let Part::Block(block) = part else { panic!("something is lost") };
            last = block.header.last;
            for record in block.records() {
                if let Body::Data { off, bytes } = record.body {
                    assert_eq!(off, output.len() as u64);
                    output.extend_from_slice(bytes);
                }
            }
        }
        (output, last)
    }

    #[test]
    fn timer_writes_output_of_idle_session() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        data(&mut recorder, 0, b"hello");
        assert!(wait_until(DEADLINE, || output_of(&path).0 == b"hello"), "not written");
        assert!(!output_of(&path).1);
        drop(recorder);
        assert_eq!(output_of(&path), (b"hello".to_vec(), true));
    }

    #[tokio::test]
    async fn flush_writes_all_output_of_fast_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        let flusher = recorder.flusher();
        let piece: Vec<u8> = (0..=255).cycle().take(40_000).collect();
        for at in 0..300_u64 {
            data(&mut recorder, at * 40_000, &piece);
        }
        assert_eq!(flusher.flush(true).await, Ok(Written { off: 12_000_000 }));
        assert_eq!(output_of(&path).0, piece.repeat(300));
        drop(recorder);
        assert!(flusher.flush(true).await.is_err());
    }

    #[tokio::test]
    async fn long_recording_is_indexed_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        let piece = noise(1 << 20);
        for at in 0..9 {
            data(&mut recorder, at * piece.len() as u64, &piece);
        }
        assert_eq!(recorder.flusher().flush(false).await, Ok(Written { off: 9 << 20 }));
        assert!(Index::open(&path).is_none(), "the output is a flood");
        data(&mut recorder, 9 << 20, b"$ ");
        let indexed = || Index::open(&path).is_some_and(|index| index.end().0 > 8 << 20);
        assert!(wait_until(DEADLINE, indexed), "no index");
    }

    /// Returns lines of digits that are all different.
    fn noise(len: usize) -> Vec<u8> {
        let numbers = (1_u32..).map(|n| format!("{}\r\n", n.wrapping_mul(2_654_435_761)));
        numbers.flat_map(String::into_bytes).take(len).collect()
    }

    #[tokio::test]
    async fn deleted_file_is_reported_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        let flusher = recorder.flusher();
        data(&mut recorder, 0, b"before");
        flusher.flush(true).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        data(&mut recorder, 6, b" deleted");
        flusher.flush(false).await.unwrap();
        assert!(recorder.take_notices().concat().contains("was deleted"));

        std::fs::write(&path, "of another program").unwrap();
        assert!(flusher.restore_file().await.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"of another program");
        std::fs::remove_file(&path).unwrap();
        flusher.restore_file().await.unwrap();
        assert!(recorder.take_notices().concat().contains("is restored"));
        assert!(Recorder::resume(&path, 4).is_err(), "the restored file is not locked");
        data(&mut recorder, 14, b" after");
        drop(recorder);
        assert_eq!(output_of(&path), (b"before deleted after".to_vec(), true));
    }

    #[test]
    fn resume_truncates_torn_tail_and_continues() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        data(&mut recorder, 0, b"before");
        assert!(Recorder::resume(&path, 4).is_err(), "another recorder is writing it");
        drop(recorder);
        let whole = std::fs::read(&path).unwrap();
        for torn in [&b""[..], &whole[..30], &whole[..whole.len() - 3]] {
            std::fs::write(&path, [&whole, torn].concat()).unwrap();
            let (mut recorder, off) = Recorder::resume(&path, 4).unwrap();
            assert_eq!(off, 6);
            recorder.event(&Event { at: TsNs(2), off, kind: EventKind::Gap }).unwrap();
            data(&mut recorder, off, b" after");
            drop(recorder);
            assert_eq!(output_of(&path), (b"before after".to_vec(), true));
            assert!(std::fs::read(&path).unwrap().starts_with(&whole));
        }
        assert!(Recorder::resume(&dir.path().join("none.ahr"), 4).is_err());
    }

    /// Fills a disk of 64 KiB, so that no further block fits.
    fn fill(folder: &Path) {
        let filled = std::fs::write(folder.join("filler"), vec![1; 1 << 20]);
        assert!(filled.is_err(), "the disk is not full");
    }

    #[tokio::test]
    async fn recording_continues_when_full_disk_has_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let test = "recording_continues_when_full_disk_has_room_again";
        let Some(_disk) = SmallDisk::mount(test, dir.path(), "64k") else { return };
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        fill(dir.path());
        data(&mut recorder, 0, &[b'x'; 5000]);
        let flusher = recorder.flusher();
        assert!(flusher.flush(false).await.unwrap_err().contains("No space left"));
        assert!(flusher.outage().is_some());
        let notices = recorder.take_notices();
        assert!(notices.len() == 1 && notices[0].contains("No space left"), "{notices:?}");
        std::fs::remove_file(dir.path().join("filler")).unwrap();
        data(&mut recorder, 5000, b"y");
        assert!(wait_until(DEADLINE, || flusher.outage().is_none()), "it is not retried");
        assert!(recorder.take_notices()[0].contains("nothing is missing"));
        drop(recorder);
        assert_eq!(output_of(&path), ([&[b'x'; 5000][..], b"y"].concat(), true));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_restoration_does_not_end_the_recording() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&dir.path().join("a.ahr"), 4).unwrap();
        let flusher = recorder.flusher();
        for is_restoring in [true, false] {
            {
                let mut state = recorder.shared.state.lock();
                state.is_restoring = is_restoring;
                state.full_since = Some(tokio::time::Instant::now());
            }
            flusher.room().await;
            assert_eq!(recorder.shared.state.lock().failed.is_none(), is_restoring);
        }
    }

    #[test]
    fn failed_sync_is_not_reported_as_complete() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&dir.path().join("a.ahr"), 4).unwrap();
        let mut state = recorder.shared.state.lock();
        for (refused, is_complete) in [(VecDeque::from([Segment::new(0)]), true), (VecDeque::new(), false)] {
            state.begin_outage("full".to_string(), refused);
            state.full.clear();
            state.end_outage();
            assert_eq!(state.notices.pop().unwrap().contains("nothing is missing"), is_complete);
        }
    }

    #[tokio::test]
    async fn panic_of_the_thread_ends_all_waits() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&dir.path().join("a.ahr"), 4).unwrap();
        let (reply, answer) = oneshot::channel();
        let shared = recorder.shared.clone();
        // The thread of the recorder ends, so that it does not answer.
        drop(recorder);
        {
            let mut state = shared.state.lock();
            (state.over, state.failed) = (false, None);
            state.waiters.push(Waiter { request: WaiterRequest::None, reply });
        }
        let panicking = shared.clone();
        let panicked = std::thread::spawn(move || {
            let _end = WorkerEnd(panicking);
            panic!("as a fault of the thread");
        });
        assert!(panicked.join().is_err());
        assert!(answer.await.is_err());
        assert!(Flusher { shared }.flush(true).await.is_err());
    }

    #[test]
    fn oversized_label_is_dropped_and_recording_continues() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        let label = &"x".repeat(usize::from(u16::MAX) + 1);
        recorder.event(&Event { at: TsNs(1), off: 0, kind: EventKind::Snapshot { id: 1, label } }).unwrap();
        assert_eq!((recorder.flusher().dropped_records(), recorder.take_notices().len()), (1, 1));
        data(&mut recorder, 0, b"later");
        drop(recorder);
        assert_eq!(output_of(&path), (b"later".to_vec(), true));
    }

    #[tokio::test]
    async fn output_that_a_full_disk_cannot_take_is_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let test = "output_that_a_full_disk_cannot_take_is_a_gap";
        let Some(disk) = SmallDisk::mount(test, dir.path(), "64k") else { return };
        let path = dir.path().join("a.ahr");
        let mut recorder = Recorder::create(&path, 4).unwrap();
        let (flusher, piece) = (recorder.flusher(), vec![b'x'; 256 << 10]);
        let size = EventKind::Resize(Size::new(90, 20));
        fill(dir.path());
        recorder.event(&Event { at: TsNs(1), off: 0, kind: size }).unwrap();
        assert!(flusher.flush(false).await.is_err());
        for at in 0..40 {
            assert!(flusher.has_room(), "the child waits for a full disk");
            data(&mut recorder, at * piece.len() as u64, &piece);
        }
        disk.resize("16m");
        std::fs::remove_file(dir.path().join("filler")).unwrap();
        assert!(wait_until(DEADLINE, || flusher.outage().is_none()), "it is not retried");
        data(&mut recorder, 40 * piece.len() as u64, b"end");
        drop(recorder);
        let mut reader = Reader::open(&path).unwrap();
        let mut kinds = Vec::new();
        while let Some(part) = reader.next().unwrap() {
            let Part::Block(block) = part else { panic!("something is lost") };
            kinds.extend(block.records().filter_map(|record| match record.body {
                Body::Data { off, bytes } if off == 40 * piece.len() as u64 => Some(bytes.to_vec()),
                Body::Mark(Mark::Gap(DISK_FULL)) => Some(b"gap".to_vec()),
                Body::Resize { cols: 90, rows: 20 } => Some(b"size".to_vec()),
                _ => None,
            }));
        }
        assert_eq!(kinds, [b"size".to_vec(), b"gap".to_vec(), b"size".to_vec(), b"end".to_vec()]);
        assert_eq!(reader.contradictions().count(), 0);
    }

    #[test]
    fn existing_recording_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ahr");
        let first = Recorder::create(&path, 4).unwrap();
        assert!(Recorder::create(&path, 4).is_err());
        drop(first);
        assert!(Recorder::create(&path, 4).is_err(), "a recording is never written over");
    }
}
