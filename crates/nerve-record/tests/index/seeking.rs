//! After any seek the terminal equals a replay from the start.

use std::path::{Path, PathBuf};

use nerve_record::ahr::Body;
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::playback::Playback;
use nerve_record::replay::TerminalReplay;
use nerve_types::{Size, TsNs};
use nerve_vt::terminal::LineIndex;

use crate::{GeneratedRecording, START, replay_from_start, write_file};

/// Compares everything visible and the line numbers.
fn assert_same(one: &TerminalReplay, other: &TerminalReplay, what: &str) {
    assert_eq!(one.terminal.screen(), other.terminal.screen(), "{what}");
    assert_eq!(one.terminal.line_count(), other.terminal.line_count(), "{what}");
    let first = one.terminal.screen().first_line;
    for line in (first..one.terminal.line_count()).map(LineIndex) {
        assert_eq!(one.terminal.line_content(line), other.terminal.line_content(line), "{what}");
    }
}

/// Creates 10 MiB of output, which gives two keyframes.
fn long_recording(dir: &Path) -> (PathBuf, GeneratedRecording) {
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    while generated.segment.end() < 2 * SPACING + SPACING / 2 {
        generated.burst();
    }
    let path = dir.join("long.ahr");
    write_file(&path, &generated.bytes());
    (path, generated)
}

#[test]
fn seek_matches_full_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut generated) = long_recording(dir.path());
    let end = generated.segment.end();
    let mut play = Playback::open(&path, Size::default()).unwrap();
    let mut positions: Vec<Position> = (0..3).map(|_| Position::Offset(generated.random(end))).collect();
    let span = generated.at - START;
    positions.extend((0..3).map(|_| Position::Time(TsNs(START + generated.random(span)))));
    positions.extend([0, SPACING, end - 1, u64::MAX].map(Position::Offset));
    positions.extend([0, START].map(|at| Position::Time(TsNs(at))));
    for to in positions {
        play.seek(to).unwrap();
        assert_same(play.replay(), &replay_from_start(&path, to), &format!("{to:?}"));
    }
    let index = Index::open(&path).unwrap();
    assert_eq!((index.keyframes(), index.end()), (2, (end, TsNs(generated.at))));
    let block = index.block_before(Position::Offset(end / 2)).unwrap();
    assert!(block.offset <= end / 2 && block.offset > end / 2 - 300_000, "{block:?}");
}

#[test]
fn playing_after_seek_matches_full_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, generated) = long_recording(dir.path());
    let mut play = Playback::open(&path, Size::default()).unwrap();
    // Into the middle of a record, then onward record by record.
    play.seek(Position::Offset(2 * SPACING + 12_345)).unwrap();
    let to = TsNs(play.replay().clock().0 + 50_000_000);
    assert!(play.play(|record| record.at <= to, |_| {}).unwrap());
    assert_same(play.replay(), &replay_from_start(&path, Position::Time(to)), "time after offset");
    assert!(play.next_at().unwrap().unwrap() > to);
    assert!(!play.play(|_| true, |_| {}).unwrap());
    assert_same(play.replay(), &replay_from_start(&path, Position::Time(TsNs(u64::MAX))), "the end");
    assert_eq!((play.next_at().unwrap(), play.replay().clock()), (None, TsNs(generated.at)));
    play.seek(Position::Offset(10)).unwrap();
    assert_same(play.replay(), &replay_from_start(&path, Position::Offset(10)), "back to the start");
}

#[test]
fn seek_across_gap_matches_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, generated) = long_recording(dir.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0x55);
    write_file(&path, &bytes);
    let mut play = Playback::open(&path, Size::default()).unwrap();
    for eighth in [7, 3, 5] {
        let to = Position::Offset(generated.segment.end() / 8 * eighth);
        play.seek(to).unwrap();
        assert_same(play.replay(), &replay_from_start(&path, to), &format!("{eighth}/8"));
    }
    // Reported once, even if passed repeatedly.
    for _ in 0..2 {
        play.seek(Position::Offset(0)).unwrap();
        play.play(|record| record.at.0 < generated.at, |_| {}).unwrap();
    }
    assert_eq!(play.lost().len(), 1, "{:?}", play.lost());
}

#[test]
fn short_recording_needs_no_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.ahr");
    let mut generated = GeneratedRecording::new(Size::new(20, 5));
    generated.output(b"one\r\ntwo\r\nthree");
    generated.at += 1_000_000_000;
    generated.push(Body::Snapshot { id: 1, anchor: 15, label: b"here" });
    generated.output(b" four");
    write_file(&path, &generated.bytes());
    let mut play = Playback::open(&path, Size::default()).unwrap();
    play.seek(Position::Offset(5)).unwrap();
    assert_eq!(play.replay().terminal.screen().text(), "one");
    // Records before the next byte belong to the position: here a snapshot.
    play.seek(Position::Offset(15)).unwrap();
    assert_eq!(play.replay().terminal.screen().text(), "one\ntwo\nthree");
    assert_eq!(play.replay().terminal.snapshots_by_time().len(), 1);
    play.seek(Position::Time(TsNs(START))).unwrap();
    assert_eq!(play.replay().terminal.snapshots_by_time().len(), 0);
    assert!(Index::open(&path).is_none() && !Index::sidecar_path(&path).exists());
}

#[test]
fn seek_handles_decreasing_times() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clock.ahr");
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    while generated.segment.end() < 2 * SPACING {
        generated.burst();
        if generated.random(200) == 0 {
            generated.at -= 300_000_000;
        }
    }
    write_file(&path, &generated.bytes());
    let mut play = Playback::open(&path, Size::default()).unwrap();
    for tenth in [9, 2, 6] {
        let to = Position::Time(TsNs(START + (generated.at - START) / 10 * tenth));
        play.seek(to).unwrap();
        assert_same(play.replay(), &replay_from_start(&path, to), &format!("{to:?}"));
    }
}

#[test]
fn records_are_passed_on_after_being_applied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seen.ahr");
    let mut generated = GeneratedRecording::new(Size::new(20, 5));
    generated.output(b"one");
    generated.output(b"two");
    write_file(&path, &generated.bytes());
    let mut play = Playback::open(&path, Size::default()).unwrap();
    let mut outputs = Vec::new();
    let has_more = play.play(
        |_| true,
        |record| {
            if let Body::Data { bytes, .. } = record.body {
                outputs.push(bytes.to_vec());
            }
        },
    );
    assert!(!has_more.unwrap());
    assert_eq!(outputs, [b"one", b"two"]);
}
