//! Writes activities to a pipe, for the program that started a recorder (`--events-pipe-fd`).
//!
//! A thread does the writing, so callers never block. Events that do not fit while the reader stalls are dropped and counted; the
//! count is sent before the next event that fits. A reader that disconnects ends the pipe, not the session.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::activity::{Activity, Level, TsMs};
use crate::ssz::event;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};

/// Maximum number of queued events.
pub(crate) const MAX_WAITING: usize = 1024;
/// Maximum size of queued events in bytes, because outputs of tools are long.
pub(crate) const MAX_WAITING_BYTES: usize = 16 << 20;
/// Time that dropping the pipe waits for the reader to drain it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The writing end of an events pipe.
#[derive(Debug)]
pub struct EventsPipe {
    shared: Arc<Shared>,
}

/// The pipe has ended: the reader is gone or a write failed. Returned once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the events pipe has ended: {reason}")]
pub struct PipeEnded {
    /// The system's error.
    pub reason: String,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when there is a frame to write, or at the end.
    work: Condvar,
    /// Notified when the thread has ended.
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of events dropped since the last queued frame, and the time of the last of them.
    dropped: Option<(u64, TsMs)>,
    /// Reason for the end of the pipe.
    failed: Option<String>,
    is_failure_reported: bool,
    is_closing: bool,
    is_over: bool,
}

impl EventsPipe {
    /// Takes a pipe's writing end and starts the thread. The file may be non-blocking.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(pipe: File) -> io::Result<EventsPipe> {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new(), over: Condvar::new() });
        let worker = shared.clone();
        std::thread::Builder::new().name("events-pipe".into()).spawn(move || worker.run(pipe))?;
        Ok(EventsPipe { shared })
    }

    /// Queues an event. Never blocks.
    ///
    /// # Errors
    /// [`PipeEnded`], once: the reader is gone or the pipe is broken. Later events are dropped silently.
    pub fn send(&self, activity: &Activity) -> Result<(), PipeEnded> {
        let mut state = self.shared.state.lock();
        if let Some(reason) = state.failed.clone() {
            let was_reported = std::mem::replace(&mut state.is_failure_reported, true);
            return if was_reported { Ok(()) } else { Err(PipeEnded { reason }) };
        }
        state.push(activity);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Drop for EventsPipe {
    /// Waits at most `CLOSE_TIMEOUT` for the reader to take the queued events. The rest is lost.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closing = true;
        state.push_drop_count();
        self.shared.work.notify_one();
        let is_running = |state: &mut State| !state.is_over;
        if self.shared.over.wait_while_for(&mut state, is_running, CLOSE_TIMEOUT).timed_out() {
            // The thread blocks in a write and ends with the process.
            tracing::debug!("the reader of the events pipe has stalled; the rest is dropped");
        }
    }
}

impl State {
    fn push(&mut self, activity: &Activity) {
        // An event that exceeds the wire's limit counts as dropped; long texts were cut before.
        let frame = event::frame(activity).ok().filter(|frame| self.has_room(frame.len()));
        match frame {
            Some(frame) => {
                self.push_drop_count();
                self.bytes += frame.len();
                self.frames.push_back(frame);
            }
            None => {
                let count = self.dropped.map_or(0, |(count, _)| count);
                self.dropped = Some((count + 1, activity.at()));
            }
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        // One slot is reserved for the count of dropped events.
        self.frames.len() + 1 < MAX_WAITING && self.bytes + bytes <= MAX_WAITING_BYTES
    }

    /// Queues a warning with the number of dropped events.
    fn push_drop_count(&mut self) {
        let Some((count, at)) = self.dropped.take() else { return };
        let message = format!("{count} events were dropped here: they were not read fast enough");
        let warning = Activity::Log { level: Level::Warn, message, execution: None, at };
        if let Ok(frame) = event::frame(&warning) {
            self.bytes += frame.len();
            self.frames.push_back(frame);
        }
    }
}

impl Shared {
    fn run(&self, mut pipe: File) {
        while let Some(frame) = self.next() {
            if let Err(error) = write_all(&mut pipe, &frame) {
                let mut state = self.state.lock();
                state.failed = Some(error.to_string());
                state.frames.clear();
                break;
            }
        }
        drop(pipe);
        self.state.lock().is_over = true;
        self.over.notify_all();
    }

    /// Returns the next frame; `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let idle = |state: &mut State| state.frames.is_empty() && !state.is_closing;
        let mut state = self.state.lock();
        self.work.wait_while(&mut state, idle);
        let frame = state.frames.pop_front()?;
        state.bytes -= frame.len();
        Some(frame)
    }
}

