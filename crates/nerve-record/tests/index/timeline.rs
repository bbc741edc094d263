//! The overview of a recording.

use std::time::Duration;

use nerve_record::ahr::{Body, Writer};
use nerve_record::timeline::{MAX_SLICES, TimelineScan, start_of};
use nerve_types::{Size, TsNs};

use crate::{GeneratedRecording, START, write_file};

const ALL: u64 = u64::MAX;

#[test]
fn activity_has_all_output_in_few_slices() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("day.ahr");
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    for hour in 0..24 {
        generated.at = START + hour * 3_600_000_000_000;
        generated.burst();
    }
    generated.push(Body::Resize { cols: 80, rows: 24 });
    generated.push(Body::Resize { cols: 80, rows: 24 });
    write_file(&path, &generated.bytes());
    let mut scan = TimelineScan::open(&path).unwrap();
    assert!(scan.advance(ALL).unwrap());
    assert_eq!((scan.start(), start_of(&path).unwrap()), (Some(TsNs(START)), Some(TsNs(START))));
    assert_eq!(scan.duration(), Duration::from_nanos(generated.at - START));
    let activity = scan.activity();
    assert!((MAX_SLICES / 2..=MAX_SLICES).contains(&activity.bytes.len()), "{}", activity.bytes.len());
    assert_eq!(activity.bytes.iter().sum::<u64>(), generated.segment.end());
    assert_eq!(activity.bytes.iter().filter(|bytes| **bytes > 0).count(), 24);
    let sizes: Vec<Size> = scan.sizes().iter().map(|(_, size)| *size).collect();
    assert_eq!((sizes, scan.lost(false).count()), (vec![Size::new(60, 12), Size::new(80, 24)], 0));
}

#[test]
fn scan_continues_in_pieces_and_when_the_recording_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("growing.ahr");
    let mut writer = Writer::create(&path).unwrap();
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    let mut scan = TimelineScan::open(&path).unwrap();
    assert!(scan.advance(ALL).unwrap() && scan.start().is_none(), "an empty recording has no start");
    for _ in 0..2 {
        while generated.random(300) > 0 {
            generated.burst();
        }
        generated.write(&mut writer);
        let mut pieces = 0;
        while !scan.advance(1).unwrap() {
            pieces += 1;
        }
        assert!(pieces > 0 && scan.is_current());
        assert_eq!(scan.end_offset(), generated.segment.end());
        assert_eq!(scan.activity().bytes.iter().sum::<u64>(), generated.segment.end());
        let (read, len) = scan.progress();
        assert_eq!(read, len);
    }
    drop(writer);
    std::fs::remove_file(&path).unwrap();
    write_file(&path, b"");
    assert!(!scan.is_current());
}

#[test]
fn damage_has_its_time_and_an_unfinished_end_counts_only_after_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.ahr");
    let mut generated = GeneratedRecording::new(Size::new(60, 12));
    for _ in 0..400 {
        generated.burst();
    }
    let mut bytes = generated.bytes();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 50].fill(0x55);
    bytes.truncate(bytes.len() - 10);
    write_file(&path, &bytes);
    let mut scan = TimelineScan::open(&path).unwrap();
    assert!(scan.advance(ALL).unwrap());
    let lost: Vec<Duration> = scan.lost(false).map(|(at, _)| at).collect();
    assert_eq!((lost.len(), scan.lost(true).count()), (2, 1), "{:?}", scan.lost(false).collect::<Vec<_>>());
    assert!(lost[0] > Duration::ZERO && lost[0] < lost[1] && lost[1] == scan.duration());
}

#[test]
fn file_that_is_no_recording_is_lost_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.ahr");
    write_file(&path, b"not a recording");
    let mut scan = TimelineScan::open(&path).unwrap();
    assert!(scan.advance(ALL).unwrap());
    assert_eq!((scan.start(), scan.lost(false).count()), (None, 1));
}
