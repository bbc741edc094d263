//! Tests with a long recording without an index: its end is shown at once, the rest when it is loaded.

use std::path::PathBuf;

use nerve_record::ahr::{Body, Record, Segment, Writer};
use nerve_vt::terminal::LineIndex;
use tempfile::TempDir;

use super::*;
use crate::view::timeline::SnapshotMark;

const START: TsNs = TsNs(1_700_000_000_000_000_000);
const LINES: u64 = 120_000;
/// A line a millisecond, and a pause before the last.
const PAUSE: Duration = Duration::from_secs(30);

/// Lines that compress little, more of them than are read at first.
fn recording() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.ahr");
    let (mut writer, mut segment) = (Writer::create(&path).unwrap(), Segment::new(0));
    let mut at = START;
    segment.push(&Record { at, body: Body::Resize { cols: 100, rows: 10 } }).unwrap();
    let mut number = 7u64;
    for line in 0..LINES {
        if segment.is_full() {
            writer.append(&segment.seal(1, false)).unwrap();
            segment = Segment::new(segment.end());
        }
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let text = format!("line {line} {number:016x} {:016x}{:016x}\r\n", number.rotate_left(9), number / 3);
        at = at + Duration::from_millis(1);
        if line == LINES - 1 {
            at = at + PAUSE;
            let body = Body::Snapshot { id: 1, anchor: segment.end(), label: b"here" };
            segment.push(&Record { at, body }).unwrap();
        }
        segment
            .push(&Record { at, body: Body::Data { off: segment.end(), bytes: text.as_bytes() } })
            .unwrap();
    }
    writer.append(&segment.seal(1, true)).unwrap();
    (folder, path)
}

fn last_line(view: &RecordingView) -> (u64, String) {
    let end_playback = view.terminal().line_count() - 2;
    (end_playback, view.terminal().line_text(LineIndex(end_playback)).unwrap())
}

fn is_last(text: &str) -> bool {
    text.starts_with(&format!("line {} ", LINES - 1))
}

#[tokio::test]
async fn end_is_shown_before_the_rest_is_loaded() {
    let (_folder, path) = recording();
    let mut view = RecordingView::open(&path, Size::default()).unwrap();
    assert!(!view.is_indexed, "there is no index yet");
    let (number, text) = last_line(&view);
    assert!(is_last(&text) && number < LINES / 2, "{number}: {text}");
    assert!(view.timeline().unwrap().snapshots.is_empty());
    let fault = view.fault().unwrap();
    assert!(fault.contains("only the end"), "{fault}");
    // As it will be seen then, in the numbers of then.
    assert!(!view.is_loaded());
    let moved = view.loaded().await.unwrap();
    assert!(view.is_loaded());
    assert_eq!(last_line(&view), (LINES - 1, text));
    assert_eq!(number.saturating_add_signed(moved), LINES - 1);
    assert_eq!((view.fault(), view.is_indexed), (None, true));
    // Opened once more, nothing has to be made good.
    let mut reopened = RecordingView::open(&path, Size::default()).unwrap();
    assert!(reopened.is_indexed && reopened.terminal().line_count() == view.terminal().line_count());
    assert_eq!(reopened.loaded().await.unwrap(), 0);
}

#[tokio::test]
async fn seek_waits_for_index_except_to_start() {
    let (_folder, path) = recording();
    let mut view = RecordingView::open(&path, Size::default()).unwrap();
    view.seek(Duration::from_secs(60)).unwrap();
    assert!(is_last(&last_line(&view).1), "the end is still shown");
    let fault = view.fault().unwrap();
    assert!(fault.contains("before seeking"), "{fault}");
    // The last request counts: playback from the start begins at once.
    view.toggle_play().unwrap();
    assert_eq!((view.time().unwrap().0, view.terminal().line_count()), (Duration::ZERO, 1));
    assert!(view.speed().is_some());
    view.seek(Duration::from_secs(50)).unwrap();
    view.skip(10).unwrap();
    assert_eq!(view.loaded().await.unwrap(), 0, "another document is shown");
    assert_eq!(view.time().unwrap().0, Duration::from_secs(60));
    let (_, text) = last_line(&view);
    assert!(text.starts_with("line 59999 "), "{text}");
}

