//! Reads a whole recording in the background: all lines, the index and the timeline.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nerve_record::ahr::{AhrError, Body, Record};
use nerve_record::index::Index;
use nerve_record::playback::Playback;
use nerve_types::{Size, TsNs};
use tokio::sync::oneshot;

use crate::view::timeline::SnapshotMark;

/// Longest pause during playback.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(2);
/// Maximum number of snapshots and of pauses in the timeline.
const MARKS: usize = 10_000;

/// A fully read recording.
pub(super) struct LoadedRecording {
    /// Playback at the end of the recording, with all lines.
    pub(super) play: Playback,
    pub(super) marks: TimelineMarks,
}

/// Snapshots and pauses, relative to the recording's start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TimelineMarks {
    /// Snapshots in the order taken.
    pub(super) snapshots: Vec<SnapshotMark>,
    /// Ascending pauses longer than [`MAX_IDLE`].
    pub(super) idle: Vec<Range<Duration>>,
    /// Times of the first and the latest record.
    times: Option<(TsNs, TsNs)>,
}

impl TimelineMarks {
    /// Adds a record. As in playback, time does not run backwards.
    fn add(&mut self, record: &Record<'_>) {
        let (begin, latest) = self.times.unwrap_or((record.at, record.at));
        let now = record.at.max(latest);
        self.times = Some((begin, now));
        self.add_pause(begin, latest, now);
        if let Body::Snapshot { id, .. } = record.body
            && self.snapshots.len() < MARKS
        {
            self.snapshots.push(SnapshotMark { at: now.since(begin), id });
        }
    }

    /// Adds the final pause.
    fn end(&mut self, end: TsNs) {
        if let Some((begin, latest)) = self.times {
            self.add_pause(begin, latest, end.max(latest));
        }
    }

    /// Adds the time between two records if it is long enough for a pause.
    fn add_pause(&mut self, begin: TsNs, from: TsNs, to: TsNs) {
        if to.since(from) > MAX_IDLE && self.idle.len() < MARKS {
            self.idle.push(from.since(begin)..to.since(begin));
        }
    }
}

/// Starts to read the recording up to `end`. The receiver may be dropped.
pub(super) fn begin(
    recording: &Path,
    size: Size,
    end: TsNs,
) -> oneshot::Receiver<Result<LoadedRecording, AhrError>> {
    let (sender, receiver) = oneshot::channel();
    let recording = recording.to_path_buf();
    thread::spawn(move || {
        let index_thread = start_indexing(recording.clone());
        let result = read_all(&recording, size, end);
        // Seeking needs the index.
        if index_thread.join().is_err() {
            tracing::warn!(
                "making the index failed: moments of the recording are found by playing up to them"
            );
        }
        let _ = sender.send(result);
    });
    receiver
}

fn start_indexing(recording: PathBuf) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        // The reader of the lines reports read errors.
        if let Err(error) = Index::ensure(&recording) {
            tracing::debug!(%error, "no index is made");
        }
    })
}

/// Reads everything from the start.
fn read_all(path: &Path, size: Size, end: TsNs) -> Result<LoadedRecording, AhrError> {
    let (mut play, mut marks) = (Playback::open(path, size)?, TimelineMarks::default());
    play.play(|_| true, |record| marks.add(record))?;
    play.replay_mut().terminal.expire_frame(TsNs(u64::MAX));
    marks.end(end);
    Ok(LoadedRecording { play, marks })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1_700_000_000_000_000_000;

    fn seen(records: &[(u64, Body<'_>)], end: u64) -> TimelineMarks {
        let mut marks = TimelineMarks::default();
        for (millis, body) in records {
            marks.add(&Record { at: TsNs(BEGIN + millis * 1_000_000), body: *body });
        }
        marks.end(TsNs(BEGIN + end * 1_000_000));
        marks
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const DATA: Body<'_> = Body::Data { off: 0, bytes: b"x" };
    const SNAPSHOT: Body<'_> = Body::Snapshot { id: 1, anchor: 0, label: b"" };

    #[test]
    fn marks_have_snapshots_and_pauses() {
        let records = [(0, DATA), (2000, DATA), (2500, SNAPSHOT), (9000, SNAPSHOT), (9100, DATA)];
        let marks = seen(&records, 12_000);
        assert_eq!(marks.snapshots, [2500, 9000].map(|at| SnapshotMark { at: millis(at), id: 1 }));
        assert_eq!(marks.idle, [millis(2500)..millis(9000), millis(9100)..millis(12_000)]);
    }

    #[test]
    fn time_does_not_run_backwards() {
        let marks = seen(&[(0, DATA), (5000, DATA), (1000, SNAPSHOT), (6000, DATA), (8000, DATA)], 0);
        assert_eq!(marks.snapshots, [SnapshotMark { at: millis(5000), id: 1 }]);
        assert_eq!(marks.idle, [millis(0)..millis(5000)]);
    }

    #[test]
    fn marks_of_empty_and_flooded_recordings() {
        assert_eq!(seen(&[], 9000), TimelineMarks::default());
        let flood: Vec<_> = (0..MARKS as u64 + 50).map(|nth| (nth * 3000, SNAPSHOT)).collect();
        let marks = seen(&flood, 0);
        assert_eq!((marks.snapshots.len(), marks.idle.len()), (MARKS, MARKS));
    }
}
