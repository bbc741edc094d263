//! Replay: sizes, gaps, snapshot positions and clocks.

use nerve_record::ahr::{AhrError, Body, Segment};
use nerve_record::replay::TerminalReplay;
use nerve_types::{Size, TsNs};

use crate::{data, reader, record, recording, replayed, resize, sample, snapshot};

#[test]
fn recorded_size_applies_from_first_byte() {
    let replay = replayed(&recording(&[(0, resize(10, 3)), (1, data(0, "0123456789ab"))]));
    assert_eq!(replay.terminal.size(), Size::new(10, 3));
    assert_eq!(replay.terminal.screen().text(), "0123456789\nab");
}

#[test]
fn missing_output_is_a_gap() {
    let replay = replayed(&recording(&[(0, data(0, "one \x1b]0;cut")), (1, data(1000, "two"))]));
    assert_eq!((replay.terminal.offset(), replay.terminal.screen().text().as_str()), (1003, "one two"));
}

#[test]
fn damage_loses_only_damaged_output() {
    let mut file = recording(&[(0, data(0, "one ")), (1, data(4, "two ")), (2, data(8, "three"))]);
    let middle = file.windows(4).enumerate().filter(|(_, bytes)| *bytes == b"AHRC").nth(1).unwrap().0;
    file[middle + 46] ^= 0x55;
    let mut lost = Vec::new();
    let replay = TerminalReplay::read_all(&mut reader(&file), |stretch| lost.push(stretch.clone())).unwrap();
    assert_eq!(replay.terminal.screen().text(), "one three");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].output, Some(4..8));
}

#[test]
fn snapshot_is_bound_at_its_offset() {
    // The record precedes its offset: within, at the end of, and after the output that follows.
    let replay = replayed(&recording(&[
        (0, snapshot(1, 5, "")),
        (1, snapshot(2, 8, "")),
        (2, snapshot(3, 99, "")),
        (3, data(0, "one\r\ntwo\r\nx")),
        (4, snapshot(4, 0, "late")),
    ]));
    let snapshots: Vec<_> = replay
        .terminal
        .snapshots_by_time()
        .into_iter()
        .map(|(line, snapshot)| (snapshot.id, line.0, snapshot.col))
        .collect();
    assert_eq!(snapshots, [(1, 1, 0), (2, 1, 3), (4, 2, 1), (3, 2, 1)]);
}

#[test]
fn clock_never_decreases() {
    let mut replay = TerminalReplay::new(Size::default());
    replay.apply(&record(500, data(0, "a\x1b[?2026hb")));
    replay.apply(&record(0, data(10, "c")));
    assert_eq!(replay.clock(), record(500, data(0, "")).at);
    // An update left open is shown after 150 ms, as in a live terminal.
    assert_eq!(replay.terminal.screen().text(), "a");
    replay.wait_until(TsNs(replay.clock().0 + 150_000_000));
    assert_eq!(replay.terminal.screen().text(), "abc");
}

#[test]
fn scrollback_limit_applies() {
    let mut replay = TerminalReplay::new(Size::new(20, 2)).with_limits(3, 0);
    replay.apply(&record(0, data(0, "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7")));
    assert_eq!(replay.terminal.first_kept_line().0, 2);
}

/// Encodes blocks of about `len` bytes of output that repeats `pattern`.
fn repeating(pattern: &str, len: usize, blocks: u64) -> Vec<u8> {
    let output = pattern.repeat(len / pattern.len());
    let mut file = Vec::new();
    for nth in 0..blocks {
        let mut segment = Segment::new(nth * output.len() as u64);
        segment.push(&record(nth, Body::Data { off: segment.end(), bytes: output.as_bytes() })).unwrap();
        file.extend(segment.seal(4, false));
    }
    file
}

fn work_error(file: &[u8]) -> Option<u64> {
    match TerminalReplay::read_all(&mut reader(file), |lost| panic!("{lost}")) {
        Err(AhrError::Work { at }) => Some(at),
        other => other.map(|_| None).unwrap(),
    }
}

#[test]
fn output_that_expands_is_an_error() {
    let file = repeating("a\x1b[65535b", 1 << 20, 1);
    assert!(file.len() < 200, "{}", file.len());
    assert_eq!(work_error(&file), Some(0));
    let far = [sample(), repeating("\x1b[41m\x1b[2J\x1b[42m\x1b[2J", 15 << 20, 1)].concat();
    assert_eq!(work_error(&far), Some(sample().len() as u64));
}

#[test]
fn flood_of_resizes_is_an_error() {
    let mut segment = Segment::new(0);
    for nth in 0..300_000_u32 {
        segment.push(&record(0, resize(if nth % 2 == 0 { 80 } else { 120 }, 24))).unwrap();
    }
    assert_eq!(work_error(&segment.seal(4, true)), Some(0));
    let drag: Vec<_> =
        (0..1000).map(|nth| (u64::from(nth) * 20, resize(80 + nth % 100, 24 + nth % 30))).collect();
    assert_eq!(work_error(&recording(&drag)), None);
}

#[test]
fn flood_of_snapshots_ahead_of_output_is_an_error() {
    let mut segment = Segment::new(0);
    for nth in 0..300_000 {
        segment.push(&record(0, snapshot(nth, 1_000_000 - nth, ""))).unwrap();
    }
    assert_eq!(work_error(&segment.seal(4, true)), Some(0));
}

#[test]
fn unpacked_bytes_are_bounded_by_file() {
    let mut reader_of_zeroes = repeating("\0", 15 << 20, 1).repeat(40);
    let mut read = reader(&reader_of_zeroes);
    let error = loop {
        match read.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("everything was read"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AhrError::Work { .. }), "{error}");
    reader_of_zeroes.truncate(reader_of_zeroes.len() / 40 * 10);
    assert!(reader(&reader_of_zeroes).next().is_ok());
}

/// The worst that a recorder writes: full blocks of one repeated line.
#[test]
fn work_of_repeated_lines_is_allowed() {
    for line in ["y\r\n", "\r\n", "progress 10%\r", "\x1b[2J\x1b[Hx"] {
        let file = repeating(line, 256 << 10, 1);
        let replay = TerminalReplay::read_all(&mut reader(&file), |lost| panic!("{lost}")).unwrap();
        let per_byte = replay.terminal.work() / file.len() as u64;
        assert!(per_byte < 16 << 10, "{line:?}: {per_byte} in {} bytes", file.len());
    }
}
