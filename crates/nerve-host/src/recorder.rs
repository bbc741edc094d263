//! Writes a terminal's recording. Events are collected under a lock; a separate thread compresses and writes them.
//!
//! The byte path costs one copy and never waits. Events are on disk within [`ROTATE_AFTER`]. If the disk is slower than the
//! child, the reader of the child waits for [room](Flusher::room). A disk that takes nothing for 10 s ends the recording, not
//! the session.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nerve_record::ahr::{AhrError, Body, Mark, ROTATE_AFTER, Record, Segment, Writer};
use nerve_types::{Event, EventKind};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use crate::tap::Tap;

/// Part of [`ROTATE_AFTER`] that is reserved for compressing and writing.
const WRITE_MARGIN: Duration = Duration::from_millis(50);
/// Full segments that may wait for the disk before the child is no longer read: 4 MiB.
const MAX_WAITING: usize = 16;
/// Full segments that a reader may queue without waiting for room.
const MAX_QUEUED: usize = 4 * MAX_WAITING;
/// Full segments from which on the fast quality is used.
const FAST_FROM: usize = 2;
/// Brotli quality while the thread is behind: the fastest for agents' output (0 and 1 are slower and larger).
const FAST_QUALITY: u8 = 2;
/// Reason of a gap: output was missed while no server was attached.
const REATTACHED: u32 = 1;
/// Timeout of a full queue.
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
    written: u64,
    failed: Option<String>,
}

#[derive(Debug)]
struct Waiter {
    sync: bool,
    reply: oneshot::Sender<Result<Written, String>>,
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
            written: off,
            failed: None,
        };
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Notify::new(),
            over: Condvar::new(),
        });
        let worker = Worker { shared: shared.clone(), writer, quality };
        std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || worker.run())
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
        state.segment.push(record).map_err(|error| error.to_string())?;
        if state.segment.is_full() {
            let next = Segment::new(state.segment.end());
            let full = std::mem::replace(&mut state.segment, next);
            state.since = None;
            state.full.push_back(full);
            self.shared.work.notify_one();
            if state.full.len() >= MAX_QUEUED {
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
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            state.waiters.push(Waiter { sync, reply });
        }
        self.shared.work.notify_one();
        answer.await.unwrap_or_else(|_| Err("the recording is closed".to_string()))
    }

    /// Returns true if the disk keeps up. Otherwise the child should not be read, see [`Flusher::room`].
    pub fn has_room(&self) -> bool {
        let mut state = self.shared.state.lock();
        let has_room = state.full.len() < MAX_WAITING || state.failed.is_some();
        match has_room {
            true => state.full_since = None,
            false => drop(state.full_since.get_or_insert_with(tokio::time::Instant::now)),
        }
        has_room
    }

    /// Waits until the disk has taken something. After 10 s without progress the recording fails. Cancel-safe.
    pub async fn room(&self) {
        let since = self.shared.state.lock().full_since.unwrap_or_else(tokio::time::Instant::now);
        if tokio::time::timeout_at(since + DISK_TIMEOUT, self.shared.room.notified()).await.is_err() {
            self.shared.fail_disk(&mut self.shared.state.lock());
        }
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

/// The writing thread.
struct Worker {
    shared: Arc<Shared>,
    writer: Writer,
    quality: u8,
}

/// Work taken from the shared state at once.
struct Batch {
    segments: VecDeque<Segment>,
    waiters: Vec<Waiter>,
    closing: bool,
    behind: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            let batch = self.next_batch();
            let written = self.write(&batch);
            let mut state = self.shared.state.lock();
            match &written {
                Ok(Some(off)) => {
                    state.written = *off;
                    state.full_since = None;
                }
                Ok(None) => {}
                Err(error) => state.failed = Some(format!("{}: {error}", self.shared.path.display())),
            }
            let outcome = match &state.failed {
                Some(failed) => Err(failed.clone()),
                None => Ok(Written { off: state.written }),
            };
            drop(state);
            self.shared.room.notify_one();
            for waiter in batch.waiters {
                let _ = waiter.reply.send(outcome.clone());
            }
            if batch.closing || written.is_err() {
                break;
            }
        }
        // Later requests fail with this message.
        let mut state = self.shared.state.lock();
        state.failed.get_or_insert_with(|| "the recording is closed".to_string());
        state.waiters.clear();
        state.over = true;
        drop(state);
        self.shared.over.notify_all();
        self.shared.room.notify_one();
    }

    fn next_batch(&self) -> Batch {
        let mut state = self.shared.state.lock();
        loop {
            let requested = state.closing || !state.waiters.is_empty();
            let due = state.since.map(|since| (ROTATE_AFTER - WRITE_MARGIN).saturating_sub(since.elapsed()));
            if requested || due == Some(Duration::ZERO) {
                let next = Segment::new(state.segment.end());
                let segment = std::mem::replace(&mut state.segment, next);
                state.since = None;
                state.full.push_back(segment);
            }
            if requested || !state.full.is_empty() {
                let behind = state.full.len() > FAST_FROM;
                // One segment at a time frees room early; all of them if a flush is requested.
                let take = if requested { state.full.len() } else { 1 };
                let segments = state.full.drain(..take).collect();
                let waiters = std::mem::take(&mut state.waiters);
                return Batch { segments, waiters, closing: state.closing, behind };
            }
            match due {
                Some(due) => {
                    self.shared.work.wait_for(&mut state, due);
                }
                None => self.shared.work.wait(&mut state),
            }
        }
    }

    fn write(&mut self, batch: &Batch) -> io::Result<Option<u64>> {
        let quality = if batch.behind { self.quality.min(FAST_QUALITY) } else { self.quality };
        let mut written = None;
        let last = batch.segments.len().saturating_sub(1);
        for (at, segment) in batch.segments.iter().enumerate() {
            let ends = batch.closing && at == last;
            if !segment.is_empty() || ends {
                self.writer.append(&segment.seal(quality, ends))?;
                written = Some(segment.end());
            }
        }
        if batch.closing || batch.waiters.iter().any(|waiter| waiter.sync) {
            self.writer.sync()?;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use nerve_record::ahr::{Part, Reader};
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
        let start = Instant::now();
        while output_of(&path).0 != b"hello" {
            assert!(start.elapsed() < Duration::from_secs(5), "not written");
            std::thread::yield_now();
        }
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