#[tokio::test]
async fn timeline_has_snapshots_and_pauses() {
    let (_folder, path) = recording();
    let mut view = RecordingView::open(&path, Size::default()).unwrap();
    view.loaded().await.unwrap();
    let timeline = view.timeline().unwrap();
    let end = Duration::from_millis(LINES) + PAUSE;
    assert_eq!(
        (timeline.at, timeline.duration, timeline.snapshots),
        (end, end, vec![SnapshotMark { at: end, id: 1 }])
    );
    assert_eq!(timeline.idle, [Duration::from_millis(LINES - 1)..end]);
    view.seek(Duration::from_secs(1_000_000)).unwrap();
    assert_eq!(view.time(), Some((end, end)));
}

#[tokio::test]
async fn snapshot_seek_waits_for_index_and_is_exact() {
    let (_folder, path) = recording();
    let mut view = RecordingView::open(&path, Size::default()).unwrap();
    view.seek_snapshot(1).unwrap();
    assert!(view.end().is_none() && is_last(&last_line(&view).1), "the end is still shown");
    assert!(view.fault().unwrap().contains("before seeking"));
    view.loaded().await.unwrap();
    // The line after it was written at the same time.
    let (number, text) = last_line(&view);
    assert!(number == LINES - 2 && text.starts_with(&format!("line {number} ")), "{number}: {text}");
    let end = view.end().unwrap();
    assert_eq!(end.line_count(), view.terminal().line_count() + 1);
    view.seek_snapshot(404).unwrap();
    assert_eq!(last_line(&view).0, number, "of one that is not known nothing can be shown");
    view.go_to_end();
    assert!(view.end().is_none() && is_last(&last_line(&view).1));
}

/// A full-screen program's recording: at those milliseconds it writes these, and snapshots with these ids are taken.
fn screens(steps: &[(u64, &str, u64)]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("screens.ahr");
    let (mut writer, mut segment) = (Writer::create(&path).unwrap(), Segment::new(0));
    segment.push(&Record { at: START, body: Body::Resize { cols: 40, rows: 5 } }).unwrap();
    for (millis, name, id) in steps {
        let at = START + Duration::from_millis(*millis);
        let text = format!("\x1b[?1049h\x1b[2J\x1b[H{name}");
        let body = Body::Data { off: segment.end(), bytes: text.as_bytes() };
        segment.push(&Record { at, body }).unwrap();
        let body = Body::Snapshot { id: *id, anchor: segment.end(), label: b"" };
        segment.push(&Record { at, body }).unwrap();
    }
    writer.append(&segment.seal(1, true)).unwrap();
    (folder, path)
}

#[tokio::test]
async fn snapshot_seek_shows_its_screen_paused() {
    // The clock steps back after the second one.
    let steps = [(1000, "first", 7), (5000, "second", 8), (2000, "third", 9), (9000, "fourth", 10)];
    let (_folder, path) = screens(&steps);
    let mut view = RecordingView::open(&path, Size::default()).unwrap();
    view.loaded().await.unwrap();
    view.toggle_play().unwrap();
    let mut shown = |id| {
        view.seek_snapshot(id).unwrap();
        assert_eq!(view.speed(), None, "it does not play");
        (view.terminal().screen().rows[0].text.clone(), view.time().unwrap().0.as_millis())
    };
    assert_eq!(shown(9), ("third".to_string(), 5000));
    assert_eq!(shown(8), ("second".to_string(), 5000), "time stood still then");
    assert_eq!(shown(7), ("first".to_string(), 1000));
    assert_eq!(shown(8), ("second".to_string(), 5000));
    assert_eq!(shown(10), ("fourth".to_string(), 9000));
    assert!(view.end().is_none(), "that is the end");
}