/// Writes everything, even if the pipe was made non-blocking by its creator.
fn write_all(pipe: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match pipe.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(pipe, PollFlags::OUT)], None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use crate::ssz::frame::{MAX_EVENT, decode_frame};
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    fn pipe() -> (File, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        (File::from(std::os::fd::OwnedFd::from(reader)), File::from(std::os::fd::OwnedFd::from(writer)))
    }

    fn thought(text: &str) -> Activity {
        Activity::Thought { text: text.into(), reasoning: None, at: TsMs(5) }
    }

    fn all(mut reader: File) -> Vec<Activity> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        let mut events = Vec::new();
        while let Some(body) = decode_frame(&mut bytes, MAX_EVENT).unwrap() {
            events.push(event::decode(&body).unwrap());
        }
        assert!(bytes.is_empty());
        events
    }

    #[test]
    fn events_arrive_in_order_and_drop_waits_for_them() {
        let (reader, writer) = pipe();
        fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() | OFlags::NONBLOCK).unwrap();
        let reading = std::thread::spawn(move || all(reader));
        let pipe = EventsPipe::new(writer).unwrap();
        let long = "x".repeat(60_000);
        let events: Vec<Activity> = (0..200).map(|at| thought(&format!("{at} {long}"))).collect();
        for activity in &events {
            assert_eq!(pipe.send(activity), Ok(()));
        }
        drop(pipe);
        assert!(reading.join().unwrap() == events);
    }

    #[test]
    fn stalled_reader_blocks_no_caller_and_learns_what_it_missed() {
        let (reader, writer) = pipe();
        let pipe = EventsPipe::new(writer).unwrap();
        let piece = "x".repeat(1000);
        let count = 5000;
        // A blocked call would hang: nothing reads.
        for at in 0..count {
            assert_eq!(pipe.send(&thought(&format!("{at} {piece}"))), Ok(()));
        }
        let reading = std::thread::spawn(move || all(reader));
        // The next event that fits is preceded by the count.
        let deadline = Instant::now() + Duration::from_secs(20);
        while pipe.shared.state.lock().dropped.is_some() {
            assert!(Instant::now() < deadline, "the queue does not drain");
            if pipe.shared.state.lock().frames.is_empty() {
                pipe.send(&thought("again")).unwrap();
            }
            std::thread::yield_now();
        }
        drop(pipe);
        let events = reading.join().unwrap();
        // Each event arrived or was counted in its place.
        let (mut next, mut warnings) = (0, 0);
        for activity in &events[..events.len() - 1] {
            match activity {
                Activity::Thought { text, .. } => {
                    assert_eq!(text.split(' ').next(), Some(next.to_string().as_str()));
                    next += 1;
                }
                Activity::Log { level: Level::Warn, message, .. } => {
                    next += message.split(' ').next().unwrap().parse::<u32>().unwrap();
                    warnings += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(next, count);
        assert!(warnings > 0);
        assert_eq!(events.last(), Some(&thought("again")));
    }

    #[test]
    fn drop_gives_up_on_stalled_reader() {
        let (reader, writer) = pipe();
        let pipe = EventsPipe::new(writer).unwrap();
        for _ in 0..200 {
            pipe.send(&thought(&"x".repeat(60_000))).unwrap();
        }
        // Without a time limit this would hang: nothing reads.
        drop(pipe);
        drop(reader);
    }

    #[test]
    fn disconnected_reader_is_reported_once() {
        let (reader, writer) = pipe();
        let pipe = EventsPipe::new(writer).unwrap();
        drop(reader);
        pipe.send(&thought("lost")).unwrap();
        let over = |state: &mut State| !state.is_over;
        pipe.shared.over.wait_while(&mut pipe.shared.state.lock(), over);
        let ended = pipe.send(&thought("still lost")).unwrap_err();
        assert!(ended.reason.contains("pipe"), "{ended}");
        assert_eq!(pipe.send(&thought("and again")), Ok(()));
    }

    #[test]
    fn oversized_event_is_counted_as_dropped() {
        let (reader, writer) = pipe();
        let pipe = EventsPipe::new(writer).unwrap();
        pipe.send(&thought(&"x".repeat(MAX_EVENT))).unwrap();
        drop(pipe);
        let events = all(reader);
        assert!(
            matches!(&events[..], [Activity::Log { message, .. }] if message.starts_with("1 events")),
            "{events:?}"
        );
    }
}
