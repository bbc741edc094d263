//! Opening a long recording near its end.

use std::path::Path;

use nerve_record::ahr::{Body, Record};
use nerve_record::index::{Index, Position, SPACING};
use nerve_record::playback::Playback;
use nerve_types::{Size, TsNs};

use crate::{GeneratedRecording, replay_from_start, write_file};

const OUTPUT: u64 = 1 << 20;

/// Plays to the end; returns the offset of the first played byte.
fn play_to_end(path: &Path) -> (Playback, u64) {
    let mut play = Playback::open_near_end(path, Size::new(60, 12), OUTPUT).unwrap();
    let mut first = None;
    let all = |record: &Record<'_>| {
        if let Body::Data { off, .. } = record.body {
            first.get_or_insert(off);
        }
    };
    assert!(!play.play(|_| true, all).unwrap());
    (play, first.unwrap())
}

fn long_recording() -> GeneratedRecording {
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    while generated.segment.end() < SPACING {
        generated.burst();
    }
    generated.output(b"\x1b[2J\x1b[H\x1b[mthe last screen\r\nof it");
    generated
}

#[test]
fn last_screen_matches_full_replay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.ahr");
    let mut generated = long_recording();
    let end = generated.segment.end();
    write_file(&path, &generated.bytes());
    assert!(!Index::is_ready(&path));
    let (play, first) = play_to_end(&path);
    // At most one block more than requested, counted to the start of the last one.
    assert!(first > 0 && end - first >= OUTPUT && end - first < OUTPUT + 2 * (300 << 10), "{first} of {end}");
    let full = replay_from_start(&path, Position::Time(TsNs(u64::MAX)));
    let (near, full) = (play.replay().terminal.screen(), full.terminal.screen());
    assert_eq!((near.rows, near.cursor, near.offset), (full.rows, full.cursor, full.offset));
    assert!(play.lost().is_empty());
    assert!(!Index::sidecar_path(&path).exists(), "index file created");
}

#[test]
fn short_recording_is_read_from_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.ahr");
    let mut generated = GeneratedRecording::new(Size::new(20, 5));
    generated.output(b"short output");
    write_file(&path, &generated.bytes());
    assert!(Index::is_ready(&path));
    let (play, first) = play_to_end(&path);
    assert_eq!((first, play.replay().terminal.screen().text()), (0, "short output".to_string()));
    assert_eq!(play.replay().terminal.size(), Size::new(20, 5), "recorded size not applied");
}

#[test]
fn damage_at_end_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.ahr");
    let mut generated = long_recording();
    let mut bytes = generated.bytes();
    // Bytes that resemble a block, a hole, and a truncated block.
    let at = bytes.len() - 2000;
    bytes[at..at + 300].fill(0);
    bytes.extend(b"AHRC is how a block begins, but not this one, which is words alone.");
    let last = generated.blocks.last().unwrap();
    bytes.extend(&last[..last.len() / 2]);
    write_file(&path, &bytes);
    let (play, first) = play_to_end(&path);
    assert!(first > 0 && !play.lost().is_empty());
    assert!(play.replay().terminal.offset() > SPACING - (600 << 10));
}

#[test]
fn without_block_near_end_reads_from_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("garbage.ahr");
    let mut generated = GeneratedRecording::new(Size::new(20, 5));
    generated.output(b"intact");
    let mut bytes = generated.bytes();
    bytes.resize(bytes.len() + (2 << 20), 7);
    write_file(&path, &bytes);
    let (play, first) = play_to_end(&path);
    assert_eq!((first, play.replay().terminal.screen().text()), (0, "intact".to_string()));
}
